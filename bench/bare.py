"""The baselines: the official SDK in a plain loop that keeps nothing and survives nothing, in one process."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm.agent.history import History

MAX_TOKENS = 32_000
IN_FLIGHT = 200
"""Requests at once: a tree's 1 000 leaves, all connecting together, run into the SDK's connect timeout."""
_MARK = {"type": "ephemeral"}


@dataclass(frozen=True)
class RequestPrefix:
    """What a conversation begins with: taken from a real agent, so that both sides send the same bytes."""

    model: str
    system: str
    tools: list[dict[str, Any]]
    prompt: str

    @classmethod
    def of(cls, history: History) -> RequestPrefix:
        """The opening of a life."""
        assert history.spec is not None
        return cls(history.spec.model, history.system, history.tools, history.messages[0]["content"][0]["text"])

    def request(self, messages: list[Any]) -> dict[str, Any]:
        """The arguments of one streaming request, marked for the prompt cache: the prefix, and the end."""
        system = [{"type": "text", "text": self.system, "cache_control": _MARK}]
        return {
            "model": self.model,
            "max_tokens": MAX_TOKENS,
            "system": system,
            "tools": self.tools,
            "messages": messages,
            "cache_control": _MARK,
        }


def _results(content: list[Any], folder: Path) -> list[dict[str, Any]]:
    return [
        {"type": "tool_result", "tool_use_id": block.id, "content": "\n".join(os.listdir(folder)) or "(empty)"}
        for block in content
        if block.type == "tool_use"
    ]


def live(
    client: Any, opening: RequestPrefix, folder: Path, turn_cpu: list[float] | None = None, *, streaming: bool = True
) -> int:
    """One conversation to its end with `messages.stream` or `messages.create`; answers its number of turns."""
    messages: list[Any] = [{"role": "user", "content": opening.prompt}]
    for turn in range(1, 100_000):
        began = time.process_time()
        if streaming:
            with client.messages.stream(**opening.request(messages)) as stream:
                reply = stream.get_final_message()
        else:
            # The SDK refuses so many tokens without streaming unless a time limit is given.
            reply = client.messages.create(**opening.request(messages), timeout=600)
        if turn_cpu is not None:
            turn_cpu.append(time.process_time() - began)
        messages.append({"role": "assistant", "content": reply.content})
        results = _results(reply.content, folder)
        if not results:
            return turn
        messages.append({"role": "user", "content": results})
    raise RuntimeError("the conversation did not end")


async def live_async(client: Any, gate: asyncio.Semaphore, opening: RequestPrefix, folder: Path) -> str:
    """One conversation and, for its `Agent` calls, the conversations below it, all at once; answers its last text."""
    messages: list[Any] = [{"role": "user", "content": opening.prompt}]
    while True:
        async with gate, client.messages.stream(**opening.request(messages)) as stream:
            reply = await stream.get_final_message()
        messages.append({"role": "assistant", "content": reply.content})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in reply.content if block.type == "text")
        children = [call for call in calls if call.name == "Agent"]
        if children:
            below = [
                RequestPrefix(opening.model, opening.system, opening.tools, call.input["prompt"]) for call in children
            ]
            texts = await asyncio.gather(*(live_async(client, gate, child, folder) for child in below))
            results: list[Any] = [
                {"type": "tool_result", "tool_use_id": call.id, "content": text}
                for call, text in zip(children, texts, strict=True)
            ]
        else:
            results = _results(calls, folder)
        messages.append({"role": "user", "content": results})


def make_client(url: str) -> Any:
    """The synchronous client, without retries."""
    import anthropic

    return anthropic.Anthropic(base_url=url, api_key="bench", max_retries=0)


def run_async(url: str, openings: list[RequestPrefix], folder: Path) -> tuple[float, list[str]]:
    """All these conversations at once in this process; answers wall seconds and the last texts."""
    import anthropic

    async def everything() -> list[str]:
        gate = asyncio.Semaphore(IN_FLIGHT)
        async with anthropic.AsyncAnthropic(base_url=url, api_key="bench", max_retries=0) as client:
            return list(await asyncio.gather(*(live_async(client, gate, opening, folder) for opening in openings)))

    began = time.monotonic()
    texts = asyncio.run(everything())
    return time.monotonic() - began, texts
