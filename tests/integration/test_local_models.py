"""Programs at the ports of models' servers that are none.

Tests of swarm/cli/local_models.py.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress

import pytest

from swarm.cli.local_models import check_local_models
from swarm.core.settings import Settings

BODIES: tuple[object, ...] = ({"data": ["x"]}, {"data": [{}]}, {"data": 1}, {}, [], None, "x")
ANSWERS = {
    "no HTTP": b"220 mail.example.org ESMTP\r\n",
    "nothing": b"",
    "an endless line": b"HTTP/1.1 200 OK\r\nx: " + b"x" * 70_000 + b"\r\n\r\n",
    "a page": b"HTTP/1.1 200 OK\r\n\r\n<html>",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
    **{json.dumps(body): b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(body).encode() for body in BODIES},
}


@pytest.mark.parametrize("said", ANSWERS)
def test_the_doctor_leaves_out_programs_that_serve_no_models(said: str) -> None:
    def answer() -> None:
        line, _ = listener.accept()
        with line, suppress(ConnectionError):
            line.recv(65_536)
            line.sendall(ANSWERS[said])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asked = threading.Thread(target=answer)
        asked.start()
        nowhere = dict.fromkeys(("vllm", "llamacpp", "lmstudio"), "http://127.0.0.1:9/v1")
        settings = Settings(vendors={**nowhere, "ollama": f"http://127.0.0.1:{listener.getsockname()[1]}/v1"})
        assert check_local_models(settings).found == "none"
        asked.join()
