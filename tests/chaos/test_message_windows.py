"""A process dies, or is not answered, between two steps of a message's way: it is neither lost nor doubled, and order is kept.

Tests of swarm/runtime/messenger.py, swarm/tools/messages.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from swarm.agent.entries import Assistant, ToolFinished, encode_entry
from swarm.core.errors import MailboxFull
from swarm.models import Usage
from swarm.store.store import Store
from swarm.store.values import OutgoingMessage
from tests.chaos.check.judge import judge
from tests.chaos.crashing_worker import Order
from tests.chaos.plan import Talk
from tests.chaos.test_crash_windows import Line, line
from tests.chaos.test_wake_race import Family
from tests.fleet import Fleet

__all__ = ["line"]

WINDOWS = [
    Order("send_from", "before", depth=1),
    Order("send_from", "after", depth=1),
    Order("send_from", "after", depth=1, whole=True),
    Order("take", "before", depth=1),
    Order("take", "after", depth=1),
    Order("take", "after", depth=0),
]


@pytest.mark.parametrize("order", WINDOWS, ids=lambda o: f"{o.when} {o.step} at depth {o.depth}{' whole' * o.whole}")
def test_dying_there_neither_loses_nor_doubles_a_message(line: Line, order: Order) -> None:
    talk = Talk(fanout=3, messages=60, batch=5, think_ms=20)
    line.man()
    [done] = line.order(order)
    job = line.fleet.submit(talk.prompt, line.fleet.rehearse(talk.scenario), max_turns=1_000)

    left = line.see_through(job, 60)
    assert done.exists(), "it died there"
    verdict = judge([left])
    assert (verdict.agents, verdict.messages) == (talk.agents, talk.messages)


def _letters(family: Family, to: Sequence[str], *, full: str = "") -> list[OutgoingMessage]:
    return [
        OutgoingMessage(
            job=family.spec.job_id,
            sender=family.root,
            name="root",
            kind="message",
            body=f"letter {number}",
            max_unread=0 if receiver == full else 1_000,
            to=[receiver],
            entry=encode_entry(ToolFinished(tool_use_id=f"send-{number}", text="Delivered.")),
        )
        for number, receiver in enumerate(to)
    ]


def _call(family: Family, store: Store, count: int) -> None:
    calls = [{"type": "tool_use", "id": f"send-{n}", "name": "SendMessage", "input": {}} for n in range(count)]
    reply = Assistant(content=calls, stop_reason="tool_use", usage=Usage(), model="m")
    store.journals.append(family.claim, family.length + 1, [reply])
    family.length += 1


def test_letters_are_sent_up_to_the_first_that_is_refused(store: Store, unmanned: Fleet) -> None:
    """Also when the step is sent again because its answer was lost: then the refusal is told by the next attempt."""
    family = Family(store, unmanned)
    one, other = family.children
    _call(family, store, 4)
    letters = _letters(family, [one, one, other, one], full=other)
    names = {one: "one", other: "other"}
    sent = store.mail.send_from(family.claim, family.length + 1, letters, names)
    assert sent.count == 2
    assert [message.body for message in store.mail.read(one)] == ["letter 0", "letter 1"]
    again = store.mail.send_from(family.claim, family.length + 3, letters[2:], names)
    assert again.count == 0 and isinstance(again.refusal, MailboxFull) and again.refusal.receiver == "other"
    last = store.mail.send_from(family.claim, family.length + 3, letters[3:], names)
    assert last.count == 1
    assert [message.body for message in store.mail.read(one)] == ["letter 0", "letter 1", "letter 3"]
    assert not store.mail.read(other)
    results = [entry.tool_use_id for entry in store.journals.read(family.root) if isinstance(entry, ToolFinished)]
    assert results == ["send-0", "send-1", "send-3"]
    assert store.agents.get(family.root).tools == 3 and store.agents.get(one).unread == 3
