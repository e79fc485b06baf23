"""The suites that matter, once more for each vendor's format: all their agents run on a model that is asked in it.

Tests of swarm/models/vendor_model.py, swarm/models/codecs.py, swarm/rehearsal/formats.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MODELS = ("groq:llama-4", "openai:gpt-6", "gemini:gemini-3-pro")
SUITES = (
    *("engine", "mailboxes", "peers", "teams", "result_schemas", "workflows", "limits", "compaction", "survival"),
    "other_vendors",
)
OTHERWISE = {
    "test_compaction.py::test_woken_long_after_a_small_model_reads_what_the_cache_has_forgotten": "one price for both models",
    "test_compaction.py::test_a_conversation_that_the_model_refuses_is_cut_and_goes_on": "it sets the window of Anthropic's model",
    "test_compaction.py::test_a_reply_without_room_is_given_again_after_a_cut": "it sets the window of Anthropic's model",
    "test_compaction.py::test_a_single_turn_that_does_not_fit_is_told_as_text_and_the_agent_goes_on": "so does this one",
    "test_limits.py::test_a_root_that_is_busy_at_its_time_limit_is_interrupted_at_half_of_its_grace": "errors begin with a word",
    "test_peers.py::test_an_agent_that_goes_on_has_all_its_turns_again": "it searches the journal for a word of OpenAI's",
}
"""Tests that hold for Anthropic's format alone, with the reason."""


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("model", MODELS)
def test_the_suites_that_matter_hold_in_each_format(model: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n2", "--tb=short", "-p", "no:cacheprovider"]
    command += [str(HERE / f"test_{suite}.py") for suite in SUITES]
    command += [f"--deselect=tests/integration/{name}" for name in OTHERWISE]
    done = subprocess.run(
        command, cwd=HERE.parents[1], env={**os.environ, "SWARM_TESTS_MODEL": model}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4_000:]
