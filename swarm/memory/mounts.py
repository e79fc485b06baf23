"""Where an agent's shelves stand below `/memories`: its own at the root, its project's shared one in the folder `team`."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import ValidationError

from swarm.agent.life import Life
from swarm.agent.spec import AgentSpec
from swarm.definitions.model import MemoryScope
from swarm.errors import ToolError
from swarm.memory.index import NOTES, render_memory
from swarm.memory.pages import Memories, PageView
from swarm.memory.paths import TEAM
from swarm.memory.shelves import Places, Shelf
from swarm.store.agents import Store
from swarm.tools import ToolContext


class Mounts(NamedTuple):
    """The shelves of one agent; one whose memory is its team's has no own."""

    own: Shelf | None
    team: Shelf

    def locate(self, path: str) -> tuple[Shelf, str]:
        """The shelf and the page on it, of a path below the root that is no root. Raises `ToolError`."""
        first, _, rest = path.partition("/")
        if first == TEAM:
            return self.team, rest
        if self.own is None:
            raise ToolError(f"Your memory is your team's: use paths below /memories/{TEAM}.")
        return self.own, path

    def pages(self, memories: Memories) -> list[tuple[str, PageView]]:
        """All pages, each with its path below the root."""
        own = [] if self.own is None else [(page.name, page) for page in memories.pages(self.own)]
        return own + [(f"{TEAM}/{page.name}", page) for page in memories.pages(self.team)]


def find_mounts(store: Store, spec: AgentSpec) -> Mounts | None:
    """The shelves of an agent; None for one whose definition has no memory, or whose job knows no places."""
    scope = spec.definition.memory
    if scope is None:
        return None
    try:
        places = Places.model_validate_json(store.client.hget(store.key("job", spec.job_id), "memory") or "")
    except ValidationError:
        return None
    return make_mounts(places, scope, spec.definition.name)


def make_mounts(places: Places, scope: MemoryScope, agent_type: str) -> Mounts:
    """The shelves of an agent of this type, whose memory has this scope."""
    own = None if scope == "team" else places.shelf(scope, agent_type)
    return Mounts(own, places.shelf("team", agent_type))


def restate_memory(context: ToolContext, life: Life) -> str:
    """What the agent is told of its memory, again: as it is by now."""
    told = tell_memory(context.store, context.spec, now=context.now())
    return told.removeprefix("<memory>\n").removesuffix("\n</memory>")


def tell_memory(store: Store, spec: AgentSpec, *, now: float) -> str:
    """What the agent is told of its memory, as it is now; empty for one without."""
    mounts = find_mounts(store, spec)
    return "" if mounts is None else tell_mounts(store, mounts, now=now)


def tell_mounts(store: Store, mounts: Mounts, *, now: float) -> str:
    """What an agent with these shelves is told of them."""
    memories = Memories(store)
    notes = memories.read(mounts.own, NOTES) if mounts.own is not None else None
    return render_memory(mounts.pages(memories), notes[1] if notes else "", now=now)
