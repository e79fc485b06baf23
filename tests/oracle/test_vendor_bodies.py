"""Our requests in each vendor's format beside those of pydantic-ai, for 200 generated conversations a format.

    python3 -m venv oracle && oracle/bin/pip install 'pydantic-ai-slim[openai,google]'
    SWARM_ORACLE_PYDANTIC_AI=oracle/bin/python pytest -n0 -m oracle tests/oracle/test_vendor_bodies.py

`python -m tests.oracle.test_vendor_bodies` keeps the oracle's answers as digests, with which CI compares.

Tests of swarm/models/chat_request.py, swarm/models/responses_request.py, swarm/models/gemini_request.py.
"""

from __future__ import annotations

import json
import os

import pytest

from swarm.models.vendors import WIRES
from tests.oracle.bodies import KEPT, digest, plain
from tests.oracle.conversations import COUNT, ask_oracle, conversations, encode


@pytest.mark.oracle
@pytest.mark.skipif("SWARM_ORACLE_PYDANTIC_AI" not in os.environ, reason="no Python with pydantic-ai is named")
@pytest.mark.parametrize("wire", WIRES)
def test_requests_are_those_of_the_oracle_but_for_named_differences(wire: str) -> None:
    asked = list(conversations(wire))
    for ours, theirs in zip(asked, ask_oracle(wire, asked), strict=True):
        assert plain(wire, encode(wire, ours)) == plain(wire, theirs)


def main() -> None:
    """Ask the oracle about each conversation, and keep its answers."""
    kept = {}
    for wire in WIRES:
        kept[wire] = [digest(plain(wire, body)) for body in ask_oracle(wire, list(conversations(wire)))]
        assert len(kept[wire]) == COUNT
    KEPT.write_text(json.dumps(kept, indent=0) + "\n")


if __name__ == "__main__":
    main()
