"""The catalogue: every agent definition that applies in a workspace, by name.

Trusted definitions of the project win over the person's, and those over the shipped types. From the workspace up
to the root of its Git repository, the nearest folder wins. Within a folder the order is `.swarm`, `.claude`,
`.opencode`, `.codex`.

A catalogue is built where a job is submitted. It is plain data and travels with the job, so a worker on another
host needs none of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from swarm.core.errors import UnknownDefinition
from swarm.core.formats import Formatted
from swarm.core.memo import Memo
from swarm.definitions.codex import read_codex_config, read_codex_role
from swarm.definitions.grants import Grant
from swarm.definitions.hook_commands import grant_of
from swarm.definitions.markdown import read_markdown, shipped_definitions
from swarm.definitions.mcp.servers import Server, describe_use
from swarm.definitions.model import AgentDefinition
from swarm.definitions.names import canonical_type, spell_part, suggest
from swarm.definitions.opencode import (
    CONFIG_NAMES,
    OpenCodeConfig,
    load_opencode_config,
    read_opencode_agents,
    read_opencode_config,
)
from swarm.definitions.own.workflow import declared_workflows
from swarm.definitions.plugins.enabled import load_plugins
from swarm.definitions.plugins.model import Plugin
from swarm.definitions.sources import (
    Problem,
    ReadResult,
    Unusable,
    config_folder,
    enumerate_briefly,
    exists,
    is_folder,
    list_files,
    project_folders,
    resolve,
)
from swarm.definitions.workflow_files import LANGUAGES, read_workflow

_OLD_MODES = ("mode", "modes")
"""Older folders of OpenCode for agents of the mode `primary`."""
_files = Memo[ReadResult](4_096)
_configs = Memo[OpenCodeConfig](256)


class Shadowed(BaseModel):
    """A definition that another one of the same name hides."""

    model_config = ConfigDict(frozen=True)

    name: str
    source: str
    hidden_by: str
    """The source that wins, or the file that switches the name off."""


class Catalogue(Formatted):
    """The definitions that apply, by name, with problems and hidden definitions."""

    model_config = ConfigDict(frozen=True)

    definitions: dict[str, AgentDefinition]
    problems: list[Problem] = []
    shadowed: list[Shadowed] = []
    max_depth: int | None = Field(default=None, exclude=True)
    """Maximum nesting depth of agents, if a configuration sets one."""
    grants: list[Grant] = Field(default=[], exclude=True)
    """Permissions that definitions of the workspace ask for. They hold only if the catalogue was loaded as trusted."""
    unapproved: list[Server] = Field(default=[], exclude=True)
    """MCP servers that definitions of an untrusted workspace would add."""

    def get(self, name: str) -> AgentDefinition:
        """Return the definition of that name, never a substitute. Raises `UnknownDefinition`, which lists the known names."""
        known = self.find_name(name)
        if known is None:
            raise self._unknown(name, list(self.definitions))
        return self.definitions[known]

    def find_name(self, given: str) -> str | None:
        """Return the type of this name: exact, another system's name, or in another case. None if there is none."""
        alike = [name for name in self.definitions if name.casefold() == given.casefold()]
        wanted: list[str] = [given, canonical_type(given), *(alike if len(alike) == 1 else ())]
        return next((name for name in wanted if name in self.definitions), None)

    def get_for_spawning(self, name: str) -> AgentDefinition:
        """Return the definition of that name if an agent can start it. Raises `UnknownDefinition`."""
        startable = [item.name for item in self.for_spawning()]
        known = self.find_name(name)
        if known is None or known not in startable:
            raise self._unknown(name, startable)
        return self.definitions[known]

    def _unknown(self, name: str, among: list[str]) -> UnknownDefinition:
        error = UnknownDefinition(name, among)
        switched_off = next((f"; {item.hidden_by} switches it off" for item in self.shadowed if item.name == name), "")
        error.args = (f"{error}{switched_off or suggest(name, dict.fromkeys(among))}",)
        return error

    def for_spawning(self) -> list[AgentDefinition]:
        """Return the definitions that a parent can start, sorted by name."""
        return [item for _, item in sorted(self.definitions.items()) if item.mode in ("subagent", "all")]


