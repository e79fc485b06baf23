"""Sets a new checkout up before its agent goes on: what git ignores does not follow an agent, and the workspace's setup makes it anew.

Once for each checkout. One that was cut off by its worker's death is run again, so it must bear that. It never fails the agent: that is
told what went wrong, with the note that its host has changed.
"""

from __future__ import annotations

import time

from swarm.agent import notes
from swarm.agent.decision import Action, CallModel, RunCheck, RunTools
from swarm.agent.outcomes.words import sum_up_check
from swarm.definitions.setups import Setup
from swarm.errors import ToolError
from swarm.log import EventLog
from swarm.runtime.carrying import Keeping
from swarm.runtime.commands import Commands
from swarm.runtime.segment import Segment

log = EventLog("swarm.files")
SETUP_SECONDS = 600.0


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
        segment.store.tell_activity(segment.claim, f"sets the workspace up: {setup.source}")
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
