"""Match agents with workers: requirements, offers, and what a worker lacks. Pure.

A worker checks before it claims: an agent that it cannot serve stays queued for others, untouched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from operator import not_
from pathlib import PurePath
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from swarm.agent.hosts import HostState
from swarm.agent.spec import AgentSpec
from swarm.core.errors import install_command
from swarm.core.formats import FIRST
from swarm.core.release import FORMAT
from swarm.definitions.harness import accepts
from swarm.definitions.model import AgentDefinition
from swarm.definitions.names import canonical_tool, split_pattern
from swarm.definitions.tools import is_mcp, row_of
from swarm.models.vendors import vendor_of

ANY_MODEL = "*"
_HOST, _FORMAT = "host:", "format:"
OfferKind = Literal["tool", "workflow", "tag", "mcp", "host", "forge", "vendor", "harness"]
SERVERS = "servers"
"""The `mcp` offer of a worker that can use MCP servers."""
_NAMED = {
    "host": ("the host", "start a worker there"),
    "tool": ("the tool", "install its package there, or name its module in SWARM_TOOLS"),
    "workflow": (
        "the workflow",
        "install the package with this version of it there, or name its module in SWARM_TOOLS",
    ),
    "workflow:python": ("support for workflows in Python", install_command("workflows")),
    "workflow:javascript": ("support for workflows in JavaScript", install_command("workflows")),
    "forge": ("access to", 'name it in SWARM_FORGES there: {{"{0}": "gitea:VARIABLE"}}'),
    "vendor": ("a key for", "set its variable there (docs/vendors.md)"),
    "harness": (
        "the harness",
        "`swarm doctor` there says how to install it; SWARM_HARNESSES names a program elsewhere",
    ),
    "tag": ("the tag", "SWARM_TAGS={}"),
    "mcp": ("the MCP server", "SWARM_MCP_SERVERS={}"),
    f"mcp:{SERVERS}": ("support for MCP", install_command("mcp")),
}
"""Requirements in words, and how a worker gets them."""


class Needs(BaseModel):
    """One agent's requirements. Unknown fields are a newer worker's to judge."""

    model_config = ConfigDict(frozen=True)

    job: str = ""
    model: str = ""
    """The model that the worker's own credentials must reach; empty for a rehearsal, which needs none."""
    hub: str = ""
    """The hub of the agent's files."""
    checkouts: str = ""
    """The folder that holds its workspace, if it has a hub."""
    wants: tuple[str, ...] = ()
    """Requirements that only some workers meet (`tool:charge_card`, `tag:gpu`), in order."""
    versions: Mapping[str, str] = Field(default={}, exclude_if=not_)
    """Accepted versions of some of them, as `>=2.1.330,<2.2`."""

    @property
    def format(self) -> int:
        """The newest format of the agent's record and journal."""
        return _newest(self.wants)


class Has(BaseModel):
    """One worker's offers and state."""

    model_config = ConfigDict(frozen=True)

    only_job: str | None = None
    """The only job that it serves; empty: none now."""
    lacks: Mapping[str, str] = {}
    """Unusable models and the reason; `*`: all of them."""
    hub: str = ""
    checkouts: str = ""
    offers: Mapping[str, str] = {}
    """Offers that only some workers have, named as in `Needs.wants`, each with its version if any."""
    host: str = ""
    node: str = ""
    """The worker's name in Celery and Flower, `NAME@HOST`."""
    processes: int = 0
    """Number of agents that can run at once."""
    version: str = ""
    provider: str = ""
    started_at: float = 0.0
    """Unix seconds, by its own clock."""
    draining: bool = False
    """The worker takes no agents now."""
    sick: str = ""
    """Why its host takes no agents now."""
    host_state: HostState = HostState()
    broken: tuple[str, ...] = ()
    """Faults of tools that the worker should have and runs without."""

    @property
    def special(self) -> list[str]:
        """Offers other than the worker's host and formats."""
        return [name for name in self.offers if not name.startswith((_HOST, _FORMAT))]

    @property
    def format(self) -> int:
        """The newest format that it reads."""
        return _newest(self.offers)


