"""Run a workflow without a model, workers or Redis: its calls are answered by a function, and time passes at once.

tried = try_workflow(review, lambda call: ["bug"] if "Review" in call.prompt else {"real": True}, {"files": ["a.py"]})
assert tried.value == ["bug"] and [call.prompt for call in tried.calls][0] == "Review a.py"
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from swarm.agent.entries import Advanced, ToolFinished
from swarm.core.errors import CallFailed, ConfigurationError
from swarm.core.records import Limits
from swarm.definitions.model import AgentDefinition
from swarm.definitions.own.workflow import workflow_of
from swarm.models import Block
from swarm.workflows.desk import Desk, ProgramEnd
from swarm.workflows.front_ends import make_program
from swarm.workflows.native import NativeProgram
from swarm.workflows.replay import Replay
from swarm.workflows.results import as_text, read_task

BEGAN = 1_700_000_000.0
"""The time at which a trial begins, Unix seconds."""


@dataclass(frozen=True)
class TriedCall:
    """A call of a workflow, to be answered."""

    id: str
    tool: str
    given: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The agent's prompt, or the command, question or event."""
        subjects = (self.given.get(name) for name in ("prompt", "command", "question", "event", "message"))
        return next((str(one) for one in subjects if one is not None), "")


@dataclass
class WorkflowTrial:
    """A workflow's journal, and its open calls."""

    program: Callable[[Desk], Any]
    lived: list[Advanced | ToolFinished] = field(default_factory=list)
    open: dict[str, TriedCall] = field(default_factory=dict)
    now: float = BEGAN

    def wake(self) -> Replay:
        """Replay the program as a new process would, and journal its new calls."""
        desk = Desk(seed="trial", limits=Limits())
        replay = Replay(self.program(desk), desk)
        if not self.lived:
            self.append(Advanced())
        return self.go_on(replay)

    def go_on(self, replay: Replay) -> Replay:
        """Tell a program what it does not know, as the process does that has it, and journal its new calls."""
        replay.follow(self.lived)
        while replay.has_news:
            desk = replay.desk
            self.append(Advanced(calls=desk.calls, dropped=desk.dropped, notes=desk.notes))
            replay.follow(self.lived)
        return replay

    def append(self, entry: Advanced | ToolFinished) -> None:
        """Journal an entry at the trial's time."""
        self.lived.append(entry.model_copy(update={"at": self.now}))
        if isinstance(entry, ToolFinished):
            self.open.pop(entry.tool_use_id, None)
            return
        self.open |= {call["id"]: _call_of(call) for call in entry.calls}
        for call_id in entry.dropped:
            self.open.pop(call_id, None)

    def settle(self, call: TriedCall, answer: Callable[[TriedCall], Any]) -> None:
        """Journal a call's answer, or the error that it raises."""
        try:
            text, failed = _write(answer(call), typed="result_schema" in call.given), False
        except Exception as error:
            text, failed = str(error), True
        self.append(ToolFinished(tool_use_id=call.id, text=text, is_error=failed))


@dataclass(frozen=True)
class Tried:
    """The calls and the end of a workflow in a trial."""

    value: Any
    error: str
    calls: list[TriedCall]
    notes: list[str]
    """The workflow's words for people: `phase: map`."""
    seconds: float
    """How long it would have waited for moments."""


def try_workflow(
    workflow: Callable[..., Awaitable[Any]] | AgentDefinition, answer: Callable[[TriedCall], Any], task: Any = ""
) -> Tried:
    """Run a workflow to its end. `answer` gives each call's result: a text or data, or it raises, and the call fails.

    Each wait is a replay from the beginning, so that a program that cannot be repeated fails here. Raises `WorkflowChanged`.
    """
    text = as_text(task)

    def make(desk: Desk) -> Any:
        if isinstance(workflow, AgentDefinition):
            return make_program(workflow, desk, text)
        return NativeProgram(workflow, desk, text)

    if not isinstance(workflow, AgentDefinition) and workflow_of(workflow) is None:
        raise ConfigurationError(f"{workflow!r} is no workflow; declare it with `swarm.workflow`")
    trial, ended = WorkflowTrial(make), None
    while ended is None:
        replay = trial.wake()
        ended = replay.program.ended
        if ended is None and trial.open:
            trial.settle(next(iter(trial.open.values())), answer)
        elif ended is None and replay.program.until is not None:
            trial.now = max(trial.now, replay.program.until)
            trial.append(Advanced())
        elif ended is None:
            ended = ProgramEnd(error="the program waits for something that nothing will give")
        replay.program.close()
    moves = [entry for entry in trial.lived if isinstance(entry, Advanced)]
    return Tried(
        ended.value,
        ended.error,
        [_call_of(call) for entry in moves for call in entry.calls],
        [f"{note.kind}: {note.text}" for entry in moves for note in entry.notes],
        trial.now - BEGAN,
    )


def fail(reason: str) -> Any:
    """Fail the call that is being answered: `lambda call: fail("no")`."""
    raise CallFailed(reason)


def _call_of(call: Block) -> TriedCall:
    return TriedCall(call["id"], call["name"], call["input"])


def _write(answer: Any, *, typed: bool) -> str:
    """Return an answer as a call's result: of a typed agent, a text that is no JSON document becomes one."""
    if isinstance(answer, str) and (not typed or read_task(answer) != answer):
        return answer
    return json.dumps(answer, ensure_ascii=False)
