"""What the shell completes: ids, types, models and scenarios.

Guarantee: whoever presses Tab waits for half a second at most for Redis, starts nothing, and reads no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swarm.client.swarm import Swarm

_PATIENCE_SECONDS = 0.5
_MOST = 50
Completions = list[tuple[str, str]]
"""Words, each with what it is."""


def complete_job(incomplete: str) -> Completions:
    """Ids of jobs, the newest first."""
    return _ask(incomplete, _jobs)


def complete_agent(incomplete: str) -> Completions:
    """Ids of jobs, and of the agents of the newest ones."""
    return _ask(incomplete, lambda swarm: [*_jobs(swarm), *_agents(swarm)])


def complete_question(incomplete: str) -> Completions:
    """Ids of questions that wait for an answer."""
    return _ask(incomplete, _questions)


def complete_type(incomplete: str) -> Completions:
    """Types of agents that a job can begin with here."""

    def find() -> Completions:
        from swarm.definitions.catalogue import load_catalogue

        found = load_catalogue(Path.cwd()).definitions
        return [(name, one.description) for name, one in sorted(found.items()) if one.may_be_first]

    return _choose(incomplete, find)


def complete_model(incomplete: str) -> Completions:
    """The models' aliases."""
    return _choose(incomplete, lambda: [(alias, "") for alias in ("haiku", "opus", "sonnet")])


def complete_scenario(incomplete: str) -> Completions:
    """The shipped rehearsals."""

    def find() -> Completions:
        from swarm.rehearsal.scenario import SHIPPED

        return [(file.stem, "") for file in sorted(SHIPPED.glob("*.yaml"))]

    return _choose(incomplete, find)


# -- what Redis knows ----------------------------------------------------------------------------------------


def _jobs(swarm: Swarm) -> Completions:
    return [(view.id, f"{view.state.replace('_', ' ')}: {view.title}") for view in swarm.jobs(_MOST)]


def _agents(swarm: Swarm) -> Completions:
    newest = [view.id for view in swarm.jobs(3)]
    return [(agent.id, f"{agent.state}: {agent.label}") for each in newest for agent in swarm.store.agents.of(each)]


def _questions(swarm: Swarm) -> Completions:
    return [(question.id, f"{question.kind}: {question.title}") for question in swarm.questions.open()]


def _ask(incomplete: str, find: Callable[[Swarm], Completions]) -> Completions:
    def look() -> Completions:
        with _open() as swarm:
            return [] if swarm is None else find(swarm)

    return _choose(incomplete, look)


@contextmanager
def _open() -> Iterator[Swarm | None]:
    """A client that neither waits nor repeats; None if the local Redis does not run, which is not started for this."""
    from swarm.client.swarm import Swarm
    from swarm.core.settings import load_settings
    from swarm.store.connection import connect, socket_path
    from swarm.store.store import Store

    settings = load_settings()
    if settings.redis_url is None and not socket_path(settings).exists():
        yield None
        return
    swarm = Swarm(settings)
    swarm.store = Store(connect(settings, timeout_seconds=_PATIENCE_SECONDS, retries=0), settings.key_prefix)
    yield swarm


def _choose(incomplete: str, find: Callable[[], Completions]) -> Completions:
    """Those that begin with what was typed, with or without the kind before the first dash; nothing if anything goes wrong."""
    try:
        found: Sequence[tuple[str, str]] = find()
    except Exception:
        # Whoever presses Tab has asked nothing yet.
        return []
    from swarm.cli.output import one_line

    return [(word, one_line(told, 60)) for word, told in found if word.startswith(incomplete)][:_MOST]
