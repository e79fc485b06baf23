"""Runs what others than the agent want run in its sandbox: the check of its work, the setup of its workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swarm.definitions.tools import SHELL
from swarm.errors import ToolError
from swarm.permissions.judge import judge
from swarm.runtime.approvals import describe_call
from swarm.runtime.carrying import Keeping
from swarm.runtime.segment import Segment
from swarm.runtime.toolbox import Toolbox
from swarm.tools import ToolContext
from swarm.tools.processes import run_command


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
        segment = self.segment
        call = describe_call(
            SHELL,
            {"command": command},
            segment.spec,
            rules=segment.rules,
            mode=segment.mode,
            sandboxed=self.toolbox.is_sandboxed(),
        )
        verdict = judge(call)
        if verdict.action == "deny" and (verdict.rule is not None or not by_person):
            raise ToolError(f"not allowed: {verdict.reason}")
        if verdict.action == "ask" and not by_person:
            raise ToolError(f"{verdict.reason}; allow it by a rule, or give it with --check")
