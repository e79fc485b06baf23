"""The tools of a running agent. Every failure of a tool becomes a result."""

from __future__ import annotations

import itertools
import os
import shlex
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from swarm.agent.entries import ToolFinished
from swarm.agent.journaled import Condition
from swarm.core.errors import AgentCancelled, NotOwner, RedisUnavailable, StepRefused, ToolError, UnreadableRecord
from swarm.core.log import EventLog
from swarm.definitions.tools import ToolRow, row_of
from swarm.mailbox import write_out
from swarm.models import Block
from swarm.permissions.judge import find_unreadable
from swarm.permissions.sandbox import Backend, SandboxPolicy, choose_backend
from swarm.permissions.sandbox.host import CONFIGURATION
from swarm.runtime.scratch import confine, home_folder, scratch_root
from swarm.store.questions import Ask
from swarm.store.values import Most
from swarm.tools import AwaitsAnswer, Tool, ToolContext, ToolResult
from swarm.tools.outputs import fit
from swarm.tools.registry import check_object, load_tool, validate_input
from swarm.tools.shell import run_look, try_look
from swarm.tools.web.reach import Reach, find_reach
from swarm.workspace import is_output
from swarm.workspace.checkouts import place_store

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts

log = EventLog("swarm.tools")
_MAX_TOLD_CHARACTERS = 2_000
_MAX_LINE_CHARACTERS = 120
_TELL_SECONDS = 0.25
_MAX_DENIED = 300
"""Most files and folders hidden from a command individually."""
Found = TypeVar("Found")


