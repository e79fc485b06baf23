"""One order of all that happens in a job: whatever caused something has a lower number. Real workers, a real team.

Tests of swarm/store/agents.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.agent.entries import Entry, Finished, Mail, Prompt, Spawned, decode_entry
from swarm.core.records import Event, read_event
from swarm.store.store import Store
from tests.fleet import Fleet
from tests.job_world import JobWorld


class Past:
    """All journal entries and events of a job that is over, by their numbers."""

    def __init__(self, store: Store, job_id: str) -> None:
        self.events = [
            read_event(entry_id, fields)
            for entry_id, fields in store.keyspace.client.xrange(store.keyspace.key("events", job_id))
        ]
        self.journals: dict[str, list[tuple[int, Entry]]] = {}
        for agent in store.agents.of(job_id):
            self.journals[agent.id] = [
                (stored.seq, decode_entry(stored.document, agent_id=agent.id, number=stored.number))
                for stored in store.journals.stored(agent.id)
            ]

    @property
    def numbers(self) -> list[int]:
        of_entries = [seq for entries in self.journals.values() for seq, _ in entries]
        return sorted([*of_entries, *(event.seq for event in self.events)])

    def causes(self) -> Iterator[tuple[int, int, str]]:
        """Pairs of a cause's number and its effect's, and what they are."""
        spawned = {
            child: (seq, agent_id)
            for agent_id, entries in self.journals.items()
            for seq, entry in entries
            if isinstance(entry, Spawned)
            for child in entry.children.values()
        }
        sent = {event.fields["id"]: event for event in self.events if event.kind == "message"}
        for agent_id, entries in self.journals.items():
            for (before, _), (after, _) in zip(entries, entries[1:], strict=False):
                yield before, after, "an entry and the next one"
            if agent_id in spawned:
                yield spawned[agent_id][0], entries[0][0], "a spawning and the child's first entry"
            for seq, entry in entries:
                for message in entry.ids if isinstance(entry, Mail) else ():
                    if message in sent:
                        yield sent[message].seq, seq, "a message and its being read"
                        yield self._last_before(sent[message]), sent[message].seq, "the sender's past and a message"
        ends = {event.agent_id: event.seq for event in self.events if event.kind == "ended"}
        for agent_id, (seq, parent) in spawned.items():
            yield seq, self._of("spawned", agent_id), "a spawning and its event"
            yield ends[agent_id], ends[parent], "a child's end and its parent's"
        for agent_id, entries in self.journals.items():
            [finished] = [seq for seq, entry in entries if isinstance(entry, Finished)]
            yield finished, ends[agent_id], "a last entry and the event of the end"

    def _of(self, kind: str, agent_id: str) -> int:
        return next(event.seq for event in self.events if event.kind == kind and event.agent_id == agent_id)

    def _last_before(self, event: Event) -> int:
        """The number of the sender's last entry before it sent this: by claim and clock it cannot know of more."""
        return max(seq for seq, _ in self.journals[event.agent_id] if seq < event.seq)


@pytest.fixture(scope="module")
def past(_staffed: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Past:
    with _staffed.lend(tmp_path_factory.mktemp("order") / "workspace") as fleet:
        job = fleet.submit("go", fleet.rehearse("team"), agent="build")
        assert job.wait(60).state == "completed"
        return Past(fleet.swarm.store, job.id)


def test_every_entry_and_event_of_a_job_has_a_number_of_its_own_and_none_is_missing(past: Past) -> None:
    assert past.numbers == list(range(1, len(past.numbers) + 1))
    assert len(past.journals) == 5
    assert {event.kind for event in past.events} >= {"spawned", "message", "read", "board", "pad", "ended"}


def test_whatever_caused_something_comes_before_it(past: Past) -> None:
    kinds = set()
    for cause, effect, what in past.causes():
        assert cause < effect, what
        kinds.add(what)
    assert len(kinds) == 7


@given(data=st.data())
def test_any_beginning_of_the_order_holds_all_causes_of_what_it_holds(past: Past, data: Any) -> None:
    cut = data.draw(st.integers(0, past.numbers[-1]))
    held = {number for number in past.numbers if number <= cut}
    for agent_id, entries in past.journals.items():
        kept = [entry for seq, entry in entries if seq in held]
        assert [entry for _, entry in entries[: len(kept)]] == kept, f"{agent_id}'s journal is cut, not torn"
    assert all(cause in held for cause, effect, _ in past.causes() if effect in held)


def test_the_feed_tells_of_all_jobs_in_their_orders_and_the_totals_count_them(unmanned: Fleet, store: Store) -> None:
    first, second = (JobWorld(store, unmanned, team=False) for _ in range(2))
    first.start("a", teammate=False)
    first.end("a")
    for world in (first, second):
        world.live("root")
        world.end("root")
    fed = [fields for _, fields in store.keyspace.client.xrange(store.keyspace.key("feed"))]
    for world in (first, second):
        events = store.keyspace.client.xrange(store.keyspace.key("events", world.job_id))
        told = [
            (fields["seq"], fields["kind"], fields["agent"]) for _, fields in events if fields["kind"] != "progress"
        ]
        assert [(row["seq"], row["kind"], row["agent"]) for row in fed if row["job"] == world.job_id] == told
    totals = store.keyspace.client.hgetall(store.keyspace.key("totals"))
    assert totals == {"jobs": "2", "agents": "3", "ended_completed": "3"}


def test_entries_of_an_older_version_have_no_number_and_are_read_as_ever(unmanned: Fleet, store: Store) -> None:
    world = JobWorld(store, unmanned, team=False)
    old = Prompt(text="from before", at=1.0, generation=1).model_dump_json()
    store.keyspace.client.xadd(store.keyspace.key("journal", world.root), {"e": old}, id="1-0")
    store.keyspace.client.hset(store.keyspace.key("agent", world.root), "length", 1)
    world.lengths["root"] = 1
    world.live("root")
    assert [type(entry) for entry in store.journals.read(world.root)] == [Prompt, Prompt]
    before, after = store.journals.stored(world.root)
    assert (before.seq, before.number, before.document) == (0, 1, old) and after.seq > 0
