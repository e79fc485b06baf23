"""Summaries of conversations, as the API makes them on demand and expects them back: the block, and what a request with one must keep to.

The block carries, sealed, what it stands for, so thinking that follows it can be held to the prefix it was made in. What the real API
takes without a word although it is wrong (messages that the block stands for, sent once more) is refused here.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from swarm.rehearsal.connection import RequestRefused

BETA = "compact-2026-09-04"
_MAX_INSTRUCTIONS = 16_384
_KEYS = {"type", "content", "signature", "encrypted_content", "cache_control"}

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode


def find_block(body: dict[str, Any]) -> dict[str, Any] | None:
    """The block that the conversation begins with, if it does."""
    content = body["messages"][0]["content"]
    first = content[0] if isinstance(content, list) and content else {}
    return first if first.get("type") == "compaction" else None


class Summaries:
    """The summaries of one server, and which calls each stands for; safe to use from every connection's thread."""

    def __init__(self) -> None:
        self._calls: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()

    def check(self, body: dict[str, Any], betas: str, *, able: bool) -> None:
        """Refuse a request that asks for a summary, or holds one, in a way that the API would not take."""
        asks, block = body.get("compaction"), find_block(body)
        if (asks is not None or block is not None) and BETA not in [name.strip() for name in betas.split(",")]:
            what = "compaction" if asks is not None else "messages.0.content.0"
            raise RequestRefused(f"{what}: Extra inputs are not permitted without the beta {BETA}")
        if block is not None:
            self._check_block(body, block)
        if asks is not None:
            _check_request(body, asks, block, able=able)
        _check_thinking(body)

    def make(self, body: dict[str, Any], text: str) -> dict[str, Any]:
        """The block for a conversation."""
        sealed = conversation_digest(body).hex()
        block = {"type": "compaction", "content": text, "encrypted_content": sealed, "signature": _sign(text, sealed)}
        earlier = find_block(body)
        with self._lock:
            known = self._calls.get(str(earlier["signature"]), frozenset()) if earlier is not None else frozenset()
            self._calls[block["signature"]] = known | _calls(body)
        return block

    def _check_block(self, body: dict[str, Any], block: dict[str, Any]) -> None:
        if not isinstance(block.get("signature"), str) or not block["signature"].startswith("rehearsed-summary-"):
            _refuse("signature_invalid", "invalid `signature`")
        if unknown := set(block) - _KEYS:
            _refuse("content_mismatch", f"{', '.join(sorted(unknown))} did not come with it")
        if _sign(str(block.get("content")), str(block.get("encrypted_content"))) != block["signature"]:
            _refuse("content_mismatch", "it is not as it was returned")
        with self._lock:
            summarized = self._calls.get(block["signature"], frozenset())
        if again := summarized & _calls(body):
            raise RequestRefused(f"messages: {min(again)} is sent beside the summary that stands for it")


def _check_request(body: dict[str, Any], asks: Any, block: dict[str, Any] | None, *, able: bool) -> None:
    if not able:
        raise RequestRefused("compaction: this model does not support it")
    if not isinstance(asks, dict) or asks.get("type") != "summarize" or set(asks) - {"type", "instructions"}:
        raise RequestRefused('compaction: must be {"type": "summarize"}, with `instructions` or without')
    if len(str(asks.get("instructions") or "")) > _MAX_INSTRUCTIONS:
        raise RequestRefused(f"compaction.instructions: at most {_MAX_INSTRUCTIONS} characters")
    for name in ("context_management", "stop_sequences"):
        if body.get(name) is not None:
            raise RequestRefused(f"{name}: cannot be combined with `compaction`")
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise RequestRefused("tool_choice: must be auto or none together with `compaction`")
    if "format" in (body.get("output_config") or {}):
        raise RequestRefused("output_config.format: cannot be combined with `compaction`")
    if block is not None and len(body["messages"]) == 1:
        _refuse("nothing_to_summarize", "nothing has come since the last one")


def _refuse(code: str, why: str) -> None:
    raise RequestRefused(f"messages.0.content.0: the `compaction` block: {why}", code=f"compaction_{code}")


def _sign(text: str, sealed: str) -> str:
    return "rehearsed-summary-" + hashlib.blake2b(f"{sealed}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:48]


def _calls(body: dict[str, Any]) -> frozenset[str]:
    return frozenset(
        block["id"] for _, blocks in _turns(body["messages"]) for block in blocks if block.get("type") == "tool_use"
    )


# -- what thinking is bound to ---------------------------------------------------------------------------------


def bind_thinking(body: dict[str, Any]) -> str:
    """What binds the thinking of the reply to this request to everything before it."""
    return _bind(_head(body), conversation_digest(body))


def conversation_digest(body: dict[str, Any]) -> bytes:
    """Stands for all messages, also for those that a summary stands for."""
    return list(_digests(body["messages"]))[-1]


def _check_thinking(body: dict[str, Any]) -> None:
    bound = [
        (index, str(block.get("signature")).partition(".")[2])
        for index, (_, blocks) in enumerate(_turns(body["messages"]))
        for block in blocks
        if block.get("type") == "thinking"
    ]
    if not any(prefix for _, prefix in bound):
        return
    head, before = _head(body), [b"", *_digests(body["messages"])]
    for index, prefix in bound:
        if prefix and prefix != _bind(head, before[index]):
            raise RequestRefused(
                f"messages.{index}: a `thinking` block cannot be kept: system, tools or messages before it have changed "
                "since it was made"
            )


def _bind(head: bytes, before: bytes) -> str:
    return hashlib.blake2b(before, key=head[:32], digest_size=16).hexdigest()


def _head(body: dict[str, Any]) -> bytes:
    system = body.get("system")
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system or []
    parts = [*map(_bare, body.get("tools") or []), *map(_bare, blocks)]
    return hashlib.blake2b(_encode(parts).encode("utf-8", "surrogatepass"), digest_size=32).digest()


def _digests(messages: list[dict[str, Any]]) -> Iterator[bytes]:
    """After each message, what stands for all up to it."""
    digest = b""
    for role, blocks in _turns(messages):
        for block in blocks:
            if block.get("type") == "compaction":
                digest = bytes.fromhex(str(block.get("encrypted_content")))
                continue
            said = f"{role}\0{_encode(_bare(block))}".encode("utf-8", "surrogatepass")
            digest = hashlib.blake2b(said, key=digest, digest_size=32).digest()
        yield digest


def _turns(messages: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for message in messages:
        content = message["content"]
        yield message["role"], [{"type": "text", "text": content}] if isinstance(content, str) else content


def _bare(block: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}
