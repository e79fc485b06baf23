"""A worker, or a client, that dies at one exact point of its work.

The product has no hooks for this. Before it starts, this program wraps the steps of the store and the call of the model so
that they look for orders in a folder: a file that fits kills the process then and there, with SIGKILL, and is used up.
"""

from __future__ import annotations

import functools
import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.fleet import Fleet, Worker
from tests.forking import Forked

ORDERS = "CRASH_ORDERS"
"""The variable that names the folder of orders."""
_REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Order:
    """Die `when` (before or after) this step. Whatever is None fits everything."""

    step: str
    """A step of the store (`claim`, `append`, `spawn`, …), `complete`: the call of the model, or one of what is done with copies: `enter`,
    `carry_over` and, in the middle of that, `read_content`; or one of a workspace's `Repository`."""
    when: str
    kind: str | None = None
    """`append` only: the kind of its first entry, or of the one that is written with a reply."""
    depth: int | None = None
    """Of the agent that does it."""
    prompt: str | None = None
    """Found in the conversation (`complete`), or in the prompt of the agent that does it."""
    whole: bool = False
    """The worker's main process dies as well."""
    always: bool = False
    """Not only once."""

    def give(self, folder: Path) -> Path:
        """Put the order into the folder; once it has been carried out, its file is named `*.done`."""
        folder.mkdir(exist_ok=True)
        path = folder / f"{len(list(folder.iterdir()))}.json"
        path.with_suffix(".draft").write_text(json.dumps(asdict(self)))
        path.with_suffix(".draft").rename(path)
        return path.with_suffix(".done")

    def fits(self, step: str, when: str, facts: Mapping[str, Any]) -> bool:
        """Whether this is the point."""
        return (
            (step, when) == (self.step, self.when)
            and self.kind in (None, facts.get("kind"))
            and self.depth in (None, facts.get("depth"))
            and (self.prompt is None or self.prompt in facts.get("conversation", ""))
        )


class CrashingWorker(Worker):
    """A worker of the fleet that obeys orders to die."""

    def __init__(self, fleet: Fleet, concurrency: int = 2, *, wait: bool = True, **env: str) -> None:
        number = len(fleet.workers) + 1
        self.log = fleet.folder / f"worker-{number}.log"
        self._ready = fleet.folder / f"worker-{number}.ready"
        argv = ["worker", "-c", str(concurrency), "-P", "prefork", "-n", f"w{number}@test", "-l", "INFO"]
        self.process = Forked(
            ["celery", "-A", "swarm.tasks", *argv],
            env={**crashing_environment(fleet), "SWARM_READY_FILE": str(self._ready), **env},
            cwd=fleet.folder,
            log=self.log,
            after=__name__,
        )
        fleet.workers.append(self)
        if wait:
            self.wait_ready()


def crashing_environment(fleet: Fleet) -> dict[str, str]:
    """The environment of a process of this fleet that obeys orders."""
    return {**fleet.environment(), ORDERS: str(orders_folder(fleet)), "PYTHONPATH": str(_REPOSITORY)}


def orders_folder(fleet: Fleet) -> Path:
    """Where the fleet's orders are."""
    return fleet.folder / "orders"


def install() -> None:
    """Wrap the steps; from then on this process and its children obey."""
    from swarm.models.anthropic import AnthropicModel
    from swarm.store.agents import AgentStore
    from swarm.store.jobs import JobStore
    from swarm.store.journals import JournalStore
    from swarm.store.leases import LeaseStore
    from swarm.store.mail import MailStore
    from swarm.workspace import copies
    from swarm.workspace.repository import Repository

    for step in ("enter", "carry_over"):
        setattr(copies.Copies, step, _crashing(step, getattr(copies.Copies, step)))
    copies.read_content = _crashing("read_content", copies.read_content)
    for part, steps in (
        (AgentStore, ("claim", "reserve", "spawn", "park", "hand_over", "finish", "cancel")),
        (JobStore, ("submit",)),
        (JournalStore, ("append", "judge_end")),
        (LeaseStore, ("rescue",)),
        (MailStore, ("send_from", "take")),
    ):
        for step in steps:
            setattr(part, step, _crashing(step, getattr(part, step)))
    for step in ("snapshot", "push", "fetch", "become"):
        setattr(Repository, step, _crashing(step, getattr(Repository, step)))
    AnthropicModel.complete = _crashing("complete", AnthropicModel.complete)  # type: ignore[method-assign]


def _crashing(step: str, do: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(do)
    def wrapped(self: Any, *args: Any, **options: Any) -> Any:
        facts = _facts(step, args)
        _obey(step, "before", facts)
        answer = do(self, *args, **options)
        # A sweep that found nothing and a claim that was refused are no points in anybody's life.
        if (step != "rescue" or answer.rescued) and (step != "claim" or hasattr(answer, "generation")):
            _obey(step, "after", {**facts, "depth": _depth(answer) if step == "claim" else facts.get("depth")})
        return answer

    return wrapped


def _facts(step: str, args: tuple[Any, ...]) -> dict[str, Any]:
    match step:
        case "append":
            kinds = [entry.kind for entry in args[2]]
            return {**_about(args[0]), "kind": kinds[kinds[0] == "assistant" and len(kinds) > 1]}
        case "complete":
            return {"conversation": json.dumps(args[0].messages)}
        case "reserve" | "spawn" | "park" | "hand_over" | "finish" | "send_from" | "take" | "judge_end":
            return _about(args[0])
    return {}


def _about(claim: Any) -> dict[str, Any]:
    return {"depth": _depth(claim), "conversation": str(claim.spec.prompt)}


def _depth(claim: Any) -> int:
    return int(claim.spec.depth)


def _obey(step: str, when: str, facts: Mapping[str, Any]) -> None:
    for path in sorted(Path(os.environ[ORDERS]).glob("*.json")):
        try:
            order = Order(**json.loads(path.read_text()))
            if not order.fits(step, when, facts):
                continue
            if not order.always:
                # Of two processes at the same point, the one that can rename the order dies.
                path.rename(path.with_suffix(".done"))
        except FileNotFoundError:
            continue
        if order.whole:
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
