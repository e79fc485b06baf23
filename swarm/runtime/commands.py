"""What runs in an agent's workspace: the calls of tools that one reply makes, and what others than the agent want run there.

Calls that only look run side by side; what has effects runs alone, noted before and after. Commands of others are the check of its work
and the setup of its workspace.

A new checkout is set up before its agent goes on: what git ignores does not follow an agent, and the workspace's setup makes it anew.
Once for each checkout. One that was cut off by its worker's death is run again, so it must bear that. It never fails the agent: that is
told what went wrong, with the note that its host has changed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from swarm.agent import notes
from swarm.agent.decision import Action, CallModel, RunCheck, RunTools
from swarm.agent.entries import ToolStarted
from swarm.agent.outcomes.words import sum_up_check
from swarm.core.errors import ToolError
from swarm.core.log import EventLog
from swarm.definitions.setups import Setup
from swarm.definitions.tools import SHELL, Kind
from swarm.models import Block
from swarm.runtime.approvals import judge_call
from swarm.runtime.carrying import Keeping
from swarm.runtime.guidance import Guidance
from swarm.runtime.segment import Segment
from swarm.runtime.toolbox import Toolbox
from swarm.tools import ToolContext
from swarm.tools.processes import run_command

log = EventLog("swarm.files")
SETUP_SECONDS = 600.0
CONCURRENT_READS = 8


class Calls:
    """Runs the calls of one segment that may be run."""

    def __init__(self, segment: Segment, toolbox: Toolbox, guidance: Guidance, files: Keeping) -> None:
        self._journal, self._toolbox, self._guidance, self._files = segment.journal, toolbox, guidance, files

    def run(self, calls: Sequence[Block]) -> None:
        """Run them, and journal their results."""
        life = self._journal.life
        if len(calls) == 1 and life.kind_of(calls[0]) in (Kind.EFFECT, Kind.IDEMPOTENT):
            return self._run_effect(calls[0])
        if len(calls) == 1:
            results = [self._toolbox.run(calls[0])]
        else:
            with ThreadPoolExecutor(min(CONCURRENT_READS, len(calls))) as pool:
                results = list(pool.map(self._toolbox.run, calls))
        self._journal.append_results(self._guidance.follow(calls, results))
        self._files.kept()

    def _run_effect(self, call: Block) -> None:
        """Noted, run, its files kept, its result noted: whoever dies in between, the next one knows what the call may have done."""
        life = self._journal.life
        if call["id"] not in life.tools_started or call["id"] in life.waits:
            self._journal.append([ToolStarted(tool_use_id=call["id"])], activity=self._toolbox.activity(call))
        self._files.begin(call)
        result = self._files.keep(self._toolbox.run(call))
        self._journal.append_results(self._guidance.follow([call], [result]))
        self._files.kept()


@dataclass(frozen=True)
class Ran:
    """How it ended."""

    context: ToolContext
    exit_code: int
    timed_out: bool
    output: str

    @property
    def passed(self) -> bool:
        """Whether it did what it should."""
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True)
class Commands:
    """Runs commands for the runtime in the sandbox of one running agent."""

    segment: Segment
    toolbox: Toolbox
    files: Keeping

    def run(self, command: str, *, name: str, seconds: float, by_person: bool, program: Sequence[str] = ()) -> Ran:
        """Run it to its end, at most `seconds`; `program` is what reads it, as descriptor 20, in place of a shell.

        What one that is cut off has left of the files is undone by whoever goes on. Raises `ToolError` if it cannot be run, if a rule
        denies it, and, where no person has given it, if the agent might not run such a command unasked.
        """
        self._refuse_forbidden(command, by_person)
        context = self.toolbox.context_of(f"{name}-{self.segment.journal.next_number}")
        argv = context.confine(context, list(program)) if program and context.confine else None
        # What it leaves when it is cut off is not the agent's work.
        self.files.begin({"id": context.tool_use_id})
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


class SettingUp:
    """The setup of one running agent's checkout."""

    def __init__(self, segment: Segment, commands: Commands, files: Keeping) -> None:
        self._segment, self._commands, self._files = segment, commands, files

    def is_due(self, action: Action) -> bool:
        """Whether the checkout is to be set up before this."""
        segment = self._segment
        if not isinstance(action, CallModel | RunTools | RunCheck) or segment.life.last_words is not None:
            return False
        # Who may write nothing could set nothing up.
        is_writer = not segment.spec.definition.read_only and segment.mode != "plan"
        return is_writer and self._files.due_setup() is not None

    def run(self) -> None:
        """Do it, and note that it is done."""
        segment, setup = self._segment, self._files.due_setup()
        assert setup is not None, "nothing is due"
        segment.store.events.tell_activity(segment.claim, f"sets the workspace up: {setup.source}")
        began = time.monotonic()
        failure = self._run(setup)
        self._files.set_up(notes.setup_failed(setup.source, *failure) if failure else "")
        seconds = time.monotonic() - began
        log.info("files.set_up", agent_id=segment.spec.agent_id, source=setup.source, ok=not failure, seconds=seconds)

    def _run(self, setup: Setup) -> tuple[str, str] | None:
        """What went wrong, in a line, and what was printed; None: nothing."""
        try:
            ran = self._commands.run(
                setup.command, name="setup", seconds=SETUP_SECONDS, by_person=True, program=setup.program
            )
        except ToolError as error:
            return f"it could not be run: {error}", ""
        if ran.passed:
            return None
        return sum_up_check(setup.command, ran.exit_code, ran.timed_out, SETUP_SECONDS), ran.output
