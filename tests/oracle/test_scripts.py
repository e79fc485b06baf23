"""Public scripts for Claude Code's workflows run to their ends, unchanged: those that `scripts.json` names, from a folder of them.

The scripts are others' and are not kept here. `SWARM_ORACLE_SCRIPTS` names a folder with a folder `OWNER+NAME@COMMIT` for each repository,
which has the files of its `.claude/workflows`.

Tests of swarm/workflows/javascript.py, tests/oracle/scripts.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.scripts import run_script, sample

KEPT: list[dict[str, Any]] = json.loads(Path(__file__).with_name("scripts.json").read_text())


@pytest.mark.oracle
@pytest.mark.parametrize("kept", KEPT, ids=lambda one: f"{one['repository']}/{one['script']}")
def test_a_public_script_runs_to_its_end(kept: dict[str, Any]) -> None:
    folder = os.environ.get("SWARM_ORACLE_SCRIPTS")
    if not folder:
        pytest.skip("no folder of scripts: name one in SWARM_ORACLE_SCRIPTS")
    place = f"{kept['repository'].replace('/', '+')}@{kept['commit']}"
    tried = run_script(Path(folder, place, kept["script"]), kept["args"])
    assert not tried.error and sum(call.tool == "Agent" for call in tried.calls) == kept["agents"]


def test_answers_fit_their_schemas() -> None:
    whole = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "minItems": 3, "items": {"$ref": "#/$defs/one"}},
            "some": {"anyOf": [{"type": ["null", "integer"], "minimum": 7}, {"type": "string"}]},
            "text": {"type": "string", "minLength": 6, "maxLength": 8},
            "sure": {"type": "boolean"},
        },
        "$defs": {"one": {"enum": ["first", "second"]}},
    }
    assert sample(whole, whole) == {"list": ["first"] * 3, "some": 7, "text": "textxx", "sure": True}
