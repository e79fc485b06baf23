"""Check from a job's journals whether today's code would send the same requests, without a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from swarm.agent.entries import Assistant, Started
from swarm.agent.history import History, fold
from swarm.models import ModelRequest
from swarm.models.catalogue import max_output
from swarm.models.codecs import codec
from swarm.models.encoder import Encoder
from swarm.models.facts import NO_FACTS
from swarm.models.vendors import split_model
from swarm.replay.past import Past
from swarm.runtime.budget import Sizes, reply_room

NO_VENDORS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Checked:
    """The check of one request."""

    agent_id: str
    turn: int
    outcome: Literal["same", "differs", "unknown"]
    """`unknown`: no hash was recorded, or a budget decided the maximum length of the reply."""


def check_requests(
    past: Past, prices_file: Path | None = None, added: Mapping[str, str] = NO_VENDORS
) -> Iterator[Checked]:
    """Compare every agent's requests with the recorded hashes; `added` is the setting `vendors`.

    Raises `JournalError`, `ConfigurationError`.
    """
    for agent_id, turn, history, reply in read_replies(past):
        yield Checked(agent_id, turn, _compare(history, reply, prices_file, added))


def read_replies(past: Past) -> Iterator[tuple[str, int, History, Assistant]]:
    """Yield each reply of a model: its agent, its number from 1, the history that it was requested with, itself.

    The history is good until the next step. Raises `JournalError`, `ConfigurationError`.
    """
    for agent_id in past.agents:
        history, turn = History(agent_id), 0
        for entry in past.journal(agent_id):
            # Replies of programs were not requested from a model by us.
            if isinstance(entry, Assistant) and not (
                history.spec and (history.spec.definition.command or history.spec.definition.harness)
            ):
                turn += 1
                yield agent_id, turn, history, entry
            history.apply(entry)
            if isinstance(entry, Started) and entry.spec.fork is not None and entry.spec.parent_id is not None:
                history.inherit(
                    fold(
                        entry.spec.parent_id, islice(past.journal(entry.spec.parent_id), entry.spec.fork), past.journal
                    )
                )


def _compare(
    history: History, reply: Assistant, prices_file: Path | None, added: Mapping[str, str]
) -> Literal["same", "differs", "unknown"]:
    spec = history.spec
    if not reply.request_sha or spec is None:
        return "unknown"
    facts, model = reply.facts or NO_FACTS, history.model_of(spec)
    request = ModelRequest(
        model=model,
        system=history.system,
        messages=history.messages,
        tools=history.tools,
        max_tokens=reply_room(history, Sizes.of(model, facts, prices_file)),
        facts=facts,
        tools_allowed=history.final_answer is None,
        effort=spec.definition.effort,
        summarize=None,
        kept={},
    )
    found = split_model(model, added)
    encoder = Encoder() if found is None else codec(found[0].wire).encoder(*found)
    body = encoder.encode(request, max_output=max_output(model, prices_file=prices_file))
    if hashlib.sha256(body).hexdigest() == reply.request_sha:
        return "same"
    bounded = spec.limits.max_tokens is not None or spec.limits.budget_usd is not None
    return "unknown" if bounded else "differs"