def load_catalogue(workspace: Path | None, home: Path | None = None, *, trusted: bool = False) -> Catalogue:
    """Load the definitions that apply in a workspace; unchanged files are not read again.

    `home` replaces the person's home folder. A workspace's definition replaces a shipped one or one of the person's only if the
    workspace is `trusted`.
    """
    project = [result for folder in project_folders(workspace) for result in _read_project(folder)]
    own = _read_own(workspace, home, trusted)
    mine = [definition for result in own for definition in result.definitions]
    sources, names = {one.source for one in mine}, {one.name.casefold() for one in mine}
    # Files in the home are the person's own, even if the home is a repository.
    foreign = [one for result in project for one in result.definitions if one.source not in sources]
    replacing = [one for one in foreign if one.name.casefold() in names]
    grants = _list_grants(foreign, replacing, workspace)
    unapproved = [] if trusted else [server for one in foreign for server in one.servers]
    if not trusted:
        project = [_restrict(result, foreign, replacing) for result in project]
    return _merge(project + own).model_copy(update={"grants": grants, "unapproved": unapproved})


def _read_own(workspace: Path | None, home: Path | None, trusted: bool) -> list[ReadResult]:
    """Read the definitions that come with no project: native workflows, the person's, their plugins', the shipped ones."""
    plugins = load_plugins(workspace, home).counting(trusted=trusted)
    brought = [result for one in plugins for result in read_plugin_agents(one)]
    shipped = list(shipped_definitions().values())
    native = ReadResult(definitions=declared_workflows())
    return [native, *_read_home(home), *brought, ReadResult(definitions=shipped)]


def _list_grants(
    foreign: Sequence[AgentDefinition], replacing: Sequence[AgentDefinition], workspace: Path | None
) -> list[Grant]:
    """List the grants that definitions of a project need."""
    grants = [_grant(one, "in place of the one that is shipped or your own", ",") for one in replacing]
    grants += [
        _grant(one, "has your memory of all projects, not of this one alone") for one in foreign if one.memory == "user"
    ]
    grants += [
        Grant(text=f"{describe_use(server)}, for the type {one.name}", source=one.source, content=server.digest)
        for one in foreign
        for server in one.servers
    ]
    return grants + [grant_of(hook, workspace) for one in foreign for hook in one.hooks]


def _grant(one: AgentDefinition, what: str, mark: str = "") -> Grant:
    content = one.model_dump_json(exclude={"warnings"})
    return Grant(text=f"the type {one.name}{mark} {what}", source=one.source, content=content)


def _restrict(
    result: ReadResult, foreign: Sequence[AgentDefinition], replacing: Sequence[AgentDefinition]
) -> ReadResult:
    """Reduce a project's definitions to an untrusted state: no replacements, hooks, MCP servers or user memory."""
    kept = [_narrow(one) if one in foreign else one for one in result.definitions if one not in replacing]
    return result.model_copy(update={"definitions": kept})


def _narrow(one: AgentDefinition) -> AgentDefinition:
    # The names remain as shared servers, so that the choice of tools can report which ones are missing.
    shared = dict.fromkeys([*one.shared_servers, *(server.name for server in one.servers)])
    memory = "project" if one.memory == "user" else one.memory
    return one.model_copy(update={"memory": memory, "hooks": [], "servers": [], "shared_servers": list(shared)})


def check_path(path: Path) -> ReadResult:
    """Read one file, a project, a folder like `.claude`, or any folder of definitions, and report all problems."""
    path = path.absolute()
    if not is_folder(path):
        return _read_any(path)
    results = _read_project(path) + _read_system_folder(path)
    if not any(result.definitions or result.problems or result.disabled for result in results):
        results = _read_files(path, (".md", ".toml"), _read_any, "any")
    return _join(results)


# -- where definitions are --------------------------------------------------------------------------------


def _read_project(folder: Path) -> list[ReadResult]:
    results = _read_markdown(folder / ".swarm") + _read_markdown(folder / ".claude")
    results += _read_opencode(folder / ".opencode", root=folder, outer=folder)
    return results + _read_codex(folder / ".codex", root=folder)


