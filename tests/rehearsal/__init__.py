"""The rehearsal server with a strict provider: the API's own rules, a prompt cache, rate limits and batches, all simulated.

A scenario has further fields here, and `chatter` is one more script.
"""

from tests.rehearsal.scenario import SimulatedScenario
from tests.rehearsal.simulation import RehearsalServer, load_scenario, parse_scenario

__all__ = ["RehearsalServer", "SimulatedScenario", "load_scenario", "parse_scenario"]
