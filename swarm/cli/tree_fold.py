"""Fit a tree of agents into a number of lines: ended agents are folded first, running ones last. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from swarm.cli.output import show_cost
from swarm.core.records import TERMINAL_STATES
from swarm.core.usage import NANO, Counters, dollars_known
from swarm.streaming.live.rows import Row


@dataclass(frozen=True)
class TreeLine:
    """One line: an agent, a phase of a workflow, or a summary of several agents."""

    trunk: tuple[bool, ...]
    """Whether more siblings follow, per level from the top to the row's own."""
    agent: Row | None = None
    below: int = 0
    """Number of agents folded into the line of `agent` or `phase`."""
    tokens: int = 0
    cost: str = ""
    """Cost of the agent and its folded agents, formatted."""
    summary: str = ""
    phase: str = ""
    """The title of a phase, whose `summary` counts its agents."""


@dataclass(frozen=True)
class _Folding:
    ended_branches: bool = False
    """Fold the descendants of an ended agent into its line."""
    ended_siblings: bool = False
    queued_siblings: bool = False
    most_siblings: int | None = None


_FOLDINGS = (
    _Folding(),
    _Folding(ended_branches=True),
    _Folding(ended_branches=True, ended_siblings=True),
    _Folding(ended_branches=True, ended_siblings=True, queued_siblings=True),
    *(_Folding(True, True, True, most_siblings=most) for most in (8, 4, 2, 1)),
)


def fold_tree(agents: Sequence[Row], room: int | None = None) -> list[TreeLine]:
    """Fold the tree into at most `room` lines, as little as possible; parents come before their children."""
    tree = _Tree(agents)
    rows: list[TreeLine] = []
    for folding in _FOLDINGS:
        # One line too many is enough to fold more.
        rows = list(islice(tree.rows(folding), None if room is None else room + 1))
        if room is None or len(rows) <= room:
            return rows
    assert room is not None
    kept = rows[: max(1, room - 1)]
    shown = sum((row.agent is not None) + row.below for row in kept)
    return [*kept, TreeLine((), summary=f"and {len(agents) - shown} more")][: max(1, room)]


def _money(row: Row) -> Counters:
    return Counters(cost=round((row["cost_usd"] or 0.0) * NANO), unpriced=row["unpriced_tokens"])


def show_money(counted: Counters) -> str:
    """Format a sum's cost; `?` stands for the part without a known price."""
    return show_cost(dollars_known(counted, rehearsed=False), counted.unpriced)


def sum_money(rows: Iterable[Row]) -> str:
    """Format the cost of all these rows."""
    return show_money(sum(map(_money, rows), Counters()))


class _Tree:
    def __init__(self, agents: Sequence[Row]) -> None:
        ids = {agent["id"] for agent in agents}
        self._children: dict[str | None, list[Row]] = defaultdict(list)
        self._below: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._costs: defaultdict[str, Counters] = defaultdict(Counters)
        for agent in agents:
            self._children[agent["parent_id"] if agent["parent_id"] in ids else None].append(agent)
        for agent in reversed(agents):  # children are younger than their parents
            own, parent = agent["id"], agent["parent_id"]
            self._tokens[own] += agent["tokens"]
            self._costs[own] += _money(agent)
            if parent is not None:
                self._below[parent] += 1 + self._below[own]
                self._tokens[parent] += self._tokens[own]
                self._costs[parent] += self._costs[own]

    def rows(self, folding: _Folding) -> Iterator[TreeLine]:
        for root in self._children[None]:
            yield from self._branch(root, (), folding)

    def _branch(self, agent: Row, trunk: tuple[bool, ...], folding: _Folding) -> Iterator[TreeLine]:
        if folding.ended_branches and agent["ended"] and trunk:
            own = agent["id"]
            yield TreeLine(trunk, agent, self._below[own], self._tokens[own], show_money(self._costs[own]))
            return
        yield TreeLine(trunk, agent, 0, agent["tokens"], show_money(_money(agent)))
        phases: dict[str, list[Row]] = defaultdict(list)
        for child in self._children[agent["id"]]:
            phases[child["phase"]].append(child)
        alone = phases.pop("", [])
        yield from self._siblings(alone, trunk, folding, more=bool(phases))
        for number, (title, children) in enumerate(phases.items(), 1):
            yield from self._phase(title, children, (*trunk, number < len(phases)), folding)

    def _phase(self, title: str, children: list[Row], trunk: tuple[bool, ...], folding: _Folding) -> Iterator[TreeLine]:
        """Yield a phase's line, with its sums, and its agents unless all have ended and are folded."""
        ended = sum(child["ended"] for child in children)
        folded = folding.ended_branches and ended == len(children)
        below = sum(1 + self._below[child["id"]] for child in children) if folded else 0
        cost = show_money(sum((self._costs[child["id"]] for child in children), Counters()))
        tokens = sum(self._tokens[child["id"]] for child in children)
        failed = sum(child["state"] in ("failed", "timed_out") for child in children)
        told = f"{ended} of {len(children)}" + (f", {failed} failed" if failed else "")
        yield TreeLine(trunk, None, below, tokens, cost, told, title)
        if not folded:
            yield from self._siblings(children, trunk, folding)

    def _siblings(
        self, children: list[Row], trunk: tuple[bool, ...], folding: _Folding, *, more: bool = False
    ) -> Iterator[TreeLine]:
        """Yield the lines of siblings; `more` lines of their parent follow."""
        shown, folded = self._choose(children, folding)
        last = len(shown) + len(folded) - 1 + more
        for number, summary in enumerate(folded):
            yield TreeLine((*trunk, number < last), summary=summary)
        for number, child in enumerate(shown, len(folded)):
            yield from self._branch(child, (*trunk, number < last), folding)

    def _choose(self, children: list[Row], folding: _Folding) -> tuple[list[Row], list[str]]:
        """Choose the children with their own lines, and lines that summarize the others."""
        folded = []
        for wanted, names in (
            (folding.ended_siblings, TERMINAL_STATES),
            (folding.queued_siblings, frozenset({"queued"})),
        ):
            some = [child for child in children if child["state"] in names]
            if wanted and len(some) > 1:
                folded.append(self._summarise(some))
                children = [child for child in children if child["state"] not in names]
        if folding.most_siblings is not None and len(children) > folding.most_siblings + 1:
            folded.append(self._summarise(children[folding.most_siblings :]))
            children = children[: folding.most_siblings]
        return children, folded

    def _summarise(self, agents: Sequence[Row]) -> str:
        states = Counter(agent["state"] for agent in agents)
        below = sum(self._below[agent["id"]] for agent in agents)
        text = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        return f"{text} (and {below} below)" if below else text
