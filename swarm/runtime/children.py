"""Starts a running agent's children together with their journal entry; collects results."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from swarm.agent.entries import Spawned, ToolFinished
from swarm.agent.journaled import Condition
from swarm.agent.notes import NO_ROOM, child_result
from swarm.agent.spec import AgentSpec
from swarm.definitions.model import DEFAULT_TYPE
from swarm.definitions.names import canonical_type
from swarm.mailbox import write_out
from swarm.models import Block
from swarm.runtime.evidence import add_to_report
from swarm.runtime.request_prefix import open_for
from swarm.runtime.share import name_prefix
from swarm.runtime.spawner import Spawning, plan_children, refuse
from swarm.store.spending import name_allowance
from swarm.store.values import NANO, Continuation, Signals
from swarm.tools.agents import AGENT, find_child
from swarm.tools.outputs import fit
from swarm.tools.registry import describe_call

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts

SPAWNING = AGENT.name
SPAWNED_AT_ONCE = 50
"""Most children of one step, which must not occupy Redis for long."""
ROOM_SECONDS = 10.0
"""How long an agent waits for room in Redis before it tries again to start a child."""


class Children:
    """Carries out `Agent` calls."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._segment = parts, parts.segment
        self._journal, self._store, self._spec = parts.segment.journal, parts.segment.store, parts.segment.spec
        self._just_started: set[str] = set()
        """Children that this segment has started and not waited for yet."""

    def spawn(self, calls: Sequence[Block]) -> Condition | None:
        """Start or continue children as the calls ask. Impossible calls get a refusal as result.

        Returns what to wait for if Redis has no room for new agents now.
        """
        plan = self._plan(calls)
        for step in self._parts.steps:
            plan.refuse(calls, step.refuse_child)
        self._start(plan)
        for call in calls:
            if why := plan.against.get(call["id"]):
                self._store.events.emit(
                    self._spec.job_id, "denied", self._spec.agent_id, call=describe_call(call), why=why
                )
        refused = {call_id: text for call_id, text in plan.refused.items() if text != NO_ROOM}
        if refused:
            self._journal.append_results(
                [ToolFinished(tool_use_id=i, text=text, is_error=True) for i, text in refused.items()]
            )
        return None if refused == plan.refused else Condition(until=self._segment.claim.now() + ROOM_SECONDS)

    def start_members(self, call_id: str, members: Sequence[dict[str, Any]]) -> dict[str, str]:
        """Start a team's members from within one call. A repeated call starts none twice.

        Each member starts as by an `Agent` call. Returns the reasons for members that were not started, by name.
        """
        calls: list[Block] = [
            {"type": "tool_use", "id": f"{call_id}.{number}", "name": SPAWNING, "input": {**member, "teammate": True}}
            for number, member in enumerate(members)
        ]
        names = {call["id"]: str(call["input"]["name"]) for call in calls}
        plan = self._plan([call for call in calls if call["id"] not in self._journal.history.spawned])
        plan.refuse(calls, self._parts.refuse_call)
        self._start(plan)
        return {names[one]: why for one, why in plan.refused.items()}

    def _plan(self, calls: Sequence[Block]) -> Spawning:
        return plan_children(
            calls,
            self._journal.history,
            self._parts.catalogue,
            lambda who: find_child(self._store, self._spec, who, teammates=False),
            prices_file=self._segment.settings.prices_file,
            copies=self._parts.isolation.plan,
            host=socket.gethostname(),
        )

    def _start(self, plan: Spawning) -> None:
        """Start the planned children. Impossible ones become refusals in the plan."""
        commit = self._parts.isolation.give(plan)
        while plan.children and not self._make(plan, commit):
            pass

    def _make(self, plan: Spawning, commit: str) -> bool:
        """Start all planned children, or none: refusals of the store become refusals in the plan.

        Copies are made of `commit`.
        """
        specs = list(plan.children.values())
        entry = self._journal.stamp(
            Spawned(
                children={call_id: child.agent_id for call_id, child in plan.children.items()},
                background=plan.background(),
                notes=plan.notes(),
                commit=commit,
            )
        )
        answer = self._store.agents.spawn(
            self._segment.claim,
            self._journal.next_number,
            entry,
            specs,
            closing=self._parts.model_call.closing(len(specs)),
            beside=self._describe_beside(plan),
            tools=sorted(self._journal.history.tool_names()),
        )
        if isinstance(answer, Signals):
            self._journal.apply(entry)
            self._just_started.update(entry.children.values())
            self._segment.publish(answer)
            return True
        refuse(plan, answer, self._spec.limits.max_agents)
        return False

    def _describe_beside(self, plan: Spawning) -> dict[str, dict[str, str]]:
        """Return fields of new children's records that are not in their specs: the request prefix, a workflow's phase and allowance."""
        named, pending = self._name_prefixes(list(plan.children.values())), self._journal.history.pending
        found: dict[str, dict[str, str]] = {agent_id: {"prefix": name} for agent_id, name in named.items()}
        for call_id, child in plan.children.items():
            call = pending.get(call_id, {})
            if isinstance(child, AgentSpec) and (phase := call.get("phase")):
                found.setdefault(child.agent_id, {})["phase"] = phase
            if isinstance(child, AgentSpec) and (given := call.get("allowance")):
                name = name_allowance(self._spec.agent_id, given["name"])
                allowance = {"allowance": name, "allowance_max": f"{given['usd'] * NANO:.0f}"}
                found.setdefault(child.agent_id, {}).update(allowance)
        return found

    def _name_prefixes(self, children: Sequence[AgentSpec | Continuation]) -> dict[str, str]:
        """Name the prefixes of new children by id, except one that equals their parent's.

        Prefixes are computed as if the children ran on this worker with only the table's tools. If servers list their tools when an agent
        begins, no child is held back here, but only when it asks for a slot.
        """
        prices, named = self._segment.settings.prices_file, dict[str, str]()
        if any(step.adds_tools for step in self._parts.steps):
            return named
        own, _ = name_prefix(
            self._journal.history.as_now(self._spec), self._journal.history.system, self._journal.history.tools, prices
        )
        for child in children:
            # A fork begins with its parent's conversation, and a continued agent with its own.
            if isinstance(child, AgentSpec) and child.fork is None:
                prefix = open_for(self._parts, child)
                name, _ = name_prefix(child, prefix.system, prefix.tools, prices)
                if name and name != own:
                    named[child.agent_id] = name
        return named

    def _abort_siblings(self, children: dict[str, str], alive: Sequence[str]) -> bool:
        """End siblings at work if a child has failed whose failure ends the others.

        Returns whether any child's failure would.
        """
        bound = [agent_id for call_id, agent_id in children.items() if self._binds(call_id)]
        over = [agent_id for agent_id in bound if agent_id not in alive]
        ended = self._store.agents.ended(over) if over else {}
        failed = next((one for one in ended.values() if one.state in ("failed", "timed_out")), None)
        if failed is not None:
            why = f"{failed.called} ({failed.label}), which was started beside it, failed"
            for agent_id in alive:
                self._segment.publish(
                    self._store.agents.cancel(agent_id, why, by=(self._spec.agent_id, self._segment.claim.generation))
                )
        return bool(bound)

    def _binds(self, call_id: str) -> bool:
        given = self._journal.history.pending[call_id]["input"]
        if "abort_siblings" in given:
            return bool(given["abort_siblings"])
        kind = canonical_type(str(given.get("subagent_type") or DEFAULT_TYPE))
        definition = self._parts.catalogue.definitions.get(kind)
        return definition is not None and definition.abort_siblings

    def collect(self, children: dict[str, str]) -> Condition | None:
        """Take in children's results (tool_use id → agent id), or return what to wait for."""
        # The step that parks checks their states anyway.
        new = self._just_started.issuperset(children.values())
        self._just_started.clear()
        ended = {} if new else self._store.agents.ended(list(children.values()))
        if alive := [agent_id for agent_id in children.values() if agent_id not in ended]:
            # A failure that ends the others must be seen at once.
            return Condition(children=alive, mode="any" if self._abort_siblings(children, alive) else "all")
        history, copied = (
            self._journal.history,
            [ended[one] for one in children.values() if ended[one].isolation != "none"],
        )
        merged = self._parts.isolation.collect(copied) if copied else None
        named: dict[str, Any] = {"commit": merged.commit} if merged is not None and merged.commit else {}
        results = []
        for call_id, agent_id in children.items():
            text, failed = child_result(ended[agent_id], "" if merged is None else merged.notes.get(agent_id, ""))
            if history.ledger is not None:
                text = add_to_report(history, call_id, text, self._store.journals.read)
            text = fit(self._parts.outputs, call_id, write_out(text))
            results.append(ToolFinished(tool_use_id=call_id, text=text, is_error=failed, **named))
        self._journal.append_results(results)
        for step in self._parts.steps:
            step.noted()
        return None
