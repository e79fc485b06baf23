"""The tools of one running agent: running them so that every failure becomes a result."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from swarm.agent.entries import ToolFinished
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.capabilities.context.restating import restate
from swarm.capabilities.hooks.files import read_managed
from swarm.capabilities.skills.keeping import VARIABLE, load_skills, read_file, unpack
from swarm.capabilities.skills.model import Skills
from swarm.capabilities.skills.skill_tool import names_in_use
from swarm.core.errors import AgentCancelled, NotOwner, RedisUnavailable, StepRefused, ToolError, UnreadableRecord
from swarm.core.log import EventLog
from swarm.core.records import AgentView
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.hook_words import read_words
from swarm.definitions.hooks import Hooks
from swarm.definitions.tools import ToolRow, row_of
from swarm.mailbox import write_out
from swarm.models import Block
from swarm.permissions.judge import find_unreadable
from swarm.permissions.sandbox import Backend, SandboxPolicy, choose_backend
from swarm.permissions.sandbox.host import CONFIGURATION
from swarm.runtime.consulting import Consulting
from swarm.runtime.offering import Opening, opening_of
from swarm.runtime.scratch import confine, home_folder, scratch_root
from swarm.runtime.segment import Segment
from swarm.runtime.servers import Servers, end_servers
from swarm.store.documents import read_once
from swarm.store.questions import Ask
from swarm.tools import AwaitsAnswer, StartMembers, Tool, ToolContext, ToolResult
from swarm.tools.background import kill_shells
from swarm.tools.outputs import Outputs, fit
from swarm.tools.program import Exchange
from swarm.tools.registry import check_object, load_tool, validate_input
from swarm.tools.shell import run_look, try_look
from swarm.tools.web.reach import Reach, find_reach
from swarm.workspace import is_output
from swarm.workspace.merging import Strategy
from swarm.workspace.private import private_folders

log = EventLog("swarm.tools")
_MAX_TOLD_CHARACTERS = 2_000
_MAX_LINE_CHARACTERS = 120
_TELL_SECONDS = 0.25
_MAX_DENIED = 300
"""Files and folders that are hidden from a command one by one."""
Found = TypeVar("Found")


class Toolbox:
    """The tools of one segment."""

    def __init__(
        self,
        segment: Segment,
        consulting: Consulting | None = None,
        merge: Callable[[AgentView, Strategy], ToolResult] | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        self._segment, self._consulting, self._merge, self._exchange = segment, consulting, merge, exchange
        spec = segment.spec
        self._outputs = Outputs(segment.store, segment.claim, spec.parent_id if spec.fork is not None else None)
        self._scratch = scratch_root(segment.settings) / segment.spec.agent_id
        self._told_at = 0.0
        self.servers = Servers(segment, self.context_of)
        self.start_members: StartMembers | None = None

    def clear(self) -> None:
        """The agent is over: end what its shells left running and remove its private folder."""
        if self._scratch in private_folders(self._scratch.parent):
            kill_shells(self._scratch)
            shutil.rmtree(self._scratch, ignore_errors=True)
        spec = self._segment.spec
        if spec.parent_id is None:
            end_servers(self._segment.settings, job=spec.job_id)
        elif spec.isolation != "none" or spec.is_carried:
            end_servers(self._segment.settings, job=spec.job_id, workspace=spec.workspace)
        elif spec.definition.servers:
            end_servers(self._segment.settings, owner=spec.agent_id)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The definitions that travelled with the job. Raises `UnreadableRecord`."""
        store, job_id = self._segment.store, self._segment.spec.job_id
        digest, what = self._segment.claim.definitions, f"the definitions of {job_id}"
        return read_once(Catalogue, digest, lambda _: store.jobs.catalogue(job_id), what)

    @cached_property
    def skills(self) -> Skills:
        """The skills that travelled with the job. Raises `UnreadableRecord`."""
        return load_skills(self._segment.store, self._segment.claim.documents.get("skills", ""))

    def open(self) -> Opening:
        """What this agent's requests begin with."""
        return self.open_for(self._segment.spec, self.servers)

    def open_for(self, spec: AgentSpec, servers: Servers | None = None) -> Opening:
        """The same for another agent of the job, as far as it runs on a worker like this one; without `servers` that of one without."""
        return opening_of(
            spec,
            self._segment.claim.definitions,
            lambda: self.catalogue.for_spawning(),
            sandboxed=self.is_sandboxed(),
            person_there=self._segment.ask_seconds > 0,
            tags=self._segment.settings.tag_names(),
            skills=self.skills.for_model(),
            servers=servers if servers is not None and servers.concern_it else None,
        )

    # -- calls ---------------------------------------------------------------------------------------------

    def run(self, call: Block, *, waited: Condition | None = None) -> ToolFinished:
        """Run one call. Whatever goes wrong is the result; only being told to stop gets through."""
        began = time.monotonic()
        context = self.context_of(call["id"], waited)
        known = dict(context.files_read)

        def carry_out(tool: Tool, given: dict[str, Any]) -> ToolResult:
            if tool.run is None:
                raise ToolError("This call is carried out by the runtime.")
            given = _enter_folder(context, tool.row, from_workspace(tool.row, given, context.spec.cwd))
            if tool.row.matching == "command":
                self._provide_skills(context, str(given.get(tool.row.subject, "")))
            result = tool.run(context, given)
            if result.held:
                self._tell_held(result.held)
            if tool.row.needs == "program":
                return result  # the agent's answer, whole
            text = write_out(result.text) if tool.row.shows_others else result.text
            return result.model_copy(update={"text": fit(self._outputs, call["id"], text)})

        finished = self._attempt(call, carry_out)
        if isinstance(finished, ToolResult):
            finished = ToolFinished(
                tool_use_id=call["id"],
                text=finished.text,
                is_error=finished.is_error,
                blocks=finished.blocks,
                commit=finished.commit,
                servers=finished.servers,
            )
        files = {path: at for path, at in context.files_read.items() if known.get(path) != at}
        spent = self._consulting.spent(call["id"]) if self._consulting is not None else {}
        return finished.model_copy(update={"files": files, "duration_seconds": time.monotonic() - began, **spent})

    def look(self, call: Block, argv: list[str] | None) -> ToolFinished | str:
        """The result of a shell command that is tried where nothing can come of it; or in a line why that was not enough.

        That is a sandbox; without one `argv`, if the command is a program that only looks.
        """
        began = time.monotonic()
        context = self.context_of(call["id"])

        def try_it(tool: Tool, given: dict[str, Any]) -> ToolResult | str:
            given = from_workspace(tool.row, given, context.spec.cwd)
            if self.is_sandboxed():
                self._provide_skills(context, str(given.get(tool.row.subject, "")))
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

    def _provide_skills(self, context: ToolContext, command: str) -> None:
        """Put the files of skills in use where the command finds them."""
        names = names_in_use(self._segment.spec, self._segment.life, command)
        folder = unpack(context, self.skills, names) if names else None
        if folder is not None:
            context.environment[VARIABLE] = str(folder)

    def _tell_held(self, lines: Sequence[str]) -> None:
        """What a command left for others to obey is for people to see, not only for the model."""
        spec = self._segment.spec
        self._segment.store.events.emit(
            spec.job_id, "held", spec.agent_id, what="; ".join(lines)[:_MAX_TOLD_CHARACTERS]
        )

    def find_condition(self, call: Block) -> Condition | ToolFinished:
        """What a call is to wait for; or its result, when it cannot."""

        def find(tool: Tool, given: dict[str, Any]) -> Condition:
            assert tool.wait is not None, f"{tool.name} does not say what it waits for"
            return tool.wait(self.context_of(call["id"]), given)

        return self._attempt(call, find)

    def find_question(self, call: Block) -> Ask | ToolFinished:
        """What a call asks; or its result, when it may not."""

        def find(tool: Tool, given: dict[str, Any]) -> Ask:
            assert tool.ask is not None, f"{tool.name} does not say what it asks"
            return tool.ask(self.context_of(call["id"]), given)

        return self._attempt(call, find)

    def _attempt(self, call: Block, act: Callable[[Tool, dict[str, Any]], Found]) -> Found | ToolFinished:
        name, names = call["name"], self._segment.life.tool_names()
        try:
            if name in names and (served := self.servers.find_tool(name)) is not None:
                return act(served, check_object(served, call["input"]))
            if name not in names or not row_of(name).home:
                raise ToolError(f"There is no tool {name!r}; you have: {', '.join(sorted(names))}.")
            tool = load_tool(row_of(name).home)
            return act(tool, validate_input(tool, call["input"]))
        except (RedisUnavailable, UnreadableRecord, NotOwner, AgentCancelled, AwaitsAnswer):
            # Nothing about the call: it is made again, or reported as interrupted, by whoever has the agent then.
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

    def restate(self, *, tail: str) -> str:
        """How things stand, from records; `tail` is what of the conversation is not kept, though no summary holds it."""
        return restate(self.context_of(""), self._segment.life, tail=tail)

    def context_of(self, tool_use_id: str, waited: Condition | None = None) -> ToolContext:
        """The world that a call acts in."""
        segment = self._segment
        context = ToolContext(
            spec=segment.spec,
            store=segment.store,
            publish=segment.publish,
            tool_use_id=tool_use_id,
            generation=segment.claim.generation,
            workspace=Path(segment.spec.workspace).resolve(),
            outputs=self._outputs,
            folders=tuple(folder for given in segment.spec.folders if (folder := Path(given)).is_dir()),
            mode=segment.mode,
            after_plan=segment.life.after_plan(),
            files_read=dict(segment.life.files_read),
            scratch=self._scratch,
            confine=self._confine,
            may_read=segment.may_read,
            merge=self._merge,
            start_members=self.start_members,
            check=segment.stop.check,
            tell=self._tell_progress,
            now=segment.claim.now,
            waited=waited,
            consult=self._consulting.asker(tool_use_id, segment.stop.check) if self._consulting is not None else None,
            exchange=self._exchange,
            skill_file=lambda path: read_file(context, path),
            reach=self._reach if segment.settings.network != "off" else None,
            servers=self.servers,
            servers_seen=segment.life.servers,
        )
        return context

    def _tell_progress(self, line: str) -> None:
        """Have people see what a call is doing; at most a few times a second, for whoever follows reads every line."""
        segment, now = self._segment, time.monotonic()
        if now - self._told_at < _TELL_SECONDS:
            return
        self._told_at = now
        segment.store.events.tell_progress(segment.claim, " ".join(line.split())[:_MAX_LINE_CHARACTERS])

    def activity(self, call: Block) -> str:
        """The activity line for a call."""
        home = row_of(call["name"]).home
        return load_tool(home).describe_call(call["input"]) if home else str(call["name"])

    def fit(self, key: str, text: str) -> str:
        """`text`, or as much of it as the conversation takes; the rest is kept."""
        return fit(self._outputs, key, text)

    def _reach(self) -> Reach:
        """What this agent may fetch from: what its processes reach, if they have the network."""
        settings = self._segment.settings
        return find_reach(settings, private=settings.network == "private")

    # -- the sandbox ---------------------------------------------------------------------------------------

    def is_sandboxed(self) -> bool:
        """Whether the kernel holds this agent's processes to what it may do."""
        return isinstance(choose_backend(self._segment.settings.sandbox), Backend)

    def _hook_files(self, workspace: Path) -> list[tuple[str, str]]:
        """The files that hooks run, by folder: that of this agent, and that which the job was submitted for."""
        job = self._segment.carried("hooks", Hooks, "the hooks") or Hooks()
        managed = self._segment.settings.managed_hooks
        named = [read_words(hook, workspace).file for hook in read_managed(managed).hooks.hooks] if managed else []
        return [
            (folder, file)
            for folder in filter(None, (str(workspace), job.workspace))
            for file in (*job.files, *named)
            if file
        ]

    def _confine(self, context: ToolContext, argv: list[str]) -> list[str]:
        """The command that runs `argv` in the agent's sandbox. Raises `ToolError` where there must be one and is none."""
        backend = choose_backend(self._segment.settings.sandbox)
        hold = context.hold
        read_only = self._segment.spec.definition.read_only or self._segment.mode == "plan"
        network = self._segment.spec.network
        if hold is not None:
            read_only, network = read_only or hold.read_only, hold.network and self._segment.ceiling.network
        looks = hold is not None and hold.looks
        if not isinstance(backend, Backend):
            if hold is not None and hold.needed:
                raise ToolError(f"this tool runs in a sandbox only, and this host has none: {backend.reason}")
            if read_only:
                raise ToolError(backend.refusal)
            return argv
        settings = self._segment.settings
        # Landlock hides nothing in a folder that it gives: there it holds for a look, which is then not to be had.
        denied = self._denied(context) if looks or backend.name == "bubblewrap" else ()
        policy = SandboxPolicy(
            workspace=context.workspace,
            scratch=hold.home if hold is not None and hold.home is not None else home_folder(context),
            read_only=read_only,
            network=network,
            readable=_skill_folder(context),
            writable=context.folders,
            kept=home_folder(context) if looks else None,
            hidden=denied,
            hooks=tuple(Path(folder) / file for folder, file in self._hook_files(context.workspace)),
        )
        return confine(policy, backend, argv, settings, hold.readable if hold is not None else ())

    def _denied(self, context: ToolContext) -> tuple[Path, ...]:
        """What rules deny to be read of what a command would see. Raises `ToolError` for a look that cannot have all of it hidden."""
        folders = (context.workspace, *context.folders)
        found = find_unreadable((*folders, CONFIGURATION), self._segment.rules, context.workspace)
        # What a link leads to is hidden where it lies; elsewhere no process sees it.
        denied = [*dict.fromkeys(path.resolve() for path in itertools.islice(found, _MAX_DENIED + 1))]
        if len(denied) > _MAX_DENIED and context.hold is not None and context.hold.looks:
            raise ToolError(f"rules deny more than {_MAX_DENIED} files to be read; deny their folder instead")
        return tuple(
            path for path in denied[:_MAX_DENIED] if any(path.is_relative_to(one) for one in (*folders, CONFIGURATION))
        )


def _skill_folder(context: ToolContext) -> tuple[Path, ...]:
    return (Path(context.environment[VARIABLE]),) if VARIABLE in context.environment else ()


def from_workspace(row: ToolRow, given: dict[str, Any], cwd: str) -> dict[str, Any]:
    """The input of a call with its path, or its command, relative to the workspace instead of to `cwd`, a folder of it.

    This is the one form that is judged and carried out: who begins in a folder gets past no rule, for rules stay the workspace's.
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
    """Have a call that is about a path of a further folder work there, as if it were the workspace."""
    path = given.get(row.subject)
    if not context.folders or row.matching not in ("read", "edited") or not isinstance(path, str) or "\0" in path:
        return given
    real = Path(os.path.realpath(context.workspace / path))
    folder = next((folder for folder in context.folders if real.is_relative_to(folder)), None)
    if folder is None or real.is_relative_to(context.workspace):
        return given
    context.workspace = folder
    return {**given, row.subject: str(real)}