def read_needs(document: str) -> Needs | None:
    """Read an agent's requirements; None if a newer version wrote them."""
    try:
        return Needs.model_validate_json(document)
    except ValidationError:
        return None


def read_workers(documents: Iterable[str]) -> list[Has]:
    """Read the workers' records. Those of newer versions are left out."""
    found = []
    for document in documents:
        with suppress(ValidationError):
            found.append(Has.model_validate_json(document))
    return found


def find_files_lack(needs: Needs, has: Has) -> str:
    """Explain why an agent's files cannot reach a worker, and what to set; empty if they can or need not."""
    if not needs.hub:
        return ""
    if needs.hub != has.hub:
        return (
            f"its files go through {needs.hub}, and the worker {f'has {has.hub}' if has.hub else 'has no hub'} "
            f"(set SWARM_HUB={needs.hub} there{f', or SWARM_HUB={has.hub} where you submit' if has.hub else ''})"
        )
    if needs.checkouts != has.checkouts:
        return (
            f"its files lie below {needs.checkouts}, the worker's below {has.checkouts} "
            f"(set SWARM_CHECKOUTS={has.checkouts} where you submit)"
        )
    return ""


def offer(kind: OfferKind, name: str) -> str:
    """Name something that only some workers have, as needs and offers do."""
    return f"{kind}:{name}"


def needs_of(
    spec: AgentSpec, given: Iterable[str] = (), *, serving: bool = False, servers: Iterable[str] = ()
) -> Needs:
    """Return an agent's requirements: its definition's, and its tools from outside.

    `given` are external tools that it already has. `serving`: it needs a worker that can run MCP servers. `servers` are the keys of
    those on some workers only. An agent that lists no tools gets those of its first worker, and needs them from then on.
    """
    listed = (canonical_tool(split_pattern(entry)[0]) for entry in spec.definition.tools or ())
    given = list(given)
    tools = {name for name in (*listed, *given) if row_of(name).origin}
    wants = {offer("tool", name) for name in tools} | {offer("tag", tag) for tag in spec.definition.requires}
    wants |= {offer("workflow", known_as(spec.definition))} if spec.definition.workflow else set()
    wants |= {offer("host", spec.host)} if spec.host else set()
    wants |= {offer("forge", spec.repository.site)} if spec.repository else set()
    wants |= {offer("mcp", SERVERS)} if serving or any(map(is_mcp, given)) else set()
    wants |= {offer("mcp", key) for key in servers}
    harness = spec.definition.harness
    wants |= {offer("harness", harness.program)} if harness else set()
    named = (spec.definition.asks_model or harness) and not asks_anywhere(spec)
    model = spec.model if named else ""
    wants |= _wants_of_model(model) if model else set()
    wants |= _TODAY
    versions = {offer("harness", harness.program): harness.version} if harness and harness.version else {}
    needs = Needs(job=spec.job_id, model=model, wants=tuple(sorted(wants)), versions=versions)
    if spec.files is None or not spec.is_carried:
        return needs
    # The agent's own folder, and in it the workspace under its name.
    checkouts = str(PurePath(spec.workspace).parent.parent)
    return needs.model_copy(update={"hub": spec.files.hub, "checkouts": checkouts})


def asks_anywhere(spec: AgentSpec) -> bool:
    """Whether any worker may take the agent, whatever its model: a rehearsal needs no key, and a chain has other models.

    A worker that cannot use the model of a chain finds another worker, or another model. Harnesses use no chain.
    """
    return bool(spec.base_url) or bool(spec.fallbacks and spec.definition.asks_model)


def with_model(needs: Needs, model: str, was: str = "") -> Needs:
    """Return an agent's requirements for another model; `was` is the last one, and an empty `model` is any."""
    wants = set(needs.wants) - _wants_of_model(was or needs.model) | _wants_of_model(model)
    return needs.model_copy(update={"model": model, "wants": tuple(sorted(wants))})


