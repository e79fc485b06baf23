"""The evaluation of our own prompts: each of its checks accepts good work and refuses bad work; rehearsed.

Tests of tests/evaluation/shipped.yaml.
"""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from swarm.cli.app import app
from swarm.definitions.catalogue import load_catalogue
from swarm.replay.sets import read_set
from tests.fleet import Fleet

HERE = Path(__file__).parents[1] / "evaluation"


def test_each_check_tells_good_work_from_bad_work(at_work: Fleet) -> None:
    arguments = ["eval", str(HERE / "shipped.yaml"), "--rehearse", str(HERE / "rehearsed.yaml"), "--json"]
    variants = ["--variant", "good:model=sonnet", "--variant", "bad:model=haiku", "--against", "good"]
    ended = CliRunner().invoke(app, [*arguments, *variants], env=at_work.environment())
    view = json.loads(ended.stdout)
    names = [row["case"] for row in view["cases"]]
    assert {row["case"]: row["passed"] for row in view["cases"]} == {name: {"good": 1, "bad": 0} for name in names}, [
        (one["case"], one["variant"], one["state"], one["answer"], one["score"]) for one in view["runs"]
    ]
    assert ended.exit_code == 1 and view["gate"] == [f"{name} passed with good and fails with bad" for name in names]


def test_its_cases_name_types_that_are_shipped(tmp_path: Path) -> None:
    shipped = load_catalogue(tmp_path, tmp_path).definitions
    asked = {case.options["agent"] for case in read_set(HERE / "shipped.yaml", [], {}).cases}
    assert asked <= shipped.keys() and len(asked) >= 6
