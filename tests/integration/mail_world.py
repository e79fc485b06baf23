"""A job whose agents are driven step by step against a real Redis, without workers: for tests of mailboxes."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from swarm.agent.entries import (
    Assistant,
    Finished,
    Mail,
    Parked,
    Prompt,
    Started,
    ToolFinished,
)
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.client.messages import Messages
from swarm.models import Block, Usage
from swarm.runtime.messenger import Messenger
from swarm.store.outage import Outage
from swarm.store.store import Store
from swarm.store.values import Claim, GoOn, Signals
from tests.fleet import Fleet
from tests.job_world import StoredJob
from tests.segments import make_segment


class Desk:
    """One running agent: its journal and its messages."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self.id, self.claim, self.store = claim.agent_id, claim, store
        segment = make_segment(claim, store)
        self.journal = segment.journal
        self.journal.load()
        self.messenger = Messenger(segment)

    def send(self, to: str, message: str = "hello", **given: Any) -> ToolFinished:
        """Make the call, as the model would; answers its result."""
        [result] = self.send_all({"to": to, "message": message, **given})
        return result

    def send_all(self, *inputs: dict[str, Any]) -> list[ToolFinished]:
        """Make several calls in one reply; answers their results in order."""
        calls: list[Block] = [
            {"type": "tool_use", "id": f"call-{secrets.token_hex(4)}", "name": "SendMessage", "input": given}
            for given in inputs
        ]
        self.journal.append([Assistant(content=calls, stop_reason="tool_use", usage=Usage(), model="model")])
        before = self.journal.history.length
        self.messenger.send(calls)
        results = [entry for entry in self.store.journals.read(self.id, before) if isinstance(entry, ToolFinished)]
        assert [result.tool_use_id for result in results] == [call["id"] for call in calls]
        assert self.journal.history.length == before + len(calls)
        return results

    def read(self) -> str:
        """Take all mail in; answers it as the conversation holds it."""
        before = self.journal.history.length
        while self.messenger.take_mail():
            pass
        return "\n\n".join(entry.text for entry in self.store.journals.read(self.id, before) if isinstance(entry, Mail))

    def park(self, condition: Condition) -> Signals | GoOn:
        """Give the process back."""
        return self.store.agents.park(self.claim, self.journal.next_number, Parked(condition=condition), condition)

    def finish(self, *, unless_mail: bool = True) -> Signals | GoOn:
        """End."""
        entry = Finished(state="completed", text="done")
        return self.store.agents.finish(self.claim, self.journal.next_number, entry, unless_mail=unless_mail)


def make_person(store: Store, job_id: str) -> Messages:
    """The person of a job; nobody is told of what the steps ask for."""
    return Messages(store, job_id, lambda effect: None, Outage(lambda text: None, who="the test"))


class Office(StoredJob):
    """A job: a root at work, with children at work, by name."""

    def __init__(self, store: Store, unmanned: Fleet, *names: str) -> None:
        super().__init__(store, unmanned)
        self.root = self._begin(self.spec)
        self.person = make_person(store, self.job_id)
        self.ids: dict[str, str] = {}
        for name in names:
            assert isinstance(self.spawn(name), Signals)

    def spawn(self, name: str) -> Any:
        """Have the root start a child of this name."""
        call = f"call-{secrets.token_hex(4)}"
        spec = self.child_spec(call, name=name, background=True)
        answer = self.spawn_all(self.root.claim, self.root.journal.next_number, {call: spec})
        if isinstance(answer, Signals):
            self.root.journal.load()
            self.ids[name] = spec.agent_id
        return answer

    def at(self, name: str) -> Desk:
        """Claim this agent."""
        return self._begin(self.child_spec(name, agent_id=self.ids[name], name=name))

    def fill(self, to: str, texts: Sequence[str], sender: str = "root") -> None:
        """Have an agent (the root, which must be at work, or one that has not begun) send all of these."""
        desk = self.root if sender == "root" else self.at(sender)
        results = desk.send_all(*({"to": to, "message": text} for text in texts))
        assert not any(result.is_error for result in results)

    def unread(self, name: str) -> int:
        """What its record says."""
        return self.store.agents.get(self.ids[name]).unread

    def bodies(self, name: str) -> list[str]:
        """Everything in a mailbox."""
        return [message.body for message in self.store.mail.all(self.ids.get(name, name))]

    def _begin(self, spec: AgentSpec) -> Desk:
        desk = Desk(self.store, self.take_claim(spec.agent_id))
        if desk.journal.history.spec is None:
            desk.journal.append([Started(spec=spec), Prompt(text="go")])
        return desk
