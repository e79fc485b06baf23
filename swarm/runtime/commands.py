"""Runs commands in an agent's workspace: tool calls, checks of its work, workspace setup.

Calls that only look run side by side. A call with effects runs alone, journaled before and after.

A new checkout is set up before its agent continues, because files that git ignores do not follow an agent. A setup runs once per
checkout. If its worker dies, it runs again, so it must be repeatable. Its failure never fails the agent: the note about the changed
host describes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial

from swarm.agent import notes
from swarm.agent.decision import Action, CallModel, RunCheck, RunTools
from swarm.agent.entries import ToolFinished, ToolStarted
from swarm.agent.outcomes.messages import sum_up_check
from swarm.core.errors import ToolError
from swarm.core.log import EventLog
from swarm.definitions.setups import Setup
from swarm.definitions.tools import SHELL, Kind, row_of
from swarm.models import Block
from swarm.runtime.approvals import judge_call
from swarm.runtime.segment import Segment
from swarm.runtime.steps import Step
from swarm.runtime.toolbox import Toolbox
from swarm.runtime.wait import is_out_of_time
from swarm.runtime.workspace_sync import WorkspaceSync
from swarm.tools import ToolContext
from swarm.tools.processes import run_command
from swarm.tools.registry import describe_call

log = EventLog("swarm.files")
SETUP_SECONDS = 600.0
CONCURRENT_READS = 8
HELD_SECONDS = 0.1
"""Longest that a reply is held back by the reads that it asks for."""


class Calls:
    """Runs those calls of a segment that are allowed."""

    def __init__(self, segment: Segment, toolbox: Toolbox, steps: Sequence[Step]) -> None:
        self._journal, self._toolbox, self._steps = segment.journal, toolbox, steps

    def run(self, calls: Sequence[Block]) -> None:
        """Run the calls and journal their results."""
        history = self._journal.history
        if len(calls) == 1 and history.kind_of(calls[0]) in (Kind.EFFECT, Kind.IDEMPOTENT):
            return self._run_effect(calls[0])
        if any(row_of(call["name"]).matching != "read" for call in calls):
            # Most calls that read files take milliseconds.
            self._journal.flush()
        if len(calls) == 1 and not self._journal.holds:
            results = [self._toolbox.run(calls[0])]
        else:
            results = self._run_beside(calls)
        self._note(calls, results)

    def _run_beside(self, calls: Sequence[Block]) -> list[ToolFinished]:
        """Run calls that only look, side by side. A held reply is stored once they take longer."""
        with ThreadPoolExecutor(min(CONCURRENT_READS, len(calls))) as pool:
            running = [pool.submit(self._toolbox.run, call) for call in calls]
            try:
                if self._journal.holds and wait(running, HELD_SECONDS).not_done:
                    self._journal.flush()
                return [one.result() for one in running]
            finally:
                for one in running:
                    one.cancel()

    def _run_effect(self, call: Block) -> None:
        """Journal the start, run, keep the files, journal the result.

        After a crash, the journal shows that the call may have run.
        """
        history = self._journal.history
        if call["id"] not in history.tools_started or call["id"] in history.waits:
            self._journal.append([ToolStarted(tool_use_id=call["id"])], activity=describe_call(call))
        for step in self._steps:
            step.before_call(call)
        result = self._toolbox.run(call)
        for step in self._steps:
            result = step.after_call(call, result)
        self._note([call], [result])

    def _note(self, calls: Sequence[Block], results: Sequence[ToolFinished]) -> None:
        for step in self._steps:
            results = step.after_calls(calls, results)
        self._journal.append_results(results)
        for step in self._steps:
            step.noted()


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    context: ToolContext
    exit_code: int
    timed_out: bool
    output: str

    @property
    def passed(self) -> bool:
        """Whether the command exited with 0 in time."""
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True)
class Commands:
    """Runs commands for the runtime in the sandbox of one running agent."""

    segment: Segment
    toolbox: Toolbox
    files: WorkspaceSync

    def run(self, command: str, *, name: str, seconds: float, by_person: bool, program: Sequence[str] = ()) -> Ran:
        """Run a command for at most `seconds`.

        `program` replaces the shell and reads the command as descriptor 20.

        If the command is cut off, the next segment undoes its file changes. Raises `ToolError` if it cannot run or a rule denies it.
        A command that no person gave also needs the agent's own permissions.
        """
        self._refuse_forbidden(command, by_person)
        context = self.toolbox.context_of(f"{name}-{self.segment.journal.next_number}")
        argv = context.confine(context, list(program)) if program and context.confine else None
        # Files left by a command that is cut off are not the agent's work.
        self.files.before_call({"id": context.tool_use_id})
        ran = run_command(context, command, context.confine, seconds, argv=argv)
        self.files.ran()
        output = ran.output.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}").strip("\n")
        return Ran(context, ran.exit_code, ran.timed_out, output)

    def _refuse_forbidden(self, command: str, by_person: bool) -> None:
        verdict = judge_call(self.segment, SHELL, {"command": command}, sandboxed=self.toolbox.is_sandboxed())
        if verdict.action == "deny" and (verdict.rule is not None or not by_person):
            raise ToolError(f"not allowed: {verdict.reason}")
        if verdict.action == "ask" and not by_person:
            raise ToolError(f"{verdict.reason}; allow it by a rule, or give it with --check")


class SetupStep(Step):
    """The setup of one running agent's checkout."""

    takes = (CallModel, RunTools, RunCheck)

    def due(self, action: Action) -> Callable[[], None] | None:
        segment = self.segment
        # An agent that may write nothing could set nothing up.
        if segment.spec.definition.read_only or segment.mode == "plan" or segment.history.final_answer is not None:
            return None
        setup = self.parts.files.due_setup()
        return None if setup is None or is_out_of_time(segment) else partial(self._set_up, setup)

    def _set_up(self, setup: Setup) -> None:
        """Run the setup and journal that it has run."""
        segment = self.segment
        segment.store.events.show_activity(segment.claim, f"sets the workspace up: {setup.source}")
        began = time.monotonic()
        failure = self._run(setup)
        self.parts.files.set_up(notes.setup_failed(setup.source, *failure) if failure else "")
        seconds = time.monotonic() - began
        log.info("files.set_up", agent_id=segment.spec.agent_id, source=setup.source, ok=not failure, seconds=seconds)

    def _run(self, setup: Setup) -> tuple[str, str] | None:
        """The failure in a line, and the output; None if the setup passed."""
        try:
            ran = self.parts.commands.run(
                setup.command, name="setup", seconds=SETUP_SECONDS, by_person=True, program=setup.program
            )
        except ToolError as error:
            return f"it could not be run: {error}", ""
        if ran.passed:
            return None
        return sum_up_check(setup.command, ran.exit_code, ran.timed_out, SETUP_SECONDS), ran.output
