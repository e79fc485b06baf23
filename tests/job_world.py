"""One job in a real Redis without any worker: its agents are made, claimed, parked and ended step by step."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any
from xml.sax.saxutils import unescape

import redis

from swarm.agent.entries import (
    Finished,
    Mail,
    Parked,
    Prompt,
    Spawned,
)
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec, Limits
from swarm.capabilities.team.board import Board, TaskView
from swarm.capabilities.team.scratchpad import Pad
from swarm.capabilities.team.teams import Teams
from swarm.core.ids import child_agent_id, new_job_id, root_agent_id
from swarm.definitions.catalogue import load_catalogue
from swarm.mailbox import Message, render_mail
from swarm.objects.port import Objects
from swarm.store.slots import CallEnd
from swarm.store.store import Store
from swarm.store.values import Claim, GoOn, Signals
from tests.fleet import Fleet

LONGEST_STEP_SECONDS = 0.020  # what one step may use of Redis' processor


def open_store(fleet: Fleet, kind: type[redis.Redis] = redis.Redis, objects: Objects | None = None) -> Store:
    """A swarm of its own in the fleet's Redis."""
    return Store(kind.from_url(fleet.url, decode_responses=True), f"t{secrets.token_hex(4)}", lambda: objects)


def count_commands(store: Store, act: Callable[[], Any]) -> int:
    """The number of commands that Redis carries out for `act`, those inside of steps included."""

    def told() -> int:
        calls = store.keyspace.client.info("commandstats").items()
        return sum(each["calls"] for name, each in calls if name != "cmdstat_info")

    before = told()
    act()
    return told() - before


def processor_seconds(client: redis.Redis) -> float:
    """What the server's thread of commands has used of a processor; a busy machine does not change it."""
    info = client.info("cpu")
    return float(info["used_cpu_user_main_thread"]) + float(info["used_cpu_sys_main_thread"])


class StoredJob:
    """A job that was submitted, and what its root and a worker do to have more agents in it."""

    def __init__(self, store: Store, fleet: Fleet, *, weight: int = 1, **limits: Any) -> None:
        self.store = store
        self.job_id = new_job_id()
        self.spec = AgentSpec(
            agent_id=root_agent_id(self.job_id),
            job_id=self.job_id,
            definition=load_catalogue(fleet.workspace).get("general-purpose"),
            description="root",
            prompt="go",
            model="model",
            workspace=str(fleet.workspace),
            limits=Limits(**limits),
        )
        store.jobs.submit(self.spec, catalogue="{}", retention_seconds=60, weight=weight)

    def child_spec(self, call: str, parent: str | None = None, **changes: Any) -> AgentSpec:
        """What the agent is made from that this call makes; by default a child of the root."""
        parent = parent or self.spec.agent_id
        made = {"agent_id": child_agent_id(parent, call), "parent_id": parent, "depth": 1}
        return self.spec.model_copy(update={**made, **changes})

    def take_claim(self, agent_id: str, worker: str = "worker") -> Claim:
        """A worker claims the agent, which must be queued."""
        claim = self.store.agents.claim(agent_id, worker, 60)
        assert isinstance(claim, Claim), (agent_id, claim)
        return claim

    def spawn_all(self, claim: Claim, number: int, children: Mapping[str, AgentSpec]) -> Any:
        """The owner of `claim` makes these, by call, with its journal's entry `number`; returns what the store returns."""
        entry = Spawned(
            children={call: spec.agent_id for call, spec in children.items()},
            background=[call for call, spec in children.items() if spec.background],
        )
        return self.store.agents.spawn(claim, number, entry, list(children.values()))


