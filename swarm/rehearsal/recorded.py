"""Reads a recording (`SWARM_RECORD`) as a scenario: a rule for each reply, a fault for each failure, each used once.

The rules name the workspace by its placeholder, because the new job has another one. Scenarios made from journals have the same form of
rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from swarm.core.errors import ConfigurationError
from swarm.models import Block
from swarm.models.recording import PARTS, read_blocks
from swarm.rehearsal.connection import RequestRefused
from swarm.rehearsal.conversation import Conversation, read_conversation
from swarm.rehearsal.formats import format_at

PROMPT_CHARACTERS = 400
"""Enough of a prompt to tell agents of one definition apart."""
_SURROUNDINGS = "</environment>"
_FAULTS = ("400", "401", "403", "429", "500", "529")


@dataclass(frozen=True)
class RecordedExchange:
    """A recorded request with its reply."""

    began: float
    path: str
    request: Any
    """The body; its parts are in their places."""
    status: int
    """0 if there was no response."""
    headers: Mapping[str, str]
    body: str | None
    """The reply as it came; None if only its blocks were kept."""
    blocks: list[Block]
    stop_reason: str
    """Empty if the reply was cut off."""

    @property
    def converses(self) -> bool:
        """Whether the request asks for a reply of a model."""
        return format_at(self.path) is not None and isinstance(self.request, dict)

    def read(self) -> Any:
        """Return the request as one of the Messages API. Raises `RequestRefused`."""
        found, request = format_at(self.path), self.request
        if isinstance(request.get("input"), list):
            # The rehearsal can open only reasoning that it has encrypted itself.
            request = request | {"input": [item for item in request["input"] if item.get("type") != "reasoning"]}
        return request if found is None else found.read(request, self.path)

    @property
    def message(self) -> str:
        """The words of a refusal; empty if it has none."""
        try:
            error = json.loads(self.body or "")["error"]
            return str(error["message"] if isinstance(error, dict) else error)
        except (ValueError, KeyError, TypeError):
            return ""


def read_recording(folder: Path) -> list[RecordedExchange]:
    """Return the exchanges of all processes in the order of their beginnings. Raises `ConfigurationError`.

    A last line that was cut off by the death of its process is left out.
    """
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise ConfigurationError(f"{folder} holds no recording: SWARM_RECORD={folder} makes one where the workers run")
    found = [one for file in files for one in _read_file(file)]
    return sorted(found, key=lambda one: one.began)


def _read_file(file: Path) -> Iterable[RecordedExchange]:
    parts: dict[str, Any] = {}
    lines = file.read_text(encoding="utf-8", errors="surrogatepass").split("\n")
    for number, line in enumerate(filter(None, lines), 1):
        try:
            document = json.loads(line)
            if "part" in document:
                parts[document["part"]] = document["value"]
                continue
            yield _read_exchange(document["exchange"], parts)
        except (ValueError, KeyError, TypeError) as error:
            if line is lines[-1]:
                return
            raise ConfigurationError(f"{file}, line {number}: no line of a recording ({error!r})") from error


def _read_exchange(told: dict[str, Any], parts: Mapping[str, Any]) -> RecordedExchange:
    request, body, headers = told["request"], told.get("body"), told.get("headers", {})
    if isinstance(request, dict):
        named = {name: request[name] for name in PARTS if name in request}
        request = request | {
            name: [parts[one] for one in value] if isinstance(value, list) else parts[value]
            for name, value in named.items()
        }
    if body is None:
        blocks, reason = told.get("blocks", []), told.get("stop_reason", "")
    else:
        blocks, reason = read_blocks(told["path"], headers.get("content-type", ""), body.encode())
    return RecordedExchange(told["began"], told["path"], request, told.get("status", 0), headers, body, blocks, reason)


def write_recorded(folder: Path) -> str:
    """Return the recording as a scenario in YAML. Raises `ConfigurationError`."""
    rules, faults = [], []
    for one in read_recording(folder):
        if not one.converses:
            continue
        try:
            seen = read_conversation(one.read())
        except (RequestRefused, KeyError, TypeError, ValueError):
            continue  # a request of another program that the rehearsal cannot read
        prompt = seen.prompt.rpartition(_SURROUNDINGS)[2].strip()
        when = describe_request(seen, prompt)
        if one.stop_reason:
            rules.append(
                {"when": when, "uses": 1, "reply": describe_reply(one.blocks, one.stop_reason, seen.workspace)}
            )
        else:
            faults.append({"kind": _fault_of(one), "when": when, "times": 1, **_words_of(one)})
    if not rules:
        raise ConfigurationError(f"{folder} holds no reply of a model, so there is nothing to rehearse")
    made = {"name": folder.absolute().name, **({"faults": faults} if faults else {}), "rules": rules}
    return yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=120)


def _fault_of(one: RecordedExchange) -> str:
    status = str(one.status)
    if one.status < 400:
        return "cut"
    return status if status in _FAULTS else "400" if one.status < 500 else "500"


def _words_of(one: RecordedExchange) -> dict[str, Any]:
    if one.status < 400:
        return {}
    wait = one.headers.get("retry-after", "")
    return {
        **({"message": one.message} if one.message else {}),
        **({"retry_after": float(wait)} if re.fullmatch(r"\d+(\.\d+)?", wait) else {}),
    }


def describe_request(seen: Conversation, prompt: str) -> dict[str, Any]:
    """Return the conditions that a request like this one meets; an empty prompt is no condition."""
    when: dict[str, Any] = {"turn": seen.turn}
    if seen.definition:
        when["definition"] = re.escape(seen.definition)
    if prompt:
        parts = prompt[:PROMPT_CHARACTERS].split(seen.workspace) if seen.workspace else [prompt[:PROMPT_CHARACTERS]]
        when["prompt"] = ".*".join(map(re.escape, parts))
    if seen.summarizing:
        when["summarizing"] = True
    return when


def describe_reply(content: Iterable[Block], stop_reason: str, workspace: str) -> dict[str, Any]:
    """Return a reply in the words of a scenario."""
    blocks = list(content)
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    texts += [str(block.get("content") or "") for block in blocks if block["type"] == "compaction"]
    thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking" and block["thinking"]]
    calls = [
        {"name": block["name"], "input": _elsewhere(block["input"], workspace)}
        for block in blocks
        if block["type"] == "tool_use"
    ]
    made: dict[str, Any] = {"text": _elsewhere("\n".join(texts), workspace)} if texts or not calls else {}
    if thoughts:
        made["thinking"] = "\n".join(thoughts)
    if calls:
        made["tools"] = calls
    if stop_reason not in ("end_turn", "tool_use", "compaction"):
        made["stop_reason"] = stop_reason
    return made


def _elsewhere(value: Any, workspace: str) -> Any:
    match value:
        case str():
            return value.replace(workspace, "{workspace}") if workspace else value
        case dict():
            return {name: _elsewhere(each, workspace) for name, each in value.items()}
        case list():
            return [_elsewhere(each, workspace) for each in value]
    return value
