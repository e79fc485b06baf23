"""The action for GitHub's workflows, with its own shell script, against a real API.

Tests of deploy/github-action/action.yml, swarm/api/application.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import yaml

from swarm.store.api_keys import SCOPES, ApiKeys
from tests.api_server import ApiServer
from tests.documents import ROOT
from tests.fleet import Fleet
from tests.needs import need_program

ACTION = yaml.safe_load((ROOT / "deploy/github-action/action.yml").read_text())
SCENARIO = """name: action
rules:
  - reply: {text: "It is `done`."}
"""


def run(server: ApiServer, key: str, prompt: str, folder: Path, attempt: str) -> tuple[int, dict[str, str], str]:
    """Run the step as GitHub does; returns its exit code, its outputs and the summary."""
    [step] = ACTION["runs"]["steps"]
    output, summary = folder / f"output-{attempt}", folder / f"summary-{attempt}"
    inputs = {
        "url": f"{server.url}/v1",
        "key": key,
        "prompt": prompt,
        "options": json.dumps({"workspace": str(folder)}),
    }
    given = {name: inputs[value.removeprefix("${{ inputs.").removesuffix(" }}")] for name, value in step["env"].items()}
    github = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_RUN_ID": "7"}
    github |= {"GITHUB_RUN_ATTEMPT": attempt, "GITHUB_JOB": "review", "GITHUB_ACTION": "swarm"}
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(words, env={**os.environ, **github, **given}, capture_output=True, text=True, timeout=90)
    told = dict(line.split("=", 1) for line in output.read_text().splitlines())
    return done.returncode, told, summary.read_text()


def test_the_action_runs_a_job_once_an_attempt_and_shows_its_answer(fleet: Fleet) -> None:
    need_program("jq")
    need_program("curl")
    model = fleet.rehearse(SCENARIO)
    fleet.start_worker(1, SWARM_BASE_URL=model.url, ANTHROPIC_API_KEY="none")
    server = ApiServer(fleet)
    key = ApiKeys(fleet.swarm.store.keyspace).create("action", SCOPES)
    hostile = "Say 'it'; $(touch /tmp/owned) `id` \"quoted\""
    try:
        code, told, summary = run(server, key, hostile, fleet.workspace, "1")
        again = run(server, key, hostile, fleet.workspace, "1")
    finally:
        server.kill()
    job = fleet.swarm.job(told["job"])
    assert (code, told["state"], summary) == (0, "completed", "It is `done`.\n")
    assert again[1]["job"] == job.id, "a repeat of the step starts no second job"
    assert fleet.swarm.store.agents.spec(job.view().root_id).prompt == hostile
    assert set(ACTION["outputs"]) == set(told)
