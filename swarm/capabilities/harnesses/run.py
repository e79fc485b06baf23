"""One run of a harness: start its program in a box, journal its words and calls, decide about the calls, end it.

Everything is journaled on the thread that runs the agent. Other threads read the program's output and serve its socket, and put
their news into one queue. The entries are those of every agent: replies, calls that begin, results. So journal, page, budget and
questions need not know that another program works.

| the process dies | then |
|---|---|
| before a call has begun | the program is resumed; at most one request is paid twice |
| after it has begun | its changes to files are undone where files are carried; it is not begun twice, and the program learns that |
| after its result | the program gets the result with the next prompt, if its own record lacks it |
| while a question is open | the question stays; its answer continues the agent |
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm.agent.entries import Assistant, Finished, ModelFailed, ToolFinished
from swarm.agent.harnesses import plan_prompt
from swarm.agent.history import LOST
from swarm.capabilities.harnesses import inside
from swarm.capabilities.harnesses.adapter import HOME, PORT, Adapter
from swarm.capabilities.harnesses.decisions import CallDecisions, has_effects
from swarm.capabilities.harnesses.gateway import Gateway
from swarm.capabilities.harnesses.hook_calls import HookCall, HookCalls
from swarm.capabilities.harnesses.kinds import make_adapter
from swarm.capabilities.harnesses.programs import FoundProgram, find_programs
from swarm.capabilities.harnesses.request_budget import RequestBudget, TurnedDown, UnreportedCharges, describe_limit
from swarm.capabilities.harnesses.session import Session
from swarm.core.errors import AgentCancelled, ConfigurationError, Interrupted, NotOwner, ToolError
from swarm.core.log import EventLog
from swarm.core.usage import Counters
from swarm.mailbox import write_out
from swarm.models import Block
from swarm.models.catalogue import resolve_model
from swarm.models.vendors import split_model
from swarm.permissions.sandbox import choose_backend
from swarm.runtime.steps import Again, Turn
from swarm.runtime.token_stream import TokenStream
from swarm.runtime.wait import is_out_of_time
from swarm.tools import Hold, ToolContext
from swarm.tools.outputs import fit
from swarm.tools.processes import CommandInput, ProcessResult, RunningCommand, scratch_folder
from swarm.tools.registry import describe_call
from swarm.workspace.files import open_file
from swarm.workspace.private import make_private_folder, remove_folder

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts

log = EventLog("swarm.harness")
RUN_SECONDS = 1_800.0
"""Time limit of one run, unless the definition names another."""
_MARGIN_SECONDS = 60.0
_LOOK_SECONDS = 0.5
"""How often an open question is looked at while its program waits."""
_LONGEST_LINE = 32 << 20
_MOST_OUTPUT_BYTES = 1 << 40
_ERROR_CHARACTERS = 1_000
_NOT_TOLD = "(Its result was not told.)"
_ERRORS, _SOCKET = ".errors", "gateway"


class OutputLine(NamedTuple):
    """A line of the program's output."""

    text: str


@dataclass(frozen=True)
class OutputEnd:
    """The program has closed its output."""


@dataclass(frozen=True)
class AgentTrouble:
    """An error on another thread that concerns the agent."""

    error: BaseException


@dataclass(frozen=True)
class AtBoundary:
    """The program has asked for a further reply, and is held there: nothing of it is under way."""


_Heard = HookCall | OutputLine | OutputEnd | AgentTrouble | AtBoundary


