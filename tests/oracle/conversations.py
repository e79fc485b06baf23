"""Generated conversations, as journals hold them, and the requests for them: ours, and those of an oracle.

Replies are made by the rehearsal, and read by our own reader, so that blocks have all that a real reply leaves beside them.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swarm.models import ModelRequest
from swarm.models.codecs import codec
from swarm.models.reply import ReplyBuilder, tell_apart
from swarm.models.vendors import Vendor
from swarm.rehearsal.formats import format_at
from swarm.rehearsal.wire import build_message

SYSTEM = "You are an agent. Be brief."
TOOLS = [
    {
        "name": "Look",
        "description": "Looks.",
        "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
    {"name": "Run", "description": "", "input_schema": {"type": "object", "properties": {}}},
]
MAX_TOKENS = 4_000
MODELS = {"chat": "gpt-6-mini", "responses": "gpt-5.2", "gemini": "gemini-3-pro"}
COUNT = 200
_USAGE = {"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
_DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _DOT}}
_ASKS = {
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"summary": "auto"},
    "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
}
_WORDS = (
    "well",
    "a plan",
    "naïve — café",
    "line\nbreak",
    '"quoted"',
    "<b>&amp;</b>",
    "日本語",
    "🙂 done",
    "tab\tand \\ more",
)

Message = dict[str, Any]


def conversations(wire: str, count: int = COUNT) -> Iterator[list[Message]]:
    """Yield conversations of a model that is asked in this format; some replies are another vendor's."""
    for seed in range(count):
        yield list(_conversation(random.Random(f"{wire}/{seed}"), wire))


def encode(wire: str, messages: list[Message]) -> dict[str, Any]:
    """Return our request for a conversation."""
    request = ModelRequest(MODELS[wire], SYSTEM, messages, TOOLS, max_tokens=MAX_TOKENS)
    body: dict[str, Any] = json.loads(
        codec(wire).encoder(_vendor(wire), MODELS[wire]).encode(request, max_output=9_000)
    )
    return body


def ask_oracle(wire: str, asked: list[list[Message]]) -> list[dict[str, Any]]:
    """Return pydantic-ai's requests for conversations; `SWARM_ORACLE_PYDANTIC_AI` names a Python that has it."""
    question = {
        "wire": wire,
        "model": MODELS[wire],
        "system": SYSTEM,
        "tools": TOOLS,
        "max_tokens": MAX_TOKENS,
        "conversations": asked,
    }
    program = [os.environ["SWARM_ORACLE_PYDANTIC_AI"], str(Path(__file__).with_name("vendor_bodies.py"))]
    done = subprocess.run(program, input=json.dumps(question), capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise AssertionError(done.stderr[-2_000:])
    bodies: list[dict[str, Any]] = json.loads(done.stdout)
    return bodies


def _vendor(wire: str) -> Vendor:
    return Vendor("ours", "https://llm.example.org", wire=wire)


def _conversation(chance: random.Random, wire: str) -> Iterator[Message]:
    yield {"role": "user", "content": [_text(chance), *([_IMAGE] if chance.random() < 0.2 else [])]}
    known: set[str] = set()
    for turn in range(chance.randint(1, 6)):
        content = _made_up(chance, turn)
        is_foreign = chance.random() < 0.2
        made = content if is_foreign else _as_made_by(wire, content, turn)
        made = tell_apart(made, known, turn)
        yield {"role": "assistant", "content": made}
        calls = [block["id"] for block in made if block["type"] == "tool_use"]
        known.update(calls)
        results = [_result(chance, call_id) for call_id in calls]
        yield {"role": "user", "content": [*results, *([] if results and chance.random() < 0.7 else [_text(chance)])]}


def _made_up(chance: random.Random, turn: int) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    if chance.random() < 0.6:
        content.append({"type": "thinking", "thinking": chance.choice(_WORDS), "signature": f"s{turn}"})
    calls = chance.choice((0, 1, 1, 2, 3))
    if not calls or chance.random() < 0.5:
        content.append(_text(chance))
    for at in range(calls):
        given = {"at": chance.choice(_WORDS), "n": chance.choice((1, 2.5, None, True, [1, "x"], {}))}
        block = {"type": "tool_use", "id": f"call_{turn}_{at}", "name": chance.choice(("Look", "Run"))}
        content.append({**block, "input": given if chance.random() < 0.8 else {}})
    return content


def _as_made_by(wire: str, content: list[dict[str, Any]], turn: int) -> list[dict[str, Any]]:
    """Return the blocks of a reply with this content, as our reader reads them."""
    calls = any(block["type"] == "tool_use" for block in content)
    message = build_message(f"msg_{turn}", MODELS[wire], content, "tool_use" if calls else "end_turn", _USAGE)
    made, found = codec(wire), format_at(codec(wire).path.partition("?")[0])
    assert found is not None
    reader, builder = made.reader(f"ours:{MODELS[wire]}"), ReplyBuilder()
    for event in reader.read(found.whole(message, _ASKS)):
        builder.add(event)
    for event in reader.end(said=True):
        builder.add(event)
    reply = builder.finish(None)
    assert reply is not None
    return reply.content


def _result(chance: random.Random, call_id: str) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": chance.choice(_WORDS)}
    if chance.random() < 0.2:
        return {**result, "is_error": True}
    if chance.random() < 0.2:
        return {**result, "content": [_text(chance), _IMAGE]}
    return result


def _text(chance: random.Random) -> dict[str, Any]:
    return {"type": "text", "text": chance.choice(_WORDS)}
