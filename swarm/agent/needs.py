"""What an agent needs of the worker that runs it, what a worker has, and what that worker lacks then. Pure.

A worker looks before it claims: an agent that it cannot serve stays queued for others, and nothing of it is touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from swarm.agent.spec import AgentSpec
from swarm.definitions.names import canonical_tool, split_pattern
from swarm.definitions.tools import is_mcp, row_of

ANY_MODEL = "*"
_HOST = "host:"
OfferKind = Literal["tool", "tag", "mcp", "host"]
_NAMED = {"host": "the host", "tool": "the tool", "tag": "the tag", "mcp": "what it takes for MCP"}
SERVERS = "servers"
"""What a worker offers of the kind `mcp` that can speak with MCP servers."""


class Needs(BaseModel):
    """What one agent needs. A field that this code does not know is a newer worker's to judge."""

    model_config = ConfigDict(frozen=True)

    job: str = ""
    model: str = ""
    """The model that is asked with the worker's own credentials; empty for a rehearsal, which takes none."""
    hub: str = ""
    """The hub that its files go through …"""
    checkouts: str = ""
    """… and the folder below which its workspace lies then."""
    wants: tuple[str, ...] = ()
    """What not every worker offers (`tool:charge_card`, `tag:gpu`), in order."""


class Has(BaseModel):
    """What one worker has."""

    model_config = ConfigDict(frozen=True)

    only_job: str | None = None
    """It is for this job alone; empty: for none now."""
    lacks: Mapping[str, str] = {}
    """Models that it cannot use now, and why; `*`: all of them."""
    hub: str = ""
    checkouts: str = ""
    offers: Mapping[str, str] = {}
    """What not every worker has, by kind and name as in `Needs.wants`, with the version of each where it has one."""
    host: str = ""
    node: str = ""
    """Its name in Celery and Flower, `NAME@HOST`."""
    processes: int = 0
    """How many agents it can run at once."""
    version: str = ""
    provider: str = ""
    started_at: float = 0.0
    """Unix seconds, by its own clock."""
    draining: bool = False
    """It takes no agents now."""
    broken: tuple[str, ...] = ()
    """What is wrong with tools that it should have and goes on without."""

    @property
    def special(self) -> list[str]:
        """What it offers beyond its being where it is."""
        return [name for name in self.offers if not name.startswith(_HOST)]


def read_needs(document: str) -> Needs | None:
    """What an agent's record says that it needs; None: a newer version wrote it, and whom it takes is not known."""
    try:
        return Needs.model_validate_json(document)
    except ValidationError:
        return None


def read_workers(documents: Iterable[str]) -> list[Has]:
    """What workers say that they have. Of one that a newer version wrote nothing is known, and it is left out."""
    found = []
    for document in documents:
        with suppress(ValidationError):
            found.append(Has.model_validate_json(document))
    return found


def find_files_lack(needs: Needs, has: Has) -> str:
    """Why an agent's files cannot be brought to a worker; empty if they can, or need not be."""
    if not needs.hub:
        return ""
    if needs.hub != has.hub:
        return f"its files go through {needs.hub}, and the worker {f'has {has.hub}' if has.hub else 'has no hub'} (SWARM_HUB)"
    if needs.checkouts != has.checkouts:
        return f"its files lie below {needs.checkouts}, the worker's below {has.checkouts or 'no folder'} (SWARM_CHECKOUTS)"
    return ""


def offer(kind: OfferKind, name: str) -> str:
    """How something that not every worker has is called in needs and offers."""
    return f"{kind}:{name}"


def needs_of(
    spec: AgentSpec, given: Iterable[str] = (), *, serving: bool = False, servers: Iterable[str] = ()
) -> Needs:
    """What this agent needs: what its definition requires, and of tools from outside those that it lists, or was `given` already.

    `serving`: its job has MCP servers for it, of which not every worker has those of the keys `servers`. One that lists no tools gets
    what the worker has that begins it, and needs that from then on.
    """
    listed = (canonical_tool(split_pattern(entry)[0]) for entry in spec.definition.tools or ())
    given = list(given)
    tools = {name for name in (*listed, *given) if row_of(name).origin}
    wants = {offer("tool", name) for name in tools} | {offer("tag", tag) for tag in spec.definition.requires}
    wants |= {offer("host", spec.host)} if spec.host else set()
    wants |= {offer("mcp", SERVERS)} if serving or spec.definition.servers or any(map(is_mcp, given)) else set()
    wants |= {offer("mcp", key) for key in servers}
    model = "" if spec.base_url or spec.definition.command else spec.model
    needs = Needs(job=spec.job_id, model=model, wants=tuple(sorted(wants)))
    if spec.files is None or not spec.is_carried:
        return needs
    # The agent's own folder, and in it the workspace under its name.
    checkouts = str(PurePath(spec.workspace).parent.parent)
    return needs.model_copy(update={"hub": spec.files.hub, "checkouts": checkouts})


def find_unmet(needs: Needs, has: Has) -> str:
    """Why a worker cannot serve an agent; empty if it can."""
    if has.only_job is not None and needs.job != has.only_job:
        return f"it is there for {has.only_job} only" if has.only_job else "it is kept for the next command's job"
    if lack := find_files_lack(needs, has):
        return lack
    if missing := [want for want in needs.wants if want not in has.offers]:
        return f"it has not {' and '.join(_in_words(want, has) for want in missing)}"
    if not needs.model:
        return ""
    return has.lacks.get(ANY_MODEL) or has.lacks.get(needs.model, "")


def find_differing(workers: Iterable[Has]) -> list[str]:
    """What these workers have in several versions, by name."""
    versions: dict[str, set[str]] = {}
    for has in workers:
        for name, version in has.offers.items():
            versions.setdefault(name, set()).add(version)
    return sorted(name.partition(":")[2] for name, found in versions.items() if len(found) > 1)


def find_common_lack(needs: Needs, workers: Collection[Has]) -> str:
    """Why none of these workers can serve an agent; empty if one can."""
    lacks = [find_unmet(needs, has) for has in workers]
    if not all(lacks):
        return ""
    # Those that are there for other jobs say nothing about this one.
    ours = [lack for lack, has in zip(lacks, workers, strict=True) if has.only_job in (None, needs.job)]
    if found := "; ".join(dict.fromkeys(ours)):
        return found
    wanted = f", which needs {' and '.join(map(_in_words, needs.wants))}" if needs.wants else ""
    return f"no worker is there that serves it{wanted}"


def _in_words(want: str, has: Has = Has()) -> str:  # noqa: B008 (it is frozen)
    kind, _, name = want.partition(":")
    fault = next((fault for fault in has.broken if kind == "tool" and name in fault), "")
    named = "the MCP server" if kind == "mcp" and name != SERVERS else _NAMED.get(kind, kind)
    return f"{named} {name}" + (f" ({fault})" if fault else "")
