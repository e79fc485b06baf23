"""Builds an agent's first entries with its request prefix: the system prompt and tools.

The tools are the available ones that pass the filter and are of use to the agent.

An agent that works alone should not read about others in every request. If its definition lists tools, it gets the shared ones in that
list. Otherwise teammates, and a root that can start agents, get the board; every agent of a job with several agents gets the
scratchpad. A teammate gets board, scratchpad and messages whatever its definition lists.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm.agent.entries import Finished, Prompt, Redefined, Started
from swarm.agent.needs import needs_of
from swarm.agent.prompts import first_message, system_prompt
from swarm.agent.spec import AgentSpec
from swarm.core.plain import clean
from swarm.definitions.model import AgentDefinition
from swarm.definitions.tools import PROGRAM, PROGRAM_AGAIN, Kind, ToolRow, all_rows, is_mcp, row_of
from swarm.permissions.filter import Situation, filter_tools
from swarm.runtime.steps import Offer
from swarm.tools import Tool
from swarm.tools.agents import naming_types
from swarm.tools.registry import offered_tools, tools_here

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts

_KEPT = 64


class RequestPrefix(NamedTuple):
    """The prefix of an agent's requests. Immutable: agents with equal prefixes share it."""

    system: str
    tools: list[dict[str, Any]]
    special: list[str]
    """The names of those tools that only some workers have."""


_openings: dict[tuple[Any, ...], RequestPrefix] = {}


def request_prefix_of(
    spec: AgentSpec,
    types: Sequence[AgentDefinition],
    *,
    sandboxed: bool,
    person_there: bool,
    here: Iterable[Tool],
    offers: Sequence[Offer] = (),
) -> RequestPrefix:
    """An agent's request prefix; the arguments are those of `choose_tools`."""
    tools = choose_tools(spec, types, sandboxed=sandboxed, person_there=person_there, here=here, offers=offers)
    prompt = system_prompt(spec, {tool.name for tool in tools})
    for offer in offers:
        tools = offer.finish(tools)
    prompt = "\n\n".join(filter(None, [prompt, *(offer.introduce() for offer in offers)]))
    special = [tool.name for tool in tools if row_of(tool.name).origin or is_mcp(tool.name)]
    return RequestPrefix(*clean((prompt, [tool.schema() for tool in tools])), special)


def choose_tools(
    spec: AgentSpec,
    types: Sequence[AgentDefinition],
    *,
    sandboxed: bool,
    person_there: bool,
    here: Iterable[Tool] | None = None,
    offers: Sequence[Offer] = (),
) -> list[Tool]:
    """Choose an agent's tools, from those of any worker or `here`.

    `types` are the definitions that it can start, `offers` the additions of its capabilities. `person_there` says that questions are
    answered.
    """
    every = offered_tools() if here is None else here
    available = {tool.name: tool for tool in (*every, *(tool for offer in offers for tool in offer.tools()))}
    if spec.definition.command:
        return [available[PROGRAM_AGAIN if spec.definition.restart else PROGRAM]]
    tools = [available[name] for name in permitted(spec, list(available), sandboxed=sandboxed)]
    spawns = any(tool.row.kind is Kind.SPAWN for tool in tools)
    plans = any(tool.row.sets_mode for tool in tools) and _may_plan(spec, person_there=person_there)
    met = {offer.meets for offer in offers}
    return [
        # With the types available in this job.
        naming_types(tool, types, coordinated=bool(spec.definition.coordination))
        if tool.row.kind is Kind.SPAWN
        else tool
        for tool in tools
        if is_of_use(tool.row, spec, spawns=spawns, person_there=person_there, met=met, plans=plans)
    ]


def permitted(spec: AgentSpec, names: Sequence[str], *, sandboxed: bool) -> list[str]:
    """Return the tools of these names that the filter leaves to an agent, in order."""
    situation = Situation(
        definition=with_team_tools(spec),
        depth=spec.depth,
        max_depth=spec.limits.max_depth,
        is_root=spec.parent_id is None,
        background=spec.background,
        mode=spec.mode,
        sandbox=sandboxed,
    )
    return filter_tools(names, situation)


def with_team_tools(spec: AgentSpec) -> AgentDefinition:
    """The agent's definition. A teammate's tool list, if any, gains every teammate's tools."""
    definition = spec.definition
    if not spec.teammate or definition.tools is None:
        return definition
    of_teammates = [row.name for row in all_rows() if row.of_teammates]
    return definition.model_copy(update={"tools": [*definition.tools, *of_teammates]})


