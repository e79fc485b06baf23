"""Schemas of answers: they are other people's text, and neither fetch anything nor take a worker's time.

Tests of swarm/agent/results.py, swarm/agent/validation.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from swarm.agent.results import check_schema, read_result
from swarm.agent.validation import LIMIT_SECONDS


@pytest.fixture
def requested() -> Iterator[tuple[str, list[str]]]:
    """The URL of a real server, and the paths that were asked for there."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("key", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("place", ["top", "property", "definition", "list"])
def test_a_reference_that_leads_out_is_refused_and_never_followed(
    requested: tuple[str, list[str]], key: str, place: str
) -> None:
    url, paths = requested
    remote: dict[str, Any] = {key: f"{url}/out?secret=hunter2"}
    schema = {
        "top": remote,
        "property": {"properties": {"a": remote}},
        "definition": {"$defs": {"a": remote}, "$ref": "#/$defs/a"},
        "list": {"allOf": [{}, remote]},
    }[place]
    fault = check_schema(schema)
    assert "/out?secret=hunter2" in fault and "nothing is fetched" in fault and "`$defs`" in fault
    # Also if it came in some way that was not checked.
    data, error = read_result('{"a": 1}', schema)
    assert data is None and "cannot be applied" in error
    assert paths == []


def test_a_base_elsewhere_makes_a_reference_no_nearer(requested: tuple[str, list[str]]) -> None:
    url, paths = requested
    schema = {"$id": f"{url}/base/", "$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}
    assert check_schema(schema) == ""
    assert read_result("7", schema) == (7, "")
    assert read_result("7", {"$id": f"{url}/base/", "$ref": "#/nowhere"})[0] is None
    assert "leads out of it" in check_schema({"$id": f"{url}/base/", "$ref": "other"})
    assert paths == []


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"type": "string", "pattern": "^(a+)+$"}, f'"{"a" * 60}!"'),
        ({"patternProperties": {"^(a+)+$": {"type": "integer"}}}, f'{{"{"a" * 60}!": 1}}'),
        (
            {
                "$ref": "#/$defs/a0",
                "$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)} | {"a60": {}},
            },
            "1",
        ),
    ],
)
def test_a_schema_that_would_take_for_ever_is_given_up(schema: dict[str, Any], answer: str) -> None:
    assert check_schema(schema) == ""
    data, error = read_result(answer, schema)
    assert data is None and f"within {LIMIT_SECONDS} seconds" in error


def test_patterns_and_references_within_the_schema_work() -> None:
    schema = {
        "properties": {"id": {"$ref": "#/$defs/id"}},
        "$defs": {"id": {"type": "string", "pattern": "^[a-zé]+$"}},
        "patternProperties": {"^n_": {"type": "integer"}},
    }
    assert check_schema(schema) == ""
    assert read_result('{"id": "abcé", "n_1": 3}', schema) == ({"id": "abcé", "n_1": 3}, "")
    assert "at id: '7é' does not match" in read_result('{"id": "7é"}', schema)[1]
    assert "at n_1: 'x' is not of type 'integer'" in read_result('{"n_1": "x"}', schema)[1]
    assert check_schema({"pattern": "("}) != ""