def _wants_of_model(model: str) -> set[str]:
    vendor = vendor_of(model)
    return {offer("vendor", vendor.name)} if vendor is not None and vendor.key else set()


def formats(oldest: int, newest: int) -> set[str]:
    """Name these formats as offers and wants do; the first one has no name, because every worker reads it."""
    return {f"{_FORMAT}{number}" for number in range(max(oldest, FIRST + 1), newest + 1)}


_TODAY = formats(FORMAT, FORMAT)


def raise_format(document: str) -> Needs:
    """Return an older agent's requirements with today's format, in which the claiming worker writes from now on."""
    needs = Needs.model_validate_json(document)
    return needs.model_copy(update={"wants": tuple(sorted({*needs.wants, *_TODAY}))})


def _newest(names: Iterable[str]) -> int:
    return max((int(name.removeprefix(_FORMAT)) for name in names if name.startswith(_FORMAT)), default=FIRST)


def known_as(definition: AgentDefinition) -> str:
    """Name a workflow's offer: a native one's name and version, a sandboxed one's language."""
    program = definition.workflow
    assert program is not None, "it is no workflow"
    return f"{definition.name}@{program.digest}" if program.language == "native" else program.language


def find_unmet(needs: Needs, has: Has) -> str:
    """Explain why a worker cannot serve an agent; empty if it can."""
    if has.only_job is not None and needs.job != has.only_job:
        return f"it serves {has.only_job} only" if has.only_job else "it is reserved for the next command's job"
    if lack := find_files_lack(needs, has):
        return lack
    if has.sick:
        return f"the host {has.host} takes no agents: {has.sick}"
    if needs.format > has.format:
        return f"it needs format {needs.format}, and {has.node or 'the worker'} reads up to {has.format}: upgrade it"
    if missing := [want for want in needs.wants if want not in has.offers]:
        return f"it lacks {' and '.join(_in_words(want, has) for want in missing)}"
    for want, wanted in needs.versions.items():
        if not accepts(wanted, found := has.offers[want]):
            return f"it has {want.partition(':')[2]} {found or 'in an unknown version'}, and the agent needs {wanted}"
    if not needs.model:
        return ""
    if vendor_of(needs.model) is not None:
        return has.lacks.get(needs.model, "")
    return has.lacks.get(ANY_MODEL) or has.lacks.get(needs.model, "")


def find_differing(workers: Iterable[Has]) -> list[str]:
    """Return the names that these workers offer in several versions. Harnesses are no part of it: definitions say which they accept."""
    versions: dict[str, set[str]] = {}
    for has in workers:
        for name, version in has.offers.items():
            if not name.startswith(offer("harness", "")):
                versions.setdefault(name, set()).add(version)
    return sorted(name.partition(":")[2] for name, found in versions.items() if len(found) > 1)


def find_common_lack(needs: Needs, workers: Collection[Has]) -> str:
    """Explain why none of these workers can serve an agent; empty if one can."""
    lacks = [find_unmet(needs, has) for has in workers]
    if not all(lacks):
        return ""
    # Workers of other jobs say nothing about this one.
    ours = [lack for lack, has in zip(lacks, workers, strict=True) if has.only_job in (None, needs.job)]
    if found := "; ".join(dict.fromkeys(ours)):
        return found
    nowhere = [want for want in needs.wants if not any(want in has.offers for has in workers)]
    wanted = f", which needs {' and '.join(map(_in_words, nowhere))}" if nowhere else ""
    return f"no worker takes this agent{wanted}"


def _in_words(want: str, has: Has = Has()) -> str:  # noqa: B008 (it is frozen)
    kind, _, name = want.partition(":")
    fault = next((fault for fault in has.broken if kind == "tool" and name in fault), "")
    named, remedy = _NAMED.get(want) or _NAMED.get(kind) or (kind, "")
    note = fault or remedy.format(name)
    return (named if want in _NAMED else f"{named} {name}") + (f" ({note})" if note else "")
