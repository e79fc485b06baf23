"""Maps in Redis.

Guarantees:

- The step that makes room for a line begins its job, so a map continues without a watcher as long as there are workers.
- The step that ends a line's job writes its result, once.
- Every reader gets the results in the same, stable order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from swarm.core.errors import ConfigurationError, UnknownMap
from swarm.core.records import EndState
from swarm.core.usage import NANO, Counters, dollars_known
from swarm.store.keyspace import Keyspace
from swarm.store.streams import StreamStore
from swarm.store.values import Signals

MapState = Literal["gathering", "running", "completed", "stopped", "cancelled"]
_AT_ONCE = 200
_NUMBERS = ("total", "completed", "failed", "retried", "max_running", "tokens")


class Attempt(NamedTuple):
    """A job for a line."""

    job_id: str
    root_id: str
    own: str = "{}"
    """The attempt's own parts of its root's spec: a JSON object."""


class MapLine(NamedTuple):
    """A line as Redis keeps it."""

    input: Any
    label: str
    own: str
    """The line's own parts of the spec: a JSON object."""
    attempts: Sequence[Attempt]

    def document(self) -> str:
        """The line as JSON."""
        given = {"input": json.dumps(self.input), "label": self.label, "own": self.own}
        return json.dumps({**given, "attempts": [list(each) for each in self.attempts]})


class MapView(BaseModel, frozen=True):
    """The current state of one map. Times are Unix seconds by the server's clock."""

    id: str
    title: str
    state: MapState
    """`gathering`: lines are still being sent; `stopped`: the budget is spent; `completed`: no line is left, some may have failed."""
    total: int = 0
    """Number of lines."""
    waiting: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    max_running: int
    budget_usd: float | None = None
    tokens: int = 0
    cost_usd: float | None = 0.0
    """Cost of the ended jobs, as far as prices are known; None if none is. Zero for a rehearsal."""
    unpriced_tokens: int = 0
    """Tokens of models without a known price, whose cost is missing."""
    workspace: str = ""
    batch: bool = False
    created_at: float
    ended_at: float | None = None

    @property
    def ended(self) -> bool:
        """Whether no job of the map runs or will run."""
        return self.ended_at is not None


class LineResult(BaseModel, frozen=True):
    """The result of one line."""

    line: int
    """The line's number, from 1."""
    input: Any
    state: EndState
    text: str = ""
    data: Any = None
    """The answer as data, if a schema was given."""
    reason: str = ""
    job_id: str
    """The job of the last attempt."""
    attempts: int = 1
    tokens: int = 0
    cost_usd: float | None = 0.0
    """As far as prices are known; None if none is."""
    seconds: float = 0.0
    position: str = ""
    """Position among the map's results: pass it to `results(after=…)` to continue from here."""

    @property
    def ok(self) -> bool:
        """Whether the line succeeded."""
        return self.state == "completed"


class MapEnd(NamedTuple):
    """The end of a map; a retry can continue it."""

    position: str
    state: MapState


