"""Fitting a tree of agents into so many lines: what is over is folded first, what runs last. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from swarm.core.records import TERMINAL_STATES, AgentView


@dataclass(frozen=True)
class Row:
    """One line: an agent, or the sum of several that are not shown one by one."""

    trunk: tuple[bool, ...]
    """For each level above, the row's own last: whether more siblings follow."""
    agent: AgentView | None = None
    below: int = 0
    """Agents below `agent` that are folded into its line."""
    summary: str = ""


@dataclass(frozen=True)
class _Folding:
    ended_branches: bool = False
    """What is below an agent that is over shares its line."""
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


def fold_tree(agents: Sequence[AgentView], room: int | None = None) -> list[Row]:
    """The tree as at most `room` lines, as little folded as that allows; parents come before their children."""
    tree = _Tree(agents)
    rows: list[Row] = []
    for folding in _FOLDINGS:
        rows = list(tree.rows(folding))
        if room is None or len(rows) <= room:
            return rows
    assert room is not None
    kept = rows[: max(1, room - 1)]
    shown = sum(1 + row.below for row in kept if row.agent is not None)
    return [*kept, Row((), summary=f"and {len(agents) - shown} more")][: max(1, room)]


class _Tree:
    def __init__(self, agents: Sequence[AgentView]) -> None:
        ids = {agent.id for agent in agents}
        self._children: dict[str | None, list[AgentView]] = defaultdict(list)
        self._below: Counter[str] = Counter()
        for agent in agents:
            self._children[agent.parent_id if agent.parent_id in ids else None].append(agent)
        for agent in reversed(agents):  # children are younger than their parents
            if agent.parent_id is not None:
                self._below[agent.parent_id] += 1 + self._below[agent.id]

    def rows(self, folding: _Folding) -> Iterator[Row]:
        for root in self._children[None]:
            yield from self._branch(root, (), folding)

    def _branch(self, agent: AgentView, trunk: tuple[bool, ...], folding: _Folding) -> Iterator[Row]:
        if folding.ended_branches and agent.ended and trunk:
            yield Row(trunk, agent, below=self._below[agent.id])
            return
        yield Row(trunk, agent)
        shown, folded = self._choose(self._children[agent.id], folding)
        last = len(shown) + len(folded) - 1
        for number, summary in enumerate(folded):
            yield Row((*trunk, number < last), summary=summary)
        for number, child in enumerate(shown, len(folded)):
            yield from self._branch(child, (*trunk, number < last), folding)

    def _choose(self, children: list[AgentView], folding: _Folding) -> tuple[list[AgentView], list[str]]:
        """The children that get lines of their own, and lines that stand for the others."""
        folded = []
        for wanted, names in (
            (folding.ended_siblings, TERMINAL_STATES),
            (folding.queued_siblings, frozenset({"queued"})),
        ):
            some = [child for child in children if child.state in names]
            if wanted and len(some) > 1:
                folded.append(self._summarise(some))
                children = [child for child in children if child.state not in names]
        if folding.most_siblings is not None and len(children) > folding.most_siblings + 1:
            folded.append(self._summarise(children[folding.most_siblings :]))
            children = children[: folding.most_siblings]
        return children, folded

    def _summarise(self, agents: Sequence[AgentView]) -> str:
        states = Counter(agent.state for agent in agents)
        below = sum(self._below[agent.id] for agent in agents)
        text = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        return f"{text} (and {below} below)" if below else text
