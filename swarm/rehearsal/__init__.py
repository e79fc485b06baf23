"""A local server of the Messages API with scripted replies: demos, tests and load tests that spend no tokens.

The real SDK talks to it over real HTTP; only the model behind it is an actor. Names are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swarm.rehearsal.ledger import RequestRecord
    from swarm.rehearsal.scenario import Scenario, ScenarioError, load_scenario, parse_scenario
    from swarm.rehearsal.server import RehearsalServer

__all__ = ["RehearsalServer", "RequestRecord", "Scenario", "ScenarioError", "load_scenario", "parse_scenario"]

_HOMES = {
    "RehearsalServer": "swarm.rehearsal.server",
    "RequestRecord": "swarm.rehearsal.ledger",
    "Scenario": "swarm.rehearsal.scenario",
    "ScenarioError": "swarm.rehearsal.scenario",
    "load_scenario": "swarm.rehearsal.scenario",
    "parse_scenario": "swarm.rehearsal.scenario",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