def _may_plan(spec: AgentSpec, *, person_there: bool) -> bool:
    return spec.parent_id is None and person_there and spec.mode != "plan" and not spec.definition.read_only


def is_of_use(
    row: ToolRow, spec: AgentSpec, *, spawns: bool, person_there: bool, met: Collection[str] = (), plans: bool = False
) -> bool:
    """Whether a permitted tool is of use to the agent."""
    is_root, several = spec.parent_id is None, spec.limits.max_depth > 0
    flows = spec.definition.workflow is not None
    asks = is_root or flows
    chosen = (spec.definition.tools is not None or spec.teammate) and not row.root_only
    uses: dict[str, bool] = {
        "children": spawns,
        "several": chosen or several,
        "lead": chosen or (is_root and several),
        "first": chosen or asks,
        "plan": spec.after_plan is not None or plans,
        "planner": plans,
        "person": asks and person_there,
        "skills": "skills" in met,
        "servers": False,  # added by the servers' own offers
        "program": bool(spec.definition.command),
        "listed": spec.definition.tools is not None,
        "flow": flows,
    }
    return uses.get(row.needs, True)


# -- the first entries ------------------------------------------------------------------------------------------


def open_for(parts: Parts, spec: AgentSpec) -> RequestPrefix:
    """The request prefix of an agent of the job, as if it ran on a worker like this one. Cached per process."""
    claim, settings, person_there = parts.segment.claim, parts.segment.settings, parts.segment.ask_seconds > 0
    offers = [offer for step in parts.steps if (offer := step.offer(spec)) is not None]
    key = (
        claim.definitions,
        tuple(offer.key for offer in offers),
        spec.definition.model_dump_json(),
        (spec.depth, spec.limits.max_depth, spec.parent_id is None),
        (spec.background, spec.teammate, spec.mode, spec.after_plan),
        (settings.sandbox, settings.tags, person_there),
    )
    known = _openings.get(key)
    if known is None:
        sandboxed, here = tools_here(settings.sandbox, settings.tags)
        types = parts.catalogue.for_spawning()
        known = request_prefix_of(spec, types, sandboxed=sandboxed, person_there=person_there, here=here, offers=offers)
        if claim.definitions:
            if len(_openings) >= _KEPT:
                _openings.clear()
            _openings[key] = known
    return known


def begin(parts: Parts) -> Finished | None:
    """Write the journal's first entries. Returns the agent's end if it cannot begin here."""
    segment, spec = parts.segment, parts.segment.spec
    if not Path(spec.workspace).is_dir():
        where = f"the workspace {spec.workspace} does not exist on the worker's host {socket.gethostname()}"
        remedy = "share the folder with the workers under the same path, run a worker where it is, or have files carried (SWARM_HUB)"
        return Finished(state="failed", reason=f"{where}; {remedy}")
    told = first_message(spec, now=spec.created_at or segment.claim.now())
    if spec.fork is not None:
        segment.journal.append([Started(spec=spec), Prompt(text=told)], activity="starting")
        # The parent's conversation comes before the task.
        segment.journal.load()
        return None
    begins = [step.first_words() for step in parts.steps]
    opened = _open(parts, Started(spec=spec))
    if isinstance(opened, Finished):
        return opened
    task = Prompt(text="\n\n".join(filter(None, [*begins, told])))
    segment.journal.append([opened, task], activity="starting")
    return None


def redefine(parts: Parts) -> Finished | None:
    """Rebuild the request prefix by the changed definition. Returns an end if that fails."""
    opened = _open(parts, Redefined(spec=parts.segment.spec))
    if isinstance(opened, Finished):
        return opened
    parts.segment.journal.append([opened], activity="starting")
    return None


def _open(parts: Parts, entry: Started) -> Started | Finished:
    """Fill the entry with the request prefix; or the agent's end if it cannot work."""
    segment = parts.segment
    opening = open_for(parts, segment.spec)
    if opening.special:
        # Recorded first: the next worker of this agent must offer them, too.
        segment.store.agents.need(segment.claim, needs_of(segment.claim.spec, opening.special))
    # Not validated, because that would copy them: the encoder knows tools by identity.
    opened: Started | Finished = entry.model_copy(update={"system": opening.system, "tools": opening.tools})
    for step in parts.steps:
        if isinstance(opened, Finished):
            break
        opened = step.opened(opened)
    return opened
