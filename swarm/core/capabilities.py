"""The table of capabilities. Without its row in `TABLE` and its folder, an optional one does not exist for any other code.

A row is the name of a folder of `swarm/capabilities`, whose `__init__` says what the capability offers, as a `Capability`. It imports
nothing heavy: the parts are named as `module:name` and imported by their users. Layers above and below read this table; no
other code imports an optional capability, except modules that a capability names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

ENGINE = ("governor", "context", "mapping")
"""They are not optional: the store's steps count on slots at the model, a conversation without cuts would one day not fit its model,
and maps are orders, which the client's functions return."""
# In the order of their steps' turn; what cuts a conversation comes last.
TABLE = (
    "governor",
    "mapping",
    "team",
    "plugins",
    "hooks",
    "memory",
    "variables",
    "skills",
    "mcp",
    "outcomes",
    "summaries",
    "batching",
    "workflows",
    "harnesses",
    "webhooks",
    "repositories",
    "triggers",
    "evaluations",
    "context",
)


class StepRow(NamedTuple):
    """A step of the loop: its name, its place, and the facts of which one must hold for an agent that may have it."""

    name: str
    home: str
    """`module:callable`. It makes the step, or returns None if the agent does not need it."""
    wanted: tuple[str, ...] = ()
    """Paths of attributes, from the agent's `Segment` on. Without these and a document every agent may have it."""
    document: str = ""
    """Kind of a document that travels with the job."""


class Capability(NamedTuple):
    """The offer of a capability, besides the Lua in its folder."""

    steps: tuple[StepRow, ...] = ()
    """Steps of the loop."""
    tools: Callable[[], Iterable[Any]] = tuple
    """Rows of the table of tools, each a `ToolRow`."""
    order: str = ""
    """`module:class` of its additions to an order, an `OrderPart` of `swarm.runtime.additions`."""
    worker: str = ""
    """`module:class` of its work in a worker besides agents, a `WorkerPart` of `swarm.runtime.additions`."""
    brought: str = ""
    """`module:function` that lists a plugin's parts of this capability's kinds, as `Brought` of `swarm.definitions.plugins.model`."""
    acts: str = ""
    """Module of `swarm.client` with acts."""
    reads: str = ""
    """Module of `swarm.client` with reads."""
    routes: str = ""
    """`module:function` of `swarm.api` that gives routes of the HTTP server besides operations, from a `Swarm`."""
    commands: Mapping[str, Mapping[str, str]] = {}
    """Commands by section: name → `module:function` of `swarm.cli`."""
    check: str = ""
    """`module:function` of `swarm.cli` with its check of a machine, for `swarm doctor`."""
    panels: str = ""
    """`module:name` of its panels of the page, a tuple in `swarm.web.panels`."""


@cache
def capabilities() -> Mapping[str, Capability]:
    """Return the offers of all capabilities, by name."""
    return {name: import_module(f"swarm.capabilities.{name}").CAPABILITY for name in TABLE}


def load(home: str) -> Any:
    """Import and return the object at `module:name`."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)