class Maps:
    """The maps of one swarm."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def make(
        self, map_id: str, record: Mapping[str, Any], lines: Sequence[MapLine], documents: Mapping[str, str]
    ) -> None:
        """Make a map with these lines without starting it; a repeated call changes nothing.

        `documents` travel with its jobs, by their digests.
        """
        given = (map_id, json.dumps(record))
        if self._keyspace.run("make_map", *given, json.dumps([[digest, ""] for digest in documents])) == "document":
            self._keyspace.run("make_map", *given, json.dumps(list(documents.items())))
        for first in range(0, len(lines), _AT_ONCE):
            numbered = enumerate(lines[first : first + _AT_ONCE], first + 1)
            self._keyspace.run("add_lines", map_id, *(part for n, line in numbered for part in (n, line.document())))

    def start(self, map_id: str) -> Iterator[Signals]:
        """Begin as many lines as may run, a few per step; the caller handles each step's signals. Raises `UnknownMap`."""
        signals, begun = self._begun(map_id, self._keyspace.run("start_map", map_id))
        yield signals
        yield from self.go_on(map_id) if begun else ()

    def go_on(
        self, map_id: str, *, max_running: int | None = None, budget_usd: float | None = None
    ) -> Iterator[Signals]:
        """Continue the map, within other bounds if given. Raises `UnknownMap`."""
        most: int | str = "" if max_running is None else max_running
        budget: int | str = "" if budget_usd is None else round(budget_usd * NANO)
        begun = 1
        while begun:
            signals, begun = self._begun(map_id, self._keyspace.run("go_on_map", map_id, most, budget))
            yield signals

    def retry(self, map_id: str, attempts: Mapping[int, Attempt]) -> Iterator[Signals]:
        """Retry failed lines. Raises `UnknownMap`."""
        given = list(attempts.items())
        for first in range(0, len(given), _AT_ONCE):
            page = given[first : first + _AT_ONCE]
            parts = [part for number, attempt in page for part in (number, json.dumps(list(attempt)))]
            yield self._begun(map_id, self._keyspace.run("retry_lines", map_id, *parts))[0]
        yield from self.go_on(map_id)

    def cancel(self, map_id: str) -> list[str]:
        """Begin no further lines; returns the roots of the jobs that still run. Raises `UnknownMap`."""
        answer = self._keyspace.run("cancel_map", map_id)
        if answer[0] == "unknown":
            raise UnknownMap(map_id)
        return list(answer[1])

    def view(self, map_id: str) -> MapView:
        """Return the map's current state. Raises `UnknownMap`."""
        keyspace, key = self._keyspace, self._keyspace.key("map", map_id)
        pipeline = keyspace.client.pipeline(transaction=True)
        pipeline.hgetall(key)
        pipeline.llen(f"{key}:waiting")
        pipeline.zcard(f"{key}:running")
        fields, waiting, running = pipeline.execute()
        if not fields:
            raise UnknownMap(map_id)
        numbers = {name: int(fields[name]) for name in _NUMBERS if fields.get(name)}
        spent = Counters(cost=int(fields.get("cost") or 0), unpriced=int(fields.get("unpriced") or 0))
        return MapView(
            **numbers,
            id=map_id,
            title=fields["title"],
            state=fields["state"],
            waiting=waiting + max(0, numbers.get("total", 0) + 1 - int(fields.get("fresh", 1))),
            running=running,
            budget_usd=int(fields["budget"]) / NANO if fields.get("budget") else None,
            cost_usd=dollars_known(spent, rehearsed=bool(fields.get("rehearsed"))),
            unpriced_tokens=spent.unpriced,
            workspace=fields["workspace"],
            batch=bool(fields.get("batch")),
            created_at=float(fields["created"]),
            ended_at=float(fields["ended"]) if fields["ended"] else None,
        )

    def all(self, count: int = 50) -> list[MapView]:
        """The newest maps, newest first."""
        found = []
        for map_id in self._keyspace.client.zrevrange(self._keyspace.key("maps"), 0, count - 1):
            # The next sweep removes expired ones from the list.
            with suppress(UnknownMap):
                found.append(self.view(map_id))
        return found

    def failed(self, map_id: str) -> list[int]:
        """The numbers of the lines that failed for good."""
        return [
            int(number) for number in self._keyspace.client.zrange(self._keyspace.key("map", map_id, "failed"), 0, -1)
        ]

    def template(self, map_id: str) -> dict[str, Any]:
        """The common part of its lines' specs. Raises `UnknownMap`."""
        text = self._keyspace.client.hget(self._keyspace.key("map", map_id), "spec")
        if text is None:
            raise UnknownMap(map_id)
        return dict(json.loads(text))

    def rules(self, map_id: str) -> str:
        """The rules for its jobs, as JSON; empty for none."""
        job = self._keyspace.client.hget(self._keyspace.key("map", map_id), "job")
        return str(json.loads(job or "{}").get("rules", ""))

    def read(self, map_id: str, after: str, seconds: float) -> list[LineResult | MapEnd]:
        """Return the first results after a position; if there are none, wait for so many seconds.

        A retried line has several results.
        """
        return self.interpret(map_id, StreamStore(self._keyspace).wait(("map", map_id, "results"), after, seconds))

    def interpret(self, map_id: str, found: Sequence[tuple[str, dict[str, str]]]) -> list[LineResult | MapEnd]:
        """Parse entries of the stream of results."""
        numbers = [fields["line"] for _, fields in found if fields["kind"] == "line"]
        key = self._keyspace.key("map", map_id)
        documents = self._keyspace.client.hmget(f"{key}:lines", numbers) if numbers else []
        rehearsed = bool(self._keyspace.client.hget(key, "rehearsed"))
        inputs = dict(zip(numbers, documents, strict=True))
        return [
            MapEnd(position, fields["state"])  # type: ignore[arg-type]
            if fields["kind"] == "end"
            else _read_result(position, fields, inputs[fields["line"]], rehearsed)
            for position, fields in found
        ]

    def _begun(self, map_id: str, answer: list[Any]) -> tuple[Signals, int]:
        match answer[0]:
            case "ok":
                return Signals(publish=answer[1]), int(answer[2])
            case "gathering":
                raise ConfigurationError(f"{map_id} was never started, because its maker stopped first; make a new map")
            case "cancelled":
                raise ConfigurationError(f"{map_id} was cancelled; make a new map with the remaining lines")
        raise UnknownMap(map_id)


def _read_result(position: str, fields: Mapping[str, str], document: str | None, rehearsed: bool) -> LineResult:
    return LineResult(
        line=int(fields["line"]),
        input=json.loads(json.loads(document)["input"]) if document else None,
        state=fields["state"],
        text=fields["text"],
        data=json.loads(fields["data"]) if fields["data"] else None,
        reason=fields["reason"],
        job_id=fields["job"],
        attempts=int(fields["tried"]),
        tokens=int(fields["tokens"]),
        cost_usd=dollars_known(
            Counters(cost=int(fields["cost"]), unpriced=int(fields.get("unpriced") or 0)), rehearsed=rehearsed
        ),
        seconds=float(fields["seconds"]),
        position=position,
    )
