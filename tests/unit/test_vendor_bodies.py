"""Our requests in each vendor's format beside pydantic-ai's, whose answers are kept (`tests/oracle/test_vendor_bodies.py`).

Tests of swarm/models/chat_request.py, swarm/models/responses_request.py, swarm/models/gemini_request.py.
"""

from __future__ import annotations

import pytest

from swarm.models.vendors import WIRES
from tests.oracle.bodies import DIFFERENCES, digest, plain, read_kept
from tests.oracle.conversations import COUNT, conversations, encode


@pytest.mark.parametrize("wire", WIRES)
def test_requests_are_those_of_the_oracle_but_for_named_differences(wire: str) -> None:
    kept = read_kept()[wire]
    assert len(kept) == COUNT and DIFFERENCES[wire]
    ours = [digest(plain(wire, encode(wire, messages))) for messages in conversations(wire)]
    assert [at for at in range(COUNT) if ours[at] != kept[at]] == []