class Toolbox:
    """The tools of one segment."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._segment = parts, parts.segment
        self._scratch = scratch_root(parts.segment.settings) / parts.segment.spec.agent_id
        self._told_at = 0.0

    # -- calls ---------------------------------------------------------------------------------------------

    def run(self, call: Block, *, waited: Condition | None = None) -> ToolFinished:
        """Run a call. Any failure becomes its result; only a request to stop is raised."""
        began = time.monotonic()
        context = self.context_of(call["id"], waited)
        known = dict(context.files_read)

        def carry_out(tool: Tool, given: dict[str, Any]) -> ToolResult:
            if tool.run is None:
                raise ToolError("The runtime carries out this call.")
            given = _enter_folder(context, tool.row, from_workspace(tool.row, given, context.spec.cwd))
            self._prepare(context, tool.row, given)
            result = tool.run(context, given)
            if result.held:
                self._tell_held(result.held)
            if tool.row.needs in ("program", "flow"):
                return result  # read by programs: whole
            text = write_out(result.text) if tool.row.shows_others else result.text
            fitting = fit(self._parts.outputs, call["id"], text)
            return result if fitting is result.text else result.model_copy(update={"text": fitting})

        finished = self._attempt(call, carry_out)
        files = {path: at for path, at in context.files_read.items() if known.get(path) != at}
        spent = self._parts.side_requests.spent(call["id"])
        told: dict[str, Any] = {"files": files, "duration_seconds": time.monotonic() - began, **dict(spent)}
        if isinstance(finished, ToolFinished):
            return finished.model_copy(update=told)
        return ToolFinished(
            tool_use_id=call["id"],
            text=finished.text,
            is_error=finished.is_error,
            blocks=finished.blocks,
            commit=finished.commit,
            servers=finished.servers,
            **told,
        )

    def look(self, call: Block, argv: list[str] | None) -> ToolFinished | str:
        """Try a shell command where it can have no effect; returns its result or why that failed.

        It runs in a sandbox or, without one, as `argv` if the command is a program that only looks.
        """
        began = time.monotonic()
        context = self.context_of(call["id"])

        def try_it(tool: Tool, given: dict[str, Any]) -> ToolResult | str:
            given = from_workspace(tool.row, given, context.spec.cwd)
            if self.is_sandboxed():
                self._prepare(context, tool.row, given)
                return try_look(context, given)
            return "there is no sandbox to try it in" if argv is None else run_look(context, given, argv)

        looked = self._attempt(call, try_it)
        if isinstance(looked, ToolFinished):
            return looked.text
        if isinstance(looked, str):
            return looked
        seconds = time.monotonic() - began
        return ToolFinished(
            tool_use_id=call["id"], text=looked.text, is_error=looked.is_error, duration_seconds=seconds
        )

    def _prepare(self, context: ToolContext, row: ToolRow, given: dict[str, Any]) -> None:
        for step in self._parts.steps:
            step.before_run(context, row, given)

    def _tell_held(self, lines: Sequence[str]) -> None:
        """Show people that a command left something for others to obey."""
        spec = self._segment.spec
        self._segment.store.events.emit(
            spec.job_id, "held", spec.agent_id, what="; ".join(lines)[:_MAX_TOLD_CHARACTERS]
        )

    def find_condition(self, call: Block) -> Condition | ToolFinished:
        """The condition of a waiting call; or a result if it cannot wait."""

        def find(tool: Tool, given: dict[str, Any]) -> Condition:
            assert tool.wait is not None, f"{tool.name} has no condition"
            return tool.wait(self.context_of(call["id"]), given)

        return self._attempt(call, find)

    def find_question(self, call: Block) -> Ask | ToolFinished:
        """The question of a call; or a result if it may not ask."""

        def find(tool: Tool, given: dict[str, Any]) -> Ask:
            assert tool.ask is not None, f"{tool.name} has no question"
            return tool.ask(self.context_of(call["id"]), given)

        return self._attempt(call, find)

    def foresee(self, call: Block) -> str | ToolFinished:
        """Describe the changes of a call, without making them; or return its result if it cannot work."""
        context = self.context_of(call["id"])

        def find(tool: Tool, given: dict[str, Any]) -> str:
            if tool.foresee is None:
                return ""
            return tool.foresee(
                context, _enter_folder(context, tool.row, from_workspace(tool.row, given, context.spec.cwd))
            )

        return self._attempt(call, find)

    def _attempt(self, call: Block, act: Callable[[Tool, dict[str, Any]], Found]) -> Found | ToolFinished:
        name, names = call["name"], self._segment.history.tool_names()
        try:
            home = row_of(name).home if name in names else ""
            if home:
                tool = load_tool(home)
                return act(tool, validate_input(tool, call["input"]))
            found = (step.find_tool(name) for step in self._parts.steps if name in names)
            served = next((tool for tool in found if tool is not None), None)
            if served is None:
                raise ToolError(f"There is no tool {name!r}; you have: {', '.join(sorted(names))}.")
            return act(served, check_object(served, call["input"]))
        except (RedisUnavailable, UnreadableRecord, NotOwner, AgentCancelled, AwaitsAnswer):
            # These do not concern the call. The agent's next segment repeats it or reports it as interrupted.
            raise
        except ToolError as error:
            text = str(error)
        except StepRefused as error:
            text = f"{str(error)[:1].upper()}{str(error)[1:]}."
        except Exception as error:
            where = traceback.format_exc()
            log.error("tool.broke", agent_id=self._segment.spec.agent_id, tool=name, error=repr(error), traceback=where)
            text = f"The tool {name} failed unexpectedly: {type(error).__name__}: {error}"
        return ToolFinished(tool_use_id=call["id"], text=text, is_error=True)

    def context_of(self, tool_use_id: str, waited: Condition | None = None) -> ToolContext:
        """Build the context that a call acts in."""
        segment, parts, settings = self._segment, self._parts, self._segment.settings
        context = ToolContext(
            spec=segment.spec,
            store=segment.store,
            publish=segment.publish,
            tool_use_id=tool_use_id,
            generation=segment.claim.generation,
            workspace=segment.workspace,
            outputs=parts.outputs,
            folders=tuple(folder for given in segment.spec.folders if (folder := Path(given)).is_dir()),
            mode=segment.mode,
            after_plan=segment.history.after_plan(),
            files_read=dict(segment.history.files_read),
            profile=segment.history.hooks.profile,
            scratch=self._scratch,
            confine=self._confine,
            may_read=segment.may_read,
            merge=lambda child, strategy: parts.isolation.merge(child, strategy),
            start_members=lambda call_id, members: parts.children.start_members(call_id, members),
            check=segment.stop.check,
            tell=self._tell_progress,
            now=segment.claim.now,
            waited=waited,
            consult=parts.side_requests.asker(tool_use_id, segment.stop.check),
            most=Most(settings.job_board_mib, settings.job_pad_mib, settings.memory_mib),
            reach=self._reach if settings.network != "off" else None,
        )
        for step in parts.steps:
            step.equip(context)
        return context

    def _tell_progress(self, line: str) -> None:
        """Show people a call's progress, only a few times a second: followers read every line."""
        segment, now = self._segment, time.monotonic()
        if now - self._told_at < _TELL_SECONDS:
            return
        self._told_at = now
        segment.store.events.show_progress(segment.claim, " ".join(line.split())[:_MAX_LINE_CHARACTERS])

    def _reach(self) -> Reach:
        """Addresses this agent may fetch, as its processes could with the network."""
        settings = self._segment.settings
        return find_reach(settings, private=settings.network == "private")

    def names_of(self, row: ToolRow, given: dict[str, Any]) -> tuple[str, ...]:
        """Every name of a call's subject that a capability knows."""
        return tuple(name for step in self._parts.steps for name in step.names_of(row, given))

    # -- the sandbox ---------------------------------------------------------------------------------------

    def is_sandboxed(self) -> bool:
        """Whether the kernel enforces the agent's permissions on its processes."""
        return isinstance(choose_backend(self._segment.settings.sandbox), Backend)

    def _confine(self, context: ToolContext, argv: list[str]) -> list[str]:
        """Wrap `argv` in the agent's sandbox. Raises `ToolError` if a required one is missing."""
        segment, hold = self._segment, context.hold
        backend = choose_backend(segment.settings.sandbox)
        read_only, network = segment.spec.definition.read_only or segment.mode == "plan", segment.spec.network
        if hold is not None:
            read_only, network = read_only or hold.read_only, hold.network and segment.ceiling.network
        if isinstance(backend, Backend):
            policy = self._policy(context, backend, read_only=read_only, network=network)
            return confine(policy, backend, argv, segment.settings, hold.readable if hold is not None else ())
        if hold is not None and hold.needed:
            raise ToolError(f"this tool runs in a sandbox only, and this host has none: {backend.reason}")
        if read_only:
            raise ToolError(backend.refusal)
        return argv

    def _policy(self, context: ToolContext, backend: Backend, *, read_only: bool, network: bool) -> SandboxPolicy:
        hold = context.hold
        looks = hold is not None and hold.looks
        # Landlock cannot hide parts of a visible folder. Under it a look is possible only without denied files.
        denied = self._denied(context) if looks or backend.name == "bubblewrap" else ()
        return SandboxPolicy(
            workspace=context.workspace,
            scratch=hold.home if hold is not None and hold.home is not None else home_folder(context),
            read_only=read_only,
            network=network,
            readable=(*context.readable, *self._history()),
            writable=context.folders,
            kept=home_folder(context) if looks else None,
            hidden=denied,
            hooks=tuple(file for step in self._parts.steps for file in step.guarded(context.workspace)),
        )

    def _history(self) -> tuple[Path, ...]:
        """The objects that the Git folder of a copy borrows."""
        spec, checkouts = self._segment.spec, self._segment.settings.checkouts_folder()
        is_copy = Path(spec.workspace).is_relative_to(checkouts)
        objects = place_store(checkouts, spec.job_id) / "objects"
        return (objects.resolve(),) if is_copy and objects.is_dir() else ()

    def _denied(self, context: ToolContext) -> tuple[Path, ...]:
        """Visible paths that rules deny. Raises `ToolError` for a look that cannot hide all of them."""
        folders = (context.workspace, *context.folders)
        found = find_unreadable((*folders, CONFIGURATION), self._segment.rules, context.workspace)
        # A link's target is hidden in its own place; outside the folders no process sees it.
        denied = [*dict.fromkeys(path.resolve() for path in itertools.islice(found, _MAX_DENIED + 1))]
        if len(denied) > _MAX_DENIED and context.hold is not None and context.hold.looks:
            raise ToolError(f"rules deny more than {_MAX_DENIED} files to be read; deny their folder instead")
        return tuple(
            path for path in denied[:_MAX_DENIED] if any(path.is_relative_to(one) for one in (*folders, CONFIGURATION))
        )


