"""Sets of cases, their variants and the options of their runs: what is merged, bounded and refused.

Tests of swarm/replay/sets.py, swarm/replay/run_options.py, swarm/replay/resumption.py, swarm/capabilities/evaluations/model.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm.capabilities.evaluations.model import Evaluation, find_gaps, view_evaluation
from swarm.client.order import Order, read_order
from swarm.core.errors import ConfigurationError, InvalidOption
from swarm.replay.run_options import options_of
from swarm.replay.sets import read_set, read_variant


def read(tmp_path: Path, *variants: str, budget: float | None = None, **told: Any) -> Evaluation:
    path = tmp_path / "cases.yaml"
    path.write_text(yaml.safe_dump(told))
    found = read_set(path, [], {}, list(map(read_variant, variants)))
    return Evaluation(id="eval-1", name="e", variants=found.variants, cases=found.cases, budget_usd=budget)


def limits_of(evaluation: Evaluation) -> list[Any]:
    orders = [read_order(Order, "x", **options_of(evaluation, place)) for place in evaluation.runs()]
    return [order.limits and order.limits.model_dump(exclude_unset=True) for order in orders]


def test_limits_are_merged_one_by_one_and_the_smaller_budget_holds(tmp_path: Path) -> None:
    told: dict[str, Any] = {
        "options": {"limits": {"max_turns": 9, "max_depth": 1}},
        "cases": [
            {"prompt": "a", "options": {"limits": {"max_turns": 5}}},
            {"prompt": "b", "options": {"limits": {"budget_usd": 7}}},
            {"prompt": "c", "options": {"limits": {"budget_usd": 0.5}}},
        ],
        "variants": {"now": {"options": {"limits": {"max_agents": 3}}}},
    }
    common = {"max_depth": 1, "max_agents": 3}
    assert limits_of(read(tmp_path, **told)) == [
        {"max_turns": 5, **common},
        {"max_turns": 9, "budget_usd": 7, **common},
        {"max_turns": 9, "budget_usd": 0.5, **common},
    ]
    assert [one["budget_usd"] for one in limits_of(read(tmp_path, budget=6, **told))] == [2, 2, 0.5]
    assert limits_of(read(tmp_path, cases=[{"prompt": "a"}])) == [None]
    unusable = read(tmp_path, budget=6, cases=[{"prompt": "a", "options": {"limits": {"budget_usd": "much"}}}])
    with pytest.raises(InvalidOption, match=r"limits\.budget_usd"):
        limits_of(unusable)


def test_values_of_a_command_line_have_the_types_of_yaml() -> None:
    options = read_variant("b:summaries=true,tries=3,model=openai:gpt-6,check_seconds=1.5,title='3'").options
    read_order(Order, "x", **options)
    assert options["summaries"] is True and options["tries"] == 3 and options["check_seconds"] == 1.5
    assert options["model"] == "openai:gpt-6" and options["title"] == "3"
    assert read_variant("b:title=2026-01-01").options == {"title": "2026-01-01"}
    with pytest.raises(ConfigurationError, match="is not YAML"):
        read_variant("b:title='open")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"cases": [{"prompt": "a", "options": {"limits": 5}}]}, "case case-1: limits: 5 is no mapping"),
        ({"cases": [{"prompt": "a", "options": ["a"]}]}, "case case-1: options: ['a'] is no mapping"),
        ({"cases": [{"prompt": "a"}], "options": {"limits": [1]}}, "limits: [1] is no mapping"),
        ({"cases": [{"prompt": "a"}], "variants": {"b": {"options": {"limits": 5}}}}, "variant b: limits: 5"),
        (
            {"cases": [{"job": "job-1"}], "variants": {"b": {"options": {"mode": "plan", "model": "haiku"}}}},
            "variant b: the case job-1 is a past job, whose mode no variant can change",
        ),
        (
            {"cases": [{"job": "job-1"}], "variants": {"b": {"prompt": "Carefully: {prompt}"}}},
            "variant b: the case job-1 is a past job, whose prompt no variant can change",
        ),
    ],
)
def test_what_cannot_be_applied_is_refused_in_a_sentence(tmp_path: Path, told: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        read(tmp_path, **told)


def test_runs_whose_jobs_are_gone_are_gaps_of_a_comparison(tmp_path: Path) -> None:
    view = view_evaluation(read(tmp_path, "now:", "new:model=haiku", cases=[{"prompt": "a"}]), {})
    assert [(one.variant, one.state) for one in find_gaps(view)] == [("now", ""), ("new", "")]
    assert [one.variant for one in find_gaps(view, "new")] == ["new"]
