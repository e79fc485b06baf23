"""A server whose window only a refusal tells: one refusal in a long life, cuts with room for whole summaries, and no fact lost.

Tests of swarm/agent/compaction.py, swarm/models/facts.py.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from swarm import Limits
from swarm.agent.cut import SUMMARIZE
from swarm.agent.entries import Compacted, ModelFailed
from swarm.core.ids import root_agent_id
from tests.fleet import Fleet
from tests.gateway import Answer, Body, Events, Quirk, gateway_of

WINDOW, TURNS, EVERY = 60_000, 400, 20
SCENARIO = f"""
name: long
summarizes: false
rules:
  - when: {{turn: 0-{TURNS - 1}}}
    reply: {{text: 'turn {{turn}}', tools: [{{name: Read, input: {{file_path: '{{workspace}}/notes/{{turn}}.txt'}}}}]}}
  - reply: {{text: 'I know:'}}
"""


def size_of(body: Body) -> int:
    """The tokens of a request, as this server counts them."""
    return len(json.dumps([body.get("system"), body.get("tools"), body["messages"]])) // 4


def wants_summary(body: Body) -> bool:
    return SUMMARIZE[:40] in json.dumps(body["messages"][-1], ensure_ascii=False)


@pytest.mark.long
def test_a_window_told_by_a_refusal_is_met_once_in_a_life_of_400_turns(at_work: Fleet) -> None:
    summaries: list[tuple[int, int]] = []
    refused: list[int] = []

    def refuse(body: Body) -> Answer | None:
        if size_of(body) <= WINDOW:
            if wants_summary(body):
                summaries.append((size_of(body), body["max_tokens"]))
            return None
        refused.append(size_of(body))
        message = f"prompt is too long: {size_of(body)} tokens > {WINDOW} maximum"
        return Answer(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}})

    def recall(body: Body, events: Events) -> Events:
        """Like a model that reads its whole request: a summary, and the last answer, name all facts that are in it."""
        last = any("I know:" in str(event) for event in events)
        if not (wants_summary(body) or last):
            return events
        facts = sorted(set(re.findall(r"FACT-\d+", json.dumps(body))))
        at = max(n for n, event in enumerate(events) if event.get("delta", {}).get("type") == "text_delta")
        told = events[at]["delta"]["text"] + " " + " ".join(facts)
        return [*events[:at], events[at] | {"delta": events[at]["delta"] | {"text": told}}, *events[at + 1 :]]

    notes = at_work.workspace / "notes"
    notes.mkdir()
    for turn in range(TURNS):
        fact = f"FACT-{turn}\n" if turn % EVERY == 0 else ""
        (notes / f"{turn}.txt").write_text(fact + f"line of note {turn}\n" * 110)
    quirk = replace(Quirk("a window of 60 000"), refuse=refuse, reply=recall)
    with gateway_of(at_work.rehearse(SCENARIO).url, quirk) as gateway:
        job = at_work.swarm.submit(
            "Read all notes.",
            agent="general-purpose",
            workspace=at_work.workspace,
            base_url=gateway.url,
            limits=Limits(max_turns=2 * TURNS),
        )
        ended = job.wait(400)
    journal = at_work.swarm.journal(root_agent_id(job.id))
    cuts = [entry for entry in journal if isinstance(entry, Compacted)]
    assert ended.state == "completed", ended.reason
    assert len(refused) == 1 and len([one for one in journal if isinstance(one, ModelFailed)]) == 1
    assert len(cuts) >= 4 and len(summaries) == len(cuts), "each cut was made at the first try"
    assert [one for one in summaries if sum(one) > WINDOW] == [], "a summary's request leaves its reply room"
    assert set(ended.text.split()[2:]) == {f"FACT-{turn}" for turn in range(0, TURNS, EVERY)}