def _read_home(home: Path | None) -> list[ReadResult]:
    try:
        base = home or Path.home()
    except RuntimeError:
        return []  # a user without a home
    config = config_folder(base)
    results = _read_markdown(base / ".swarm") + _read_markdown(config / "swarm") + _read_markdown(base / ".claude")
    return results + _read_opencode(config / "opencode", root=None) + _read_codex(base / ".codex", root=None)


def read_plugin_agents(plugin: Plugin) -> list[ReadResult]:
    """Read a plugin's agents, called `PLUGIN:NAME`; they bring no hooks, MCP servers or permission modes of their own."""
    results: list[ReadResult] = []
    for place in plugin.agents:
        folder = place if is_folder(place) else place.parent
        read = partial(_read_plugin_agent, plugin, folder)
        variant = f"plugin {plugin.id} {plugin.digest} {folder}"
        found = _read_files(place, (".md",), read, variant) if is_folder(place) else [_read_file(place, read, variant)]
        results += found
    return results


def _read_plugin_agent(plugin: Plugin, folder: Path, path: Path) -> ReadResult:
    if not resolve(path).is_relative_to(resolve(plugin.folder)):
        fault = Unusable("it is a link that leads out of the plugin", "Put the file there itself.")
        return ReadResult(problems=[fault.as_problem(path)])
    result = read_markdown(path, name=path.name.removesuffix(".md").removesuffix(".agent"))
    scopes = [plugin.name, *path.parent.relative_to(folder).parts]
    named = [_of_plugin(one, plugin, ":".join(map(spell_part, scopes))) for one in result.definitions]
    return result.model_copy(update={"definitions": named, "disabled": {}})


def _of_plugin(one: AgentDefinition, plugin: Plugin, scope: str) -> AgentDefinition:
    own = {"hooks": [], "servers": [], "permission_mode": "default"}
    lost = [name for name, none in own.items() if getattr(one, name) != none]
    warnings = [f"a plugin's agent has no {enumerate_briefly(lost)} of its own"] if lost else []
    named = {"name": f"{scope}:{one.name}", "prompt": plugin.in_text(one.prompt), "command": []}
    return one.model_copy(update={**own, **named, "warnings": [*one.warnings, *warnings]})


def _read_system_folder(folder: Path) -> list[ReadResult]:
    """Read a folder that belongs to one of the systems; return nothing for any other folder."""
    match folder.name:
        case ".swarm" | "swarm" | ".claude":
            return _read_markdown(folder)
        case ".opencode" | "opencode":
            return _read_opencode(folder, root=folder.parent, outer=folder.parent)
        case ".codex":
            return _read_codex(folder, root=folder.parent)
    return []


def _read_markdown(folder: Path) -> list[ReadResult]:
    agents = _read_files(folder / "agents", (".md",), read_markdown, "markdown")
    return agents + _read_files(folder / "workflows", tuple(LANGUAGES), read_workflow, "workflow")


def _read_opencode(folder: Path, *, root: Path | None, outer: Path | None = None) -> list[ReadResult]:
    """Read the agents of an OpenCode folder; its configuration is merged with that of the project's folder `outer`."""
    places = [*([] if outer is None else [outer]), folder]
    paths = [path for place in places for name in CONFIG_NAMES if exists(path := place / name)]
    variant = f"opencode {root} {paths}"

    def load() -> OpenCodeConfig:
        return _configs.get(variant, lambda: load_opencode_config(paths, root=root))

    results: list[ReadResult] = []
    for agents in (folder / name for name in ("agent", "agents", *_OLD_MODES)):
        read = partial(_read_opencode_markdown, agents, load)
        results += _read_files(agents, (".md",), read, f"{variant} {agents}")
    if not paths:
        return results
    merged = [name for result in results for name in result.merged]
    read_rest = partial(_read_opencode_rest, load, merged)
    return [*results, _read_file(paths[-1], read_rest, f"{variant} {merged}")]


