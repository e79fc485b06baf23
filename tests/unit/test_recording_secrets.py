"""What a recording leaves out: secrets that their names show, in any place, and bodies that are neither JSON nor text.

Tests of swarm/models/recording.py, swarm/core/secrets.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swarm.core.secrets import REMOVED
from swarm.models.recording import Recorder, describe_reply, without_secrets
from swarm.rehearsal.recorded import read_recording

SECRET = "hunter2hunter2"
STREAM = {"path": "/v1/messages", "headers": {"content-type": "text/event-stream; charset=utf-8"}}


def stream(*parts: str) -> bytes:
    block: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "Login", "input": {}}
    start = {"type": "message", "id": "m", "role": "assistant", "model": "m", "content": [], "usage": {}}
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events).encode()


def test_the_name_of_an_entry_shows_that_its_value_is_secret() -> None:
    given = {"input": {"password": SECRET, "user": "ann-1234567", "tries": 3, "api_key": "${API_KEY}"}}
    assert without_secrets(given) == {"input": {**given["input"], "password": REMOVED}}


@pytest.mark.parametrize(
    "parts", [(json.dumps({"password": SECRET}),), ('{"pass', f'word": "{SECRET[:5]}', f'{SECRET[5:]}"}}')]
)
def test_a_secret_of_a_streamed_call_is_left_out(parts: tuple[str, ...]) -> None:
    kept = describe_reply(STREAM, stream(*parts))
    assert [one["input"] for one in kept["blocks"]] == [{"password": REMOVED}] and kept["stop_reason"] == "tool_use"
    cut_off = describe_reply(STREAM, stream(*parts)[:-40].replace(b"message_start", b"what"))
    assert len(parts) > 1 or SECRET not in json.dumps(cut_off)


def test_other_bodies_than_json_and_text_are_not_kept(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    about = {"began": 1.0, "path": "/v1/files", "host": "h", "method": "POST"}
    png = {"content-type": "image/png"}
    recorder.keep({**about, "request_headers": png, **describe_reply({**about, "headers": png}, b"raw")}, b"raw")
    named = {"content-type": "application/json"}
    recorder.keep(
        {**about, "request_headers": named, "body": "{}"}, json.dumps({"token": 1, "secret": SECRET}).encode()
    )
    first, second = read_recording(tmp_path)
    assert (first.request, first.body, first.blocks) == (None, None, [])
    assert second.request == {"token": 1, "secret": REMOVED} and "raw" not in "".join(
        file.read_text() for file in tmp_path.iterdir()
    )