def from_workspace(row: ToolRow, given: dict[str, Any], cwd: str) -> dict[str, Any]:
    """Make the path or command of a call relative to the workspace instead of `cwd`.

    Rules judge this form, and this form runs. They are relative to the workspace, so a start folder evades none.
    """
    subject = given.get(row.subject)
    if not cwd or not (subject is None or isinstance(subject, str)):
        return given
    if row.matching == "command" and subject:
        return {**given, row.subject: f"cd {shlex.quote(cwd)} || exit 1\n{subject}"}
    if row.matching not in ("edited", "read") or (subject is None and not row.inner and row.subject != "path"):
        return given
    if subject and (is_output(subject) or os.path.isabs(subject)):
        return given
    return {**given, row.subject: os.path.join(cwd, subject) if subject else cwd}


def _enter_folder(context: ToolContext, row: ToolRow, given: dict[str, Any]) -> dict[str, Any]:
    """Let a call about a path in a further folder run there, as if that were the workspace."""
    path = given.get(row.subject)
    if not context.folders or row.matching not in ("read", "edited") or not isinstance(path, str) or "\0" in path:
        return given
    real = Path(os.path.realpath(context.workspace / path))
    folder = next((folder for folder in context.folders if real.is_relative_to(folder)), None)
    if folder is None or real.is_relative_to(context.workspace):
        return given
    context.workspace = folder
    return {**given, row.subject: str(real)}