class HarnessRun:
    """One run of one agent's harness. Not reusable."""

    def __init__(self, parts: Parts, *, tools_allowed: bool) -> None:
        self.parts, self.segment, self.tools_allowed = parts, parts.segment, tools_allowed
        self.spec, self.history, self.journal = parts.segment.spec, parts.segment.history, parts.segment.journal
        settings = parts.segment.settings
        self.small_model = resolve_model(
            settings.small_model, default=self.spec.model, parent=self.spec.model, prices_file=settings.prices_file
        )
        harness = self.spec.definition.harness
        assert harness is not None, "it is no harness"
        self.harness = harness
        self._heard: queue.SimpleQueue[_Heard] = queue.SimpleQueue()
        self._hooks = HookCalls(self._heard.put)
        self._early: list[tuple[float, HookCall]] = []
        self._words: TokenStream | None = None
        self._watched = False
        self._began = time.monotonic()
        self._input: CommandInput | None = None
        self._result: ProcessResult | None = None
        """How the program ended."""
        self.session: Session | None = None
        self._leaves = ""
        """Why the agent gives its process back."""
        self._budget = RequestBudget(self.segment, self._models(), most_requests=self._turns_left())
        self._gateway = Gateway(self._budget, self._hooks.ask, lambda error: self._heard.put(AgentTrouble(error)))
        self.adapter: Adapter = make_adapter(harness.kind, self)
        self.decisions = CallDecisions(self)

    def _models(self) -> dict[str, str]:
        vendors = self.segment.settings.vendors
        names = {self.spec.model, self.small_model}
        short = {found[1]: name for name in names if (found := split_model(name, vendors)) is not None}
        return {name: name for name in names} | short

    def _turns_left(self) -> int:
        own, limits = self.spec.definition.max_turns, self.spec.limits
        most = limits.max_turns if own is None or self.spec.parent_id is None else min(own, limits.max_turns)
        used = self.history.turns - max(self.history.turns_before, self.history.turns_elsewhere)
        return max(1, most - used) if self.tools_allowed else 1

    @property
    def vendor_and_model(self) -> tuple[str, str]:
        """The vendor of the agent's model, empty for Anthropic, and the model's name there."""
        found = split_model(self.spec.model, self.segment.settings.vendors)
        return ("", self.spec.model) if found is None else (found[0].name, found[1])

    @property
    def session_id(self) -> str:
        """The program's own name of its session; empty before it has one."""
        return self.session.name if self.session is not None else ""

    @session_id.setter
    def session_id(self, name: str) -> None:
        if self.session is not None:
            self.session.keep_name(name)

    def tell_everything(self) -> str:
        """Return the prompt for a program that has lost its session."""
        return self._plan("", fresh=True)

    def finish(self) -> None:
        """End the program: its work for this run is done."""
        self._heard.put(OutputEnd())

    @property
    def token(self) -> str:
        """The token that the program shows instead of a key."""
        return self._gateway.token

    # -- the run --------------------------------------------------------------------------------------------------

    def carry_out(self) -> Turn:
        """Run the program until it has answered, is put off or must end. Raises `Interrupted`, `NotOwner`, `AgentCancelled`."""
        settings = self.segment.settings
        program = find_programs(settings.harnesses).get(self.harness.program)
        if program is None or getattr(choose_backend(settings.sandbox), "name", "") != "bubblewrap":
            lack = (
                "its program is not here"
                if program is None
                else "it runs in a bubblewrap sandbox only, and none works here"
            )
            return Finished(state="failed", reason=f"{self.harness.program}: {lack}")
        if why := self.adapter.why_unfit():
            return Finished(state="failed", reason=f"{self.harness.program}: {why}")
        context = self.parts.toolbox.context_of("harness")
        try:
            home = self._make_home(context)
            session = Session(self.segment, home, self.adapter.session_files)
            with self._started(context, program, home, session) as running:
                self._listen(running)
            session.keep()
            return self._conclude(self._read_errors(home))
        except (ToolError, ConfigurationError, OSError) as error:
            return self._fail(f"{self.harness.kind} could not be run: {error}")
        finally:
            self._hooks.close()
            self._gateway.close()
            self._budget.give_up(TurnedDown(402, "billing_error", "the run of the agent has ended"))
            self._flush_charges()

    def _make_home(self, context: ToolContext) -> Path:
        """Make an empty home, as it would be on another host."""
        home = scratch_folder(context) / "harness"
        if os.path.lexists(home):
            remove_folder(home)
            shutil.rmtree(home, ignore_errors=True)
        make_private_folder(home, remedy="end the job")
        (home / ".gitconfig").write_text("[user]\n\tname = swarm\n\temail = swarm@localhost\n[safe]\n\tdirectory = *\n")
        return home.resolve()

    @contextlib.contextmanager
    def _started(self, context: ToolContext, program: FoundProgram, home: Path, session: Session) -> Any:
        """Start the program with its prompt; it is gone afterwards, with every process that it has started."""
        given = scratch_folder(context).resolve() / "given"
        shutil.rmtree(given, ignore_errors=True)
        make_private_folder(given, remedy="end the job")
        self.session = session
        resumes = self.history.turns > 0 and session.restore()
        transcript = session.text() if resumes else ""
        prompt = self._plan(transcript, fresh=not resumes)
        launch = self.adapter.launch(program.path, given, resumes=resumes)
        for folder, files in ((given, launch.files), (home, launch.home_files)):
            for name, text in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
        self._gateway.listen(given / _SOCKET)
        self._budget.hold_back = self._hold_back
        entry = Path(inside.__file__)
        context.hold = Hold(readable=(*program.folders, given, entry), home=home)
        context.environment |= {"PATH": os.environ.get("PATH", os.defpath), **launch.environment}
        argv = [
            sys.executable,
            "-I",
            "-S",
            str(entry),
            str(PORT),
            str(given / _SOCKET),
            f"{HOME}/{_ERRORS}",
            *launch.argv,
        ]
        assert context.confine is not None
        self._input = CommandInput()
        running = RunningCommand(
            context,
            context.confine(context, argv),
            given=self._input.end,
            limit_seconds=self._limit_seconds(),
            most_bytes=_MOST_OUTPUT_BYTES,
        )
        log.info(
            "harness.started",
            agent_id=self.spec.agent_id,
            kind=self.harness.kind,
            version=program.version,
            resumes=resumes,
        )
        self.tell(f"{self.harness.kind} {program.version}".strip())
        threading.Thread(target=self._read, args=(running,), name="harness-output", daemon=True).start()
        try:
            self.adapter.begin(prompt)
            yield running
        finally:
            self._result = running.end()
            self._input.close()

    def _plan(self, transcript: str, *, fresh: bool) -> str:
        """Return the prompt, and give calls that a person has allowed to the program to be made again, if it must."""
        continues = self.adapter.continues(transcript)
        if not continues:
            self.decisions.grant_allowed()
        holds, lacking = transcript.__contains__, self.adapter.lacking
        return plan_prompt(self.history, holds, fresh=fresh, continues=continues, lacking=lacking)

    def _limit_seconds(self) -> float:
        wanted = self.spec.definition.timeout_seconds or RUN_SECONDS
        return max(1.0, min(wanted, self.segment.settings.hard_limit_seconds - _MARGIN_SECONDS))

    # -- its output ----------------------------------------------------------------------------------------------

    def _read(self, running: RunningCommand) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := running.output.readline(_LONGEST_LINE):
                self._heard.put(OutputLine(line.decode("utf-8", "replace")))
        self._heard.put(OutputEnd())

    def _hold_back(self) -> bool:
        """Whether a request is held back because the agent leaves. On another thread."""
        if not (why := self._why_leave()):
            return False
        self._leaves = why
        self._heard.put(AtBoundary())
        return True

    def _why_leave(self) -> str:
        if why := self.parts.draining():
            return why
        over = time.monotonic() - self._began > self.segment.settings.segment_seconds
        return "others wait for the process" if over else ""

    def _listen(self, running: RunningCommand) -> None:
        stop, looked = self.segment.stop, time.monotonic()
        while True:
            heard = self._next()
            match heard:
                case OutputLine(text=text):
                    self.adapter.hear(text)
                    self._retry_early()
                case HookCall():
                    self._take_hook(heard, time.monotonic() + self.adapter.patience_seconds)
                    self._retry_early()
                case AgentTrouble(error=error):
                    raise error
                case AtBoundary():
                    return
                case OutputEnd():
                    return
            stop.check()
            if time.monotonic() - looked < _LOOK_SECONDS:
                continue
            looked = time.monotonic()
            self._retry_early()
            self.decisions.look_at_question()
            if is_out_of_time(self.segment):
                return

    def _next(self) -> _Heard | None:
        with self.segment.stop.waiting(), contextlib.suppress(queue.Empty):
            return self._heard.get(timeout=_LOOK_SECONDS)
        return None

    def _take_hook(self, call: HookCall, until: float) -> None:
        if not self.adapter.hook(call.told):
            if time.monotonic() < until:
                self._early.append((until, call))
            else:
                self.adapter.refuse(call.told)

    def _retry_early(self) -> None:
        early, self._early = self._early, []
        for until, call in early:
            self._take_hook(call, until)

    def answer_hook(self, told: dict[str, Any], answer: dict[str, Any]) -> None:
        """Answer a hook."""
        self._hooks.answer(told, answer)

    @property
    def input(self) -> CommandInput:
        """The program's input."""
        assert self._input is not None, "it has not been started"
        return self._input

    # -- the journal ----------------------------------------------------------------------------------------------

    def knows(self, call_id: str) -> bool:
        """Whether the journal has the reply with this call."""
        return call_id in self.history.call_ids

    def hear_words(self, number: int, block: Block, text: str) -> None:
        """Show watchers the next words of a reply."""
        self._words = self._words or TokenStream(self.segment, self.journal.next_number, watched=self._watched)
        self._words.take(number, block, text)

    def note_reply(self, content: list[Block], stop_reason: str) -> None:
        """Journal a whole reply with all charges until now."""
        for call_id in list(self.history.pending):
            has_run = call_id in self.history.tools_started or not has_effects(self.history.pending[call_id])
            self.note_result(call_id, *((_NOT_TOLD, False) if has_run else (self.adapter.lacking, True)))
        spent = self._budget.take("")
        if self._words is not None:
            self._watched, self._words = self._words.watched, None
        entry = Assistant(
            content=content,
            stop_reason=stop_reason,
            **{**spent.fields(), "model": spent.own.model or self.spec.model},
            duration_seconds=max(0.0, time.monotonic() - self._began),
        )
        activity = next((describe_call(block) for block in content if block.get("type") == "tool_use"), "answering")
        said = self.history.reply_text.text_after(entry)
        self.journal.append([entry], activity=activity, counters=Counters(turns=1), said=said, **self._paid(spent))
        self._budget.renew()

    def _paid(self, spent: UnreportedCharges) -> Any:
        return {"settle": self._budget.is_limited and bool(spent.names), "reported": spent.names}

    def note_result(self, call_id: str, text: str, is_error: bool, *, child: str = "") -> None:
        """Journal the result of a call, with the commit of the files after it; once. `child`: the program's agent that it started."""
        call = self.history.pending.get(call_id)
        if call is None:
            return
        spent = self._budget.take(child) if child else UnreportedCharges()
        result = ToolFinished(
            tool_use_id=call_id,
            text=fit(self.parts.outputs, call_id, write_out(text)),
            is_error=is_error,
            **spent.fields(),
        )
        had_effects = has_effects(call)
        if had_effects:
            for step in self.parts.steps:
                result = step.after_call(call, result)
        self.journal.append([result], counters=Counters(tools=1), **self._paid(spent))
        if had_effects:
            for step in self.parts.steps:
                step.noted()
        if child:
            self._budget.renew()

    def _flush_charges(self) -> None:
        """Journal the cost of requests whose replies no entry holds."""
        spent = self._budget.take_all()
        charges = [charge for charge in (spent.own, *spent.beside.values()) if not charge.is_free]
        if not spent.names or self.history.finished is not None:
            return
        lost = [
            ModelFailed(error="requests beside the conversation", error_kind=LOST, permanent=False, **dict(charge))
            for charge in charges
        ]
        with contextlib.suppress(NotOwner, AgentCancelled, Interrupted):
            if lost:
                self.journal.append(lost, settle=self._budget.is_limited, reported=spent.names)

    def tell(self, activity: str) -> None:
        """Show watchers the activity of the program."""
        self.segment.store.events.show_activity(self.segment.claim, activity)

    # -- the end --------------------------------------------------------------------------------------------------

    def _read_errors(self, home: Path) -> str:
        try:
            opened, _ = open_file(home, home / _ERRORS)
        except ToolError:
            return ""
        with open(opened, "rb") as file:
            return file.read(1 << 20).decode("utf-8", "replace").strip()[-_ERROR_CHARACTERS:]

    def _conclude(self, errors: str) -> Turn:
        self._flush_charges()
        result = self._result
        assert result is not None, "the program has ended"
        text = self.history.reply_text.text_at_hand()
        if result.held:
            what = "; ".join(result.held)[:2_000]
            self.segment.store.events.emit(self.spec.job_id, "held", self.spec.agent_id, what=what)
        if is_out_of_time(self.segment):
            return Finished(state="timed_out", text=text, reason="the time limit was reached", stopped_at="time")
        if self._budget.empty is not None:
            limit: Any = "tokens" if self._budget.empty.name == "tokens" else "budget"
            return Finished(state="failed", text=text, reason=describe_limit(self._budget.empty), stopped_at=limit)
        if self._leaves:
            return Again(self._leaves)
        if self.decisions.put_off or self.adapter.has_answered or self._budget.closed is not None:
            return None
        if result.timed_out:
            reason = f"{self.harness.kind} was ended after {self._limit_seconds():g} s, its time limit"
            return Finished(state="timed_out", text=text, reason=reason, stopped_at="time")
        if self._gateway.failure is not None:
            self.parts.model_call.note_failure(self._gateway.failure)  # type: ignore[arg-type]
            return None
        why = self.adapter.error or f"it ended with the exit code {result.exit_code}"
        return self._fail(f"{self.harness.kind} failed: {why}{f'; its last words: {errors}' if errors else ''}")

    def _fail(self, why: str) -> Turn:
        """Journal a failure of the program; it is started again a few times."""
        permanent = self.history.failures + 1 >= self.segment.settings.max_deaths
        retry_at = 0.0 if permanent else self.segment.claim.now() + 2.0**self.history.failures
        log.warning("harness.failed", agent_id=self.spec.agent_id, why=why, again=not permanent)
        entry = ModelFailed(error=why, error_kind="harness", permanent=permanent, retry_at=retry_at)
        self.journal.append([entry], activity="" if permanent else "starting again")
        return None
