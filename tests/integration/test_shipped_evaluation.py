"""The evaluations of our own prompts: each of their checks accepts good work and refuses bad work; rehearsed.

Tests of tests/evaluation/checks.py, tests/evaluation/shipped.yaml, tests/evaluation/runtime.yaml.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from swarm.cli.app import app
from swarm.cli.first_task import TASK
from swarm.definitions.catalogue import load_catalogue
from swarm.replay.sets import read_set
from tests.fleet import Fleet

HERE = Path(__file__).parents[1] / "evaluation"


def check_that_good_and_bad_differ(fleet: Fleet, cases: str, rehearsed: str) -> dict[str, str]:
    """Returns why each bad run was refused."""
    arguments = ["eval", str(HERE / cases), "--rehearse", str(HERE / rehearsed), "--json"]
    variants = ["--variant", "good:model=sonnet", "--variant", "bad:model=haiku", "--against", "good"]
    # The fleet's workers, no further one of the command's own; and the checks run with this Python.
    found = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**fleet.environment(), "SWARM_REDIS_URL": fleet.url, "PATH": found}
    ended = CliRunner().invoke(app, [*arguments, *variants], env=environment)
    assert ended.stdout, (ended.stderr, ended.exception)
    view = json.loads(ended.stdout)
    names = [row["case"] for row in view["cases"]]
    assert {row["case"]: row["passed"] for row in view["cases"]} == {name: {"good": 1, "bad": 0} for name in names}, [
        (one["case"], one["variant"], one["state"], one["answer"], one["score"]) for one in view["runs"]
    ]
    assert ended.exit_code == 1 and view["gate"] == [f"{name} passed with good and fails with bad" for name in names]
    # Bad work is refused for what it lacks, not because a check or a job broke.
    assert all(one["state"] == "completed" and "Traceback" not in one["score"]["note"] for one in view["runs"]), view
    return {one["case"]: one["score"]["note"] for one in view["runs"] if one["variant"] == "bad"}


def test_each_check_tells_good_work_from_bad_work(at_work: Fleet) -> None:
    pytest.importorskip("pydantic_monty")
    refused = check_that_good_and_bad_differ(at_work, "shipped.yaml", "rehearsed.yaml")
    assert refused["coordinator-has-it-verified"] == "no verification was started, but worker"
    assert refused["try-proposes-what-is-right"] == "a check is taken away"


def test_a_summary_that_loses_facts_and_a_line_that_is_not_true_are_refused(fleet: Fleet) -> None:
    fleet.start_worker(4, SWARM_COMPACT_TOKENS="18000", SWARM_SUMMARY_SECONDS="0.2")
    refused = check_that_good_and_bad_differ(fleet, "runtime.yaml", "runtime-rehearsed.yaml")
    assert "lacks the rule about the ledger" in refused["summary-keeps-the-facts"]
    assert "-ing form" in refused["lines-for-people-are-true"]


def test_its_cases_name_every_type_that_is_shipped(tmp_path: Path) -> None:
    shipped = load_catalogue(tmp_path, tmp_path).definitions
    cases = read_set(HERE / "shipped.yaml", [], {}).cases
    # Only another agent can start a worker.
    assert {case.options["agent"] for case in cases} | {"worker"} == shipped.keys()
    assert any("the type worker" in case.prompt for case in cases)
    assert next(case.prompt for case in cases if case.options["agent"] == "improver") == TASK
