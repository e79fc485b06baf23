"""The tools of one running agent: which it has, and running them so that every failure becomes a result."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from swarm.agent.entries import ToolFinished
from swarm.agent.life import SPAWN_TOOL
from swarm.definitions.catalogue import Catalogue
from swarm.errors import ToolError
from swarm.log import EventLog
from swarm.models import Block
from swarm.permissions.filter import filter_tools
from swarm.permissions.sandbox import (
    Backend,
    CannotConfine,
    SandboxPolicy,
    choose_backend,
    confine_argv,
    toolchain_folders,
)
from swarm.runtime.board import AgentBoard
from swarm.runtime.journal import Journal
from swarm.runtime.pad import AgentPad
from swarm.runtime.sharing import is_of_use, shared_tools, with_team_tools
from swarm.runtime.subtree import Subtree
from swarm.runtime.team import AgentTeam
from swarm.settings import Settings
from swarm.store.agents import Store
from swarm.store.values import Effect
from swarm.tools import Tool, ToolContext
from swarm.tools.agents import agent_tool
from swarm.tools.asking import ASK_TOOL, ASK_USER, EXIT_PLAN_MODE, PLAN_TOOL
from swarm.tools.background import kill_shells
from swarm.tools.peers import peer_tools
from swarm.tools.processes import scratch_folder
from swarm.tools.registry import builtin_tools, validate_input
from swarm.tools.shell import bash_tool
from swarm.tools.truncate import fit

log = EventLog("swarm.tools")
_FOR_PARENTS = frozenset({"WaitAgents", "ListAgents", "StopAgent"})
"""Useless to whoever can start no agents."""


def scratch_root() -> Path:
    """Where this host's agents have their private temporary folders."""
    return Path(tempfile.gettempdir()) / f"swarm-{os.getuid()}"


class AgentOutputs:
    """Long outputs, kept with the agent in Redis, so that any worker can page through them."""

    def __init__(self, store: Store, agent_id: str) -> None:
        self._store, self._agent_id = store, agent_id

    def keep(self, key: str, text: str) -> str:
        """Keep `text` and return its handle."""
        self._store.keep_output(self._agent_id, key, text)
        return f"output:{key}"

    def load(self, handle: str) -> str | None:
        """The text kept under `handle`, or None."""
        return self._store.load_output(self._agent_id, handle.removeprefix("output:"))


