"""Records: what Python and Lua both know of agents stands once in each, and is the same.

Tests of swarm/core/records.py, swarm/core/usage.py, swarm/store/fields.py, swarm/store/library.py.
"""

from __future__ import annotations

import re
from typing import get_args

from swarm.core.records import AGENT_FIELDS, TERMINAL_STATES, Event, State, read_agent, read_job
from swarm.core.usage import COUNTERS, Counters, Usage
from swarm.store.library import STEPS


def _table(name: str) -> str:
    [found] = re.findall(rf"^(?:local )?{name} = {{(.*)}}$", STEPS.source, re.MULTILINE)
    return found


def test_lua_and_python_know_the_same_states() -> None:
    assert set(re.findall(r"(\w+) = true", _table("TERMINAL"))) == TERMINAL_STATES
    [told] = re.findall(r"^-- States: (queued.*)\.$", STEPS.source, re.MULTILINE)
    assert set(re.findall(r"\w+", told)) == set(get_args(State))
    assert set(get_args(State)) > TERMINAL_STATES


def test_lua_and_python_count_the_same() -> None:
    assert tuple(re.findall(r"'(\w+)'", _table("COUNTERS"))) == COUNTERS


def test_every_field_of_a_record_that_is_read_is_written_by_a_step_or_with_the_spec() -> None:
    by_spec = {"label", "definition", "model", "rehearsed", "name", "background", "teammate", "isolation"}
    # What `emit_once` writes is named by its caller.
    by_spec.add("merge")
    # The parent's runtime knows the phase.
    by_spec.add("phase")
    written = set(re.findall(r"'(\w+)'", STEPS.source)) | by_spec | {f"below_{name}" for name in COUNTERS}
    assert set(AGENT_FIELDS) <= written


def test_every_event_that_a_step_writes_is_explained() -> None:
    written = set(re.findall(r"\bemit\([\w.]+, '(\w+)'", STEPS.source))
    assert {"ended", "board", "undelivered"} <= written <= set(re.findall(r"`(\w+)`", Event.__doc__ or ""))


def test_flags_are_booleans_numbers_are_numbers_and_what_is_missing_has_its_default() -> None:
    found = {
        "state": "parked",
        "idle": "1",
        "parent": "",
        "depth": "0",
        "input": "5",
        "below_cost": "7",
        "created": "1.5",
    }
    agent = read_agent("agent-1", found)
    assert agent.idle is True and agent.teammate is False and agent.parent_id is None
    assert (agent.usage, agent.below) == (Usage(input_tokens=5), Counters(cost=7))
    assert (agent.subtree_tokens, agent.subtree_cost_usd) == (5, 7e-9)
    assert (agent.created_at, agent.ended_at, agent.called) == (1.5, None, "root")
    assert not agent.ended and not agent.at_work
    job = read_job("job-1", {"state": "failed", "tools": "2"})
    assert job.ended and job.sums == Counters(tools=2) and job.read_up_to == "0-0"
