"""The steps of a harness in Redis, for an agent that runs: harnesses.lua."""

from __future__ import annotations

import json
from typing import Any

from swarm.core.usage import Charge
from swarm.store.keyspace import Keyspace, effect_of
from swarm.store.questions import Ask
from swarm.store.slots import CallEnd
from swarm.store.values import Claim, Signals


class HarnessStore:
    """The steps of one claimed agent. All raise `NotOwner` or `AgentCancelled`."""

    def __init__(self, keyspace: Keyspace, claim: Claim) -> None:
        self._keyspace, self._claim = keyspace, claim

    def ask(self, question_id: str, ask: Ask) -> Signals:
        """Ask a question while the agent keeps its process; a repeat asks nothing."""
        return self._run("ask_at_work", question_id, ask.model_dump_json(exclude={"to"}))

    def note_request(self, name: str, charge: Charge, *, call: CallEnd | None = None) -> Signals:
        """Note the use of a request, until an entry reports it; `call` ends the call that holds the agent's slot."""
        use = {**charge.counters().changed(), "model": charge.model or "unknown"}
        return self._run("note_request", name, json.dumps(use), "" if call is None else call.encode())

    def _run(self, step: str, *given: Any) -> Signals:
        answer = self._keyspace.run(step, self._claim.agent_id, self._claim.generation, *given)
        return effect_of(answer, self._claim)