class Toolbox:
    """The tools of one segment."""

    def __init__(
        self,
        journal: Journal,
        settings: Settings,
        tell: Callable[[Effect | None], None],
        check: Callable[[], None],
    ) -> None:
        self._journal, self._settings, self._check = journal, settings, check
        self.may_read: Callable[[Path], bool] | None = None
        """Set where rules forbid some files: the tools that search many leave those out."""
        self._spec, self._store = journal.claim.spec, journal.store
        self._outputs = AgentOutputs(self._store, self._spec.agent_id)
        self._peers = Subtree(self._spec, self._store, tell)
        self.board = AgentBoard(journal, tell)
        self._pad, self._team = AgentPad(self._spec, self._store), AgentTeam(self._spec, self._store, tell)
        self._scratch = scratch_root() / self._spec.agent_id

    def clear(self) -> None:
        """The agent is over: end what its shells left running and remove its private folder."""
        if self._scratch.exists():
            kill_shells(self._scratch)
            shutil.rmtree(self._scratch, ignore_errors=True)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The definitions that travelled with the job."""
        return Catalogue.model_validate_json(self._store.catalogue(self._spec.job_id))

    def choose(self) -> list[Tool]:
        """The tools this agent gets: everything there is, through the filter pipeline."""
        spec = self._spec
        available = {**self._tools, SPAWN_TOOL: agent_tool(self.catalogue.for_spawning())}
        names = filter_tools(
            list(available),
            with_team_tools(spec),
            depth=spec.depth,
            max_depth=spec.limits.max_depth,
            is_root=spec.parent_id is None,
            background=spec.background,
            mode=spec.mode,
            sandbox=self.is_sandboxed(),
        )
        if SPAWN_TOOL not in names:
            names = [name for name in names if name not in _FOR_PARENTS]
        return [available[name] for name in names if is_of_use(name, spec)]

    @cached_property
    def _tools(self) -> dict[str, Tool]:
        tools = {**builtin_tools(), "Bash": bash_tool(self._confine), **peer_tools(), **shared_tools()}
        if self._spec.after_plan is not None:
            tools[PLAN_TOOL] = EXIT_PLAN_MODE
        if self._spec.parent_id is None and self._journal.permissions[2] > 0:
            tools[ASK_TOOL] = ASK_USER
        return tools

    # -- the sandbox ---------------------------------------------------------------------------------------

    def is_sandboxed(self) -> bool:
        """Whether the kernel holds this agent's processes to what it may do."""
        return isinstance(choose_backend(self._settings.sandbox), Backend)

    def _confine(self, context: ToolContext, argv: list[str]) -> list[str]:
        """The command that runs `argv` in the agent's sandbox. Raises `ToolError` where there must be one and is none."""
        backend = choose_backend(self._settings.sandbox)
        read_only = self._spec.definition.read_only or self._journal.life.mode == "plan"
        if not isinstance(backend, Backend):
            if read_only:
                raise ToolError(backend.refusal)
            return argv
        policy = SandboxPolicy(
            workspace=context.workspace,
            scratch=_private_folder(context),
            read_only=read_only,
            network=self._spec.network,
            readable=toolchain_folders(os.environ, Path.home()),
            hidden=(self._settings.state_folder(), scratch_root()),
        )
        try:
            return confine_argv(policy, backend, argv)
        except CannotConfine as error:
            raise ToolError(str(error)) from error

    def has_effects(self, name: str) -> bool:
        """Whether a call of this tool may not simply be repeated; an unknown one does nothing at all."""
        tool = self._tools.get(name)
        return tool is not None and tool.effects

    def activity(self, call: Block) -> str:
        """The activity line for a call."""
        if call["name"] == SPAWN_TOOL:
            return f"Agent {str(call['input'].get('description', ''))[:80]}"
        tool = self._tools.get(call["name"])
        if tool is None or tool.activity is None:
            return str(call["name"])
        try:
            return tool.activity(call["input"])[:120]
        except (KeyError, TypeError, AttributeError):
            return str(call["name"])

    def fit(self, key: str, text: str) -> str:
        """`text`, or as much of it as the conversation takes; the rest is kept."""
        return fit(self._context(key), key, text)

    def run(self, call: Block) -> ToolFinished:
        """Run one call. Whatever goes wrong is the result; only being told to stop gets through."""
        began = time.monotonic()
        context = self._context(call["id"])
        known = dict(context.files_read)
        blocks = None
        try:
            tool, names = self._tools.get(call["name"]), self._journal.life.tool_names()
            if tool is None or call["name"] not in names:
                raise ToolError(f"There is no tool {call['name']!r}; you have: {', '.join(sorted(names))}.")
            validate_input(tool, call["input"])
            result = tool.run(context, call["input"])
            text, failed, blocks = fit(context, call["id"], result.text), result.is_error, result.blocks
        except ToolError as error:
            text, failed = str(error), True
        except Exception as error:
            log.error("tool.broke", agent_id=self._spec.agent_id, tool=call["name"], error=repr(error))
            text, failed = f"The tool {call['name']} failed unexpectedly: {type(error).__name__}: {error}", True
        files = {path: at for path, at in context.files_read.items() if known.get(path) != at}
        return ToolFinished(
            tool_use_id=call["id"],
            text=text,
            is_error=failed,
            blocks=blocks,
            files=files,
            duration_seconds=time.monotonic() - began,
        )

    def _context(self, tool_use_id: str) -> ToolContext:
        return ToolContext(
            agent_id=self._spec.agent_id,
            job_id=self._spec.job_id,
            workspace=Path(self._spec.workspace).resolve(),
            tool_use_id=tool_use_id,
            outputs=self._outputs,
            read_only=self._spec.definition.read_only,
            files_read=dict(self._journal.life.files_read),
            scratch=self._scratch,
            peers=self._peers,
            may_read=self.may_read,
            board=self.board,
            pad=self._pad,
            team=self._team,
            check=self._check,
        )


def _private_folder(context: ToolContext) -> Path:
    """The HOME and TMPDIR of the agent's processes. Not the scratch folder itself: the runtime keeps files of its own there."""
    folder = scratch_folder(context) / "files"
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)
        # Where a repository names nobody, a commit needs somebody.
        (folder / ".gitconfig").write_text(
            "[user]\n\tname = swarm\n\temail = swarm@localhost\n[safe]\n\tdirectory = *\n"
        )
    return folder.resolve()