def _read_opencode_markdown(agents: Path, load: Callable[[], OpenCodeConfig], path: Path) -> ReadResult:
    name = path.relative_to(agents).with_suffix("").as_posix()
    mode = "primary" if agents.name in _OLD_MODES else None
    return read_markdown(path, name=name, bases=shipped_definitions(), mode=mode, config=load())


def _read_opencode_rest(load: Callable[[], OpenCodeConfig], merged: list[str], path: Path) -> ReadResult:
    return read_opencode_agents(load(), bases=shipped_definitions(), without=merged)


def _read_codex(folder: Path, *, root: Path | None) -> list[ReadResult]:
    results: list[ReadResult] = []
    config = folder / "config.toml"
    if exists(config):
        read = partial(read_codex_config, bases=shipped_definitions(), root=root)
        results.append(_read_file(config, read, f"codex {root}"))
    # A file that a configured role names belongs to that role; it is not a separate agent.
    taken = frozenset(file for result in results for file in result.includes)
    read_role = partial(read_codex_role, config=config if results else None)
    return results + _read_files(folder / "agents", (".toml",), read_role, f"codex {bool(results)}", taken)


def _read_files(
    folder: Path,
    suffixes: tuple[str, ...],
    read: Callable[[Path], ReadResult],
    variant: str,
    without: frozenset[Path] = frozenset(),
) -> list[ReadResult]:
    problems: list[Problem] = []
    files = list_files(folder, suffixes, problems)
    if problems:
        return [ReadResult(problems=problems)]
    return [_read_file(path, read, variant) for path in files if not without or resolve(path) not in without]


def _read_file(path: Path, read: Callable[[Path], ReadResult], variant: str) -> ReadResult:
    """Return `read(path)`, from memory while no file that it reads has changed. `variant` names the reader and its options."""
    return _files.get((variant, path), partial(read, path))


def _read_any(path: Path) -> ReadResult:
    """Read a file with the reader that its name and place call for."""
    root = path.parent.parent if path.parent.name in (".opencode", ".codex") else path.parent
    suffix = path.suffix.lower()
    if suffix in LANGUAGES:
        return read_workflow(path)
    if suffix in (".json", ".jsonc"):
        return read_opencode_config(path, bases=shipped_definitions(), root=root)
    if suffix == ".toml" and path.name == "config.toml":
        return read_codex_config(path, bases=shipped_definitions(), root=root)
    if suffix == ".toml":
        return read_codex_role(path)
    if {".opencode", "opencode"} & set(path.parent.parts):
        mode = "primary" if path.parent.name in _OLD_MODES else None
        return read_markdown(path, name=path.stem, bases=shipped_definitions(), mode=mode)
    return read_markdown(path)


# -- who wins ---------------------------------------------------------------------------------------------


def _merge(results: list[ReadResult]) -> Catalogue:
    """Merge results in order; the first definition of each name wins."""
    winners: dict[str, AgentDefinition] = {}
    shadowed: list[Shadowed] = []
    problems: dict[str, Problem] = {}
    disabled: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    for result in results:
        for definition in result.definitions:
            if (definition.name, definition.source) in seen:
                continue  # the home is also the project's folder: this file was read twice
            seen.add((definition.name, definition.source))
            hidden_by = winners[definition.name].source if definition.name in winners else disabled.get(definition.name)
            if hidden_by is None:
                winners[definition.name] = definition
            else:
                shadowed.append(Shadowed(name=definition.name, source=definition.source, hidden_by=hidden_by))
        problems.update({str(problem): problem for problem in result.problems})
        for name, path in result.disabled.items():
            disabled.setdefault(name, path)
    depths = [result.max_depth for result in results if result.max_depth is not None]
    return Catalogue(
        definitions=winners, problems=list(problems.values()), shadowed=shadowed, max_depth=min(depths, default=None)
    )


def _join(results: list[ReadResult]) -> ReadResult:
    return ReadResult(
        definitions=[item for result in results for item in result.definitions],
        problems=[item for result in results for item in result.problems],
        disabled={name: path for result in results for name, path in result.disabled.items()},
        includes=[item for result in results for item in result.includes],
    )