class JobWorld(StoredJob):
    """A job whose root runs; by name its agents, and what they do to board, scratchpad and team."""

    def __init__(self, store: Store, fleet: Fleet, *, team: bool = True, **limits: Any) -> None:
        super().__init__(store, fleet, **{"max_running": 1_000, **limits})
        self.root = self.spec.agent_id
        self.board, self.pad, self.teams = (
            Board(store.keyspace, self.job_id),
            Pad(store.keyspace, self.job_id),
            Teams(store.keyspace, self.job_id),
        )
        self.ids = {"root": self.root}
        self.claims: dict[str, Claim] = {}
        self.lengths: dict[str, int] = {"root": 0}
        self._causes = 0
        self.run("root")
        if team:
            self.teams.create(self.root, "found", "crew", "")

    def cause(self) -> str:
        """A cause that was never there before."""
        self._causes += 1
        return f"cause-{self._causes}"

    # -- agents ----------------------------------------------------------------------------------------------

    def start(self, name: str, role: str | None = None, *, teammate: bool = True, parent: str = "root") -> str:
        """Make an agent, and let it run."""
        self.spawn(name, role, teammate=teammate, parent=parent)
        self.run(name)
        return self.ids[name]

    def spawn(self, name: str, role: str | None = None, *, teammate: bool = True, parent: str = "root") -> Any:
        """Make an agent that is queued; answers what the store answers."""
        given = {"name": name, "role": role, "teammate": teammate, "background": teammate}
        spec = self.child_spec(name, self.ids[parent], **given)
        answer = self.spawn_all(self.claims[parent], self.lengths[parent] + 1, {name: spec})
        if isinstance(answer, Signals):
            self.lengths[parent] += 1
            self.ids[name], self.lengths[name] = spec.agent_id, 0
        return answer

    def run(self, name: str) -> None:
        """A worker takes the agent."""
        self.claims[name] = self.take_claim(self.ids[name], f"worker-{name}")

    def live(self, name: str, call: CallEnd | None = None) -> None:
        """Something happens in its journal, or a call of it ends."""
        self.store.journals.append(self.claims[name], self.lengths[name] + 1, [Prompt(text="recorded")], call=call)
        self.lengths[name] += 1

    def park(self, name: str, condition: Condition) -> Signals | GoOn:
        """Park the agent, if its condition does not hold."""
        answer = self.store.agents.park(
            self.claims[name], self.lengths[name] + 1, Parked(condition=condition), condition
        )
        self.lengths[name] += not isinstance(answer, GoOn)
        return answer

    def rest(self, name: str) -> Signals | GoOn:
        """The agent has nothing left to do."""
        return self.park(name, Condition(rest=True))

    def wake_and_read(self, name: str) -> list[Message]:
        """A worker takes a woken agent, and it reads its mail."""
        self.run(name)
        return self.read(name)

    def read(self, name: str) -> list[Message]:
        """The agent takes its unread mail in."""
        cursor = getattr(self, "_cursors", {}).get(name, "0-0")
        messages = self.store.mail.read(self.ids[name], cursor)
        if messages:
            entry = Mail(text="mail", cursor=messages[-1].id, ids=[message.id for message in messages])
            self.store.mail.take(self.claims[name], self.lengths[name] + 1, entry, messages)
            self.lengths[name] += 1
            self._cursors = {**getattr(self, "_cursors", {}), name: messages[-1].id}
        return messages

    def end(self, name: str) -> Signals | GoOn:
        """The agent completes."""
        return self.store.agents.finish(
            self.claims[name], self.lengths[name] + 1, Finished(state="completed", text="done")
        )

    def state(self, name: str) -> str:
        return self.store.agents.get(self.ids[name]).state

    def is_idle(self, name: str) -> bool:
        record = self.store.agents.get(self.ids[name])
        return record.state == "parked" and record.idle

    def notes(self, name: str) -> list[str]:
        """What the runtime has told the agent so far."""
        notices = [m for m in self.store.mail.all(self.ids[name]) if m.kind == "notification"]
        notes = [re.fullmatch(r"<runtime-note>\n(.*)\n</runtime-note>", render_mail([m]), re.S) for m in notices]
        return [unescape(note[1]) for note in notes if note]

    # -- the board -------------------------------------------------------------------------------------------

    def add(self, subject: str, *, by: str = "root", **given: Any) -> int:
        return self.board.add(self.ids[by], self.cause(), subject, **given)[0]

    def take(self, name: str, number: int | None = None) -> int:
        return self.board.claim(self.ids[name], self.cause(), number)[0]

    def complete(self, name: str, number: int, result: str = "done") -> list[int]:
        return self.board.complete(self.ids[name], self.cause(), number, result)[0]

    def task(self, number: int) -> TaskView:
        return self.board.tasks()[number - 1]
