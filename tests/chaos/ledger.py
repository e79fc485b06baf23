"""Agents that charge cards by a tool of somebody's own, and the bank's book, which must hold each call once."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.check.dump import Job
from tests.chaos.check.lives import calls_of, results_of

_REPOSITORY = Path(__file__).parents[2]
OUTSIDE = _REPOSITORY / "tests" / "outside"
AT_ONCE = 5
"""Calls of one reply."""


@dataclass(frozen=True)
class Charges:
    """Children of one root that charge a customer each, call after call."""

    customers: int = 10
    turns: int = 10
    slow_ms: int = 60
    """How long the bank takes before it writes, and again until it answers."""

    @property
    def agents(self) -> int:
        """How many agents there are."""
        return self.customers + 1

    @property
    def calls(self) -> int:
        """How many charges there are to be."""
        return self.customers * self.turns * AT_ONCE

    @property
    def prompt(self) -> str:
        """The order to the root."""
        return "sell"

    @property
    def scenario(self) -> str:
        """What the models say."""
        customers = (f"{{description: c{n}, prompt: charge customer-{n}}}" for n in range(self.customers))
        children = ",\n".join(f"{{name: Agent, input: {given}}}" for given in customers)
        charge = "{{name: charge_card, input: {{account: '{{who}}', cents: {cents}, slow_ms: {slow}}}}}"
        charges = ",\n".join(charge.format(cents=n + 1, slow=self.slow_ms) for n in range(AT_ONCE))
        return f"""
name: ledger
rules:
  - {{name: sold, when: {{prompt: '^sell', turn: 1+}}, reply: {{text: sold}}}}
  - {{name: sell, when: {{prompt: '^sell'}}, reply: {{tools: [{children}]}}}}
  - {{name: charged, when: {{turn: {self.turns}+}}, reply: {{text: charged}}}}
  - {{name: charge, when: {{prompt: 'charge (?P<who>\\S+)'}}, reply: {{tools: [{charges}]}}}}
"""


def check_ledger(work: Charges, left: Job, path: Path) -> list[str]:
    """What of this job's calls the book does not hold once, or should not hold."""
    calls = {
        f"{history.id}/{call['id']}": call["input"]
        for history in left.lives.values()
        for call in calls_of(history)
        if call["name"] == "charge_card"
    }
    results = {f"{history.id}/{i}": one for history in left.lives.values() for i, one in results_of(history).items()}
    with closing(sqlite3.connect(path)) as ledger:
        rows = {
            key: (account, cents) for key, account, cents in ledger.execute("SELECT key, account, cents FROM charges")
        }
    ours = {key: row for key, row in rows.items() if key.partition("/")[0] in left.lives}
    complaints = [] if len(calls) == work.calls else [f"{len(calls)} calls instead of {work.calls}"]
    complaints += [f"{key} was charged, and nobody asked for it" for key in ours.keys() - calls.keys()]
    for key, given in calls.items():
        if ours.get(key) != (given["account"], given["cents"]):
            complaints.append(f"{key} asks for {given}, and the book holds {ours.get(key)}")
        elif results[key]["is_error"] or json.loads(results[key]["text"])["key"] != key:
            complaints.append(f"{key} was charged, and its agent was told: {results[key]['text'][:200]}")
    return complaints


def count_repeats(path: Path) -> int:
    """How often a call was delivered again after it had been charged."""
    with closing(sqlite3.connect(path)) as ledger:
        return int(ledger.execute("SELECT coalesce(sum(tries - 1), 0) FROM charges").fetchone()[0])
