"""What a call is expected to take, and how long a model that is away is waited for: pure.

Tests of swarm/agent/blocks.py, swarm/runtime/model_call.py, swarm/runtime/budget.py, swarm/runtime/spawner.py.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from swarm.agent.blocks import hold_image
from swarm.agent.decision import MAX_AWAY_SECONDS, CallModel, End, next_action
from swarm.agent.entries import Assistant, ModelFailed, Prompt, Started, ToolFinished
from swarm.agent.history import History, fold
from swarm.agent.spec import AgentSpec, Limits
from swarm.core.errors import PermanentModelError, TransientModelError
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.model import AgentDefinition
from swarm.models import Usage
from swarm.models.facts import NO_FACTS
from swarm.runtime.budget import Prices, Sizes, reply_room, reservation_for
from swarm.runtime.model_call import describe_failure
from swarm.runtime.spawner import plan_children

SONNET = "claude-sonnet-5-5"
PRICES = Prices(SONNET, None)
SIZES = Sizes.of(SONNET, NO_FACTS, None)


def make_spec(**limits: object) -> AgentSpec:
    return AgentSpec(
        agent_id="agent-0000000000000000",
        job_id="job-0000000000000000",
        definition=AgentDefinition(name="worker", description="Works.", prompt="Work."),
        description="work",
        prompt="Do it.",
        model=SONNET,
        workspace="/nonexistent",
        limits=Limits.model_validate(limits),
    )


def begin(spec: AgentSpec | None = None) -> History:
    tools = [{"name": name, "description": "x" * 300, "input_schema": {}} for name in ("Read", "Agent")]
    return fold("a", [Started(spec=spec or make_spec(), system="s" * 700, tools=tools), Prompt(text="go")])


def call(history: History, name: str = "Read", *, tokens: int = 1_000, **given: object) -> None:
    block = {"type": "tool_use", "id": f"t{history.turns}", "name": name, "input": given}
    history.apply(Assistant(content=[block], stop_reason="tool_use", usage=Usage(input_tokens=tokens), model="m"))


# -- estimates ---------------------------------------------------------------------------------------------------------


def test_an_estimate_is_of_what_is_sent_and_knows_what_the_server_counted_last() -> None:
    history = begin()
    assert history.tokens_to_send() >= (700 + 600) // 4
    call(history, tokens=60_000)
    assert history.tokens_to_send() == 60_000
    history.apply(ToolFinished(tool_use_id="t0", text="r" * 35_000))
    assert history.tokens_to_send() == 70_000


def test_a_fork_is_expected_to_send_its_parents_conversation() -> None:
    parent = begin()
    call(parent, "Agent", tokens=60_000)
    fork = begin()
    fork.inherit(parent)
    assert fork.tokens_to_send() >= 60_000


def test_a_last_reply_is_asked_for_less_than_another_one_and_keeps_nothing_for_after_it() -> None:
    history = begin()
    final, other = (reservation_for(history, PRICES, final=final, now=0.0) for final in (True, False))
    assert final.tokens < other.tokens and final.closing_tokens == final.closing_cost == 0
    assert other.closing_tokens > history.tokens_to_send() and other.closing_cost > 0


def test_a_reply_is_no_longer_than_was_granted_or_than_the_context_has_room_for() -> None:
    history = begin()
    assert reply_room(history, SIZES, granted=0.5) < reply_room(history, SIZES)
    call(history, tokens=990_000)
    assert reply_room(history, SIZES) <= 10_000


# -- a model that is away ------------------------------------------------------------------------------------------------


def _outage(history: History, seconds: float, error: TransientModelError, chance: random.Random) -> float:
    """The agent's attempts, by a clock of their own, until the model is back; returns when the first one succeeds."""
    now = 1_000.0
    back = now + seconds
    while now < back:
        history.apply(describe_failure(history, error, now, chance.random()))
        action = next_action(history)
        assert isinstance(action, CallModel), action
        # Of a limit the governor knows when to come back.
        now = max(action.not_before, now + (error.retry_after_seconds or 0.0))
    return now - back


@pytest.mark.parametrize("kind", ["connection", "overloaded", "server", "timeout"])
def test_of_200_agents_none_is_lost_while_the_model_is_away_for_15_minutes(kind: str) -> None:
    chance = random.Random(1)
    late = [_outage(begin(), 900, TransientModelError("away", kind=kind), chance) for _ in range(200)]
    assert max(late) <= 60


def test_being_told_when_to_come_back_never_counts() -> None:
    history, limited = begin(), TransientModelError("later", kind="rate_limit", retry_after_seconds=60)
    _outage(history, 10 * MAX_AWAY_SECONDS, limited, random.Random(1))


def test_a_model_that_is_away_for_hours_ends_the_agent_unless_its_job_has_a_time_limit() -> None:
    error = TransientModelError("no connection", kind="connection")
    for limits, gives_up in (({}, True), ({"timeout_seconds": 86_400.0}, False)):
        history = begin(make_spec(**limits))
        history.apply(describe_failure(history, error, 1_000.0, 0.5))
        history.apply(describe_failure(history, error, 1_000.0 + MAX_AWAY_SECONDS, 0.5))
        assert isinstance(next_action(history), End) == gives_up


def test_a_refused_image_is_taken_out_once_and_the_agent_goes_on() -> None:
    history, refused = begin(), PermanentModelError("could not process image", kind="bad_image")
    call(history)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}
    history.apply(ToolFinished(tool_use_id="t0", text="[image/png]", blocks=[image]))
    history.apply(describe_failure(history, refused, 0.0, 0.0))
    assert not hold_image(history.messages) and "taken out" in str(history.messages[-1]["content"])
    assert next_action(history) == CallModel()
    history.apply(describe_failure(history, refused, 0.0, 0.0))
    assert isinstance(history.failure, ModelFailed) and history.failure.permanent


# -- children and prices ---------------------------------------------------------------------------------------------------


def _spawn(spec: AgentSpec, prices_file: Path | None, model: str) -> tuple[list[str], list[str]]:
    history = begin(spec)
    call(history, "Agent", description="a part", prompt="do it", model=model)
    definitions = {"general-purpose": AgentDefinition(name="general-purpose", description="Any.", prompt="Do.")}
    plan = plan_children(
        list(history.pending.values()),
        history,
        Catalogue(definitions=definitions),
        lambda who: who,
        prices_file=prices_file,
    )
    return [child.model for child in plan.children.values() if isinstance(child, AgentSpec)], [*plan.refused.values()]


def test_a_child_of_unknown_price_is_refused_where_a_budget_is_to_be_kept() -> None:
    unpriced = make_spec(budget_usd=1.0).model_copy(update={"model": "claude-opus-9-9-preview"})
    models, refused = _spawn(unpriced, None, "inherit")
    assert not models and "price" in refused[0]
    without_budget = make_spec().model_copy(update={"model": "claude-opus-9-9-preview"})
    assert _spawn(without_budget, None, "inherit") == (["claude-opus-9-9-preview"], [])


def test_a_model_that_a_call_names_must_be_known_and_the_refusal_lists_those_that_are() -> None:
    models, [refused] = _spawn(make_spec(), None, "gpt-9")
    assert not models and "'gpt-9' is not known here" in refused and "haiku (claude-haiku-" in refused


def test_the_aliases_of_the_prices_file_name_models_of_children_too(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("aliases: {quick: claude-haiku-5-5}\n")
    assert _spawn(make_spec(), prices, "quick") == (["claude-haiku-5-5"], [])
