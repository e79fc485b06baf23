"""Verdicts about agents' work: the journal's entry, and what the records tell of it, in one step."""

from __future__ import annotations

from swarm.agent.entries import Verdict, encode_entry
from swarm.plain import clean
from swarm.records import VerdictView
from swarm.store.upkeep import Upkeep
from swarm.store.values import Appended, Claim, Signals


class Judging(Upkeep):
    """The part of a store that keeps verdicts."""

    def judge_end(self, claim: Claim, number: int, entry: Verdict) -> Appended:
        """Append a verdict as entry `number`. Raises `NotOwner` or `AgentCancelled`, having changed nothing."""
        told = clean(entry).model_dump_json(include=set(VerdictView.model_fields))
        answer = self.run("judge_end", claim.agent_id, claim.generation, number, encode_entry(entry), told)
        self._check(answer, claim)
        if answer[0] != "ok":
            # A repeat.
            return Appended(None, Signals())
        return Appended(int(answer[1]), Signals(publish=answer[2]))
