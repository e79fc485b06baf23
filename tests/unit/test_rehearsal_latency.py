"""A rehearsed reply takes its whole latency in every format, however few events it has.

Tests of swarm/rehearsal/endpoints.py, swarm/rehearsal/formats.py.
"""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from swarm.rehearsal.connection import Request
from swarm.rehearsal.endpoints import Endpoints
from swarm.rehearsal.ledger import Ledger
from swarm.rehearsal.provider import Provider
from swarm.rehearsal.scenario import parse_scenario
from tests.codecs import GO, encode_as

SHORT = "latency_seconds: 2\nrules: [{reply: {text: fine}}]"
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/m-1:streamGenerateContent",
}
MESSAGES = {"model": "m-1", "max_tokens": 9, "stream": True, "messages": [GO]}


class Elapsing(threading.Event):
    """An event whose waits pass at once, and are added up."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds += timeout or 0.0
        return False


def serve(path: str, body: dict[str, Any], scenario: str) -> tuple[float, list[bytes], Ledger]:
    """Return the seconds that a reply takes, its bytes as they were sent, and the server's records."""
    elapsing, ledger, sent = Elapsing(), Ledger(), list[bytes]()
    endpoints = Endpoints(parse_scenario(scenario), Provider(), ledger, elapsing)
    endpoints.serve(Request("POST", path, {"x-api-key": "k"}, json.dumps(body).encode()), sent.append)
    return elapsing.seconds, sent, ledger


@pytest.mark.parametrize("wire", ["messages", *PATHS])
@pytest.mark.parametrize(("fault", "seconds"), [("", 2.0), ("\nfaults: [{kind: slow, seconds: 3}]", 5.0)])
def test_a_short_reply_takes_its_whole_latency_in_each_format(wire: str, fault: str, seconds: float) -> None:
    path = PATHS.get(wire, "/v1/messages")
    body = MESSAGES if wire == "messages" else encode_as(wire, [GO])
    taken, sent, ledger = serve(path, body, SHORT + fault)
    assert taken == pytest.approx(seconds)
    assert len(sent) > 1 and sent[0].startswith(b"HTTP/1.1 200") and b"fine" in b"".join(sent)
    assert sent[-1].endswith(b"0\r\n\r\n") and ledger.stats()["requests"] == 1
