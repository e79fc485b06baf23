"""A handle on one map: read results, wait, retry and cancel.

A map is durable: Redis and the workers start lines and record results even if this program dies. Its id is enough to continue
reading.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm.agent.spec import AgentSpec
from swarm.capabilities.mapping.maps import Attempt, LineResult, MapEnd, MapLine, Maps, MapView
from swarm.client.order import MapOrder
from swarm.client.preparation import Trust, check_prompt, prepare_order, wanted_of
from swarm.client.prepared import PreparedJob
from swarm.client.submission import has_own_files, keep_files, place_first, wait_for_disk
from swarm.core.errors import ConfigurationError, JobLost, UnknownMap
from swarm.core.ids import line_job_id, new_map_id, root_agent_id
from swarm.core.lines import Line, check_lines, fill_all
from swarm.core.plain import clean
from swarm.core.settings import Settings
from swarm.core.usage import NANO
from swarm.mailbox import USER
from swarm.permissions.ceiling import UNLIMITED, Ceiling, Privileges
from swarm.store.fields import agent_fields, job_fields
from swarm.store.outage import follow
from swarm.store.prefixes import digest_of
from swarm.workspace.checkouts import place_checkout

if TYPE_CHECKING:
    from swarm.client.swarm import Swarm

DEFAULT_AT_ONCE = 20
"""Lines at work at once; a map shares the fleet with other jobs."""
MOST_BATCH = 10_000
"""Lines that wait for a batch at once; they take nothing from others meanwhile."""
_OWN = {"agent_id", "job_id", "prompt", "description"}
_OWN_FILES = {"workspace", "base"}
_LABEL_LENGTH = 80


class Map:
    """A handle on one map."""

    def __init__(self, swarm: Swarm, map_id: str, *, warnings: Sequence[str] = ()) -> None:
        self._swarm, self.id = swarm, map_id
        self._maps = Maps(swarm.store.keyspace)
        self._outage = swarm.store.outage(swarm.tell, map_id)
        self.warnings = list(warnings)
        """Entries of settings files that could not be used at submission."""

    def __repr__(self) -> str:
        return f"Map({self.id!r})"

    def view(self) -> MapView:
        """The map's current state. Raises `UnknownMap`."""
        return self._maps.view(self.id)

    def results(self, *, after: str = "0") -> Iterator[LineResult]:
        """Yield the result of each line up to the map's end, from a cursor or from the beginning.

        A failed line that `retry` tries again is yielded again; a completed line is yielded once. The call waits for an unavailable Redis.
        """
        return (found for found in self.follow(after=after) if found is not None)

    def follow(self, *, after: str = "0", idle_seconds: float = 1.0) -> Iterator[LineResult | None]:
        """Follow like `results`, with None after each idle interval. Raises `JobLost` if Redis comes back without the map."""

        def ask() -> tuple[str, list[LineResult], bool]:
            found = self._swarm.store.streams.wait(("map", self.id, "results"), after, idle_seconds)
            return (found[-1][0] if found else "", *self.interpret(found))

        for answer in follow(self._outage, ask, min(0.5, idle_seconds)):
            last, results, over = answer or ("", [], False)
            after = last or after
            yield from results
            if over:
                return
            if not last:
                yield None

    def interpret(self, found: Sequence[tuple[str, dict[str, str]]]) -> tuple[list[LineResult], bool]:
        """Decode entries of the map's stream: their results, and whether no more will come. Raises `JobLost`."""
        try:
            read = self._maps.interpret(self.id, found)
            # An end may be an earlier one, and a read after the last one returns at once.
            over = (not read or isinstance(read[-1], MapEnd)) and self.view().ended
        except UnknownMap as error:
            raise JobLost(self.id) from error
        return [each for each in read if isinstance(each, LineResult)], over

    def results_so_far(self) -> Iterator[LineResult]:
        """Yield the results that exist now."""
        after = "0"
        while found := self._maps.read(self.id, after, 0):
            after = found[-1].position
            yield from (each for each in found if isinstance(each, LineResult))

    def wait(self) -> MapView:
        """Wait for the end and return the map."""
        for _ in self.follow():
            pass
        return self.view()

    def failures(self) -> list[LineResult]:
        """The lines that failed for good, by number, with the reason."""
        failed = set(self._maps.failed(self.id))
        last = {each.line: each for each in self.results_so_far() if each.line in failed}
        return [last[number] for number in sorted(last)]

    def go_on(self, *, max_running: int | None = None, budget_usd: float | None = None) -> None:
        """Continue the map within other bounds; with more money also after it has stopped.

        Raises `ConfigurationError` for a map that never began.
        """
        for signals in self._maps.go_on(self.id, max_running=max_running, budget_usd=budget_usd):
            self._swarm.publish(signals)

    def retry(self) -> int:
        """Try all failed lines again; returns their number. Raises `BeyondCeiling` if the caller could not have made the map."""
        folder = Path(self.view().workspace)
        unsaid = {**dict.fromkeys(_OWN, ""), "workspace": str(folder)}
        spec = AgentSpec.model_validate({**unsaid, **self._maps.template(self.id)})
        self._hold(spec, folder)
        settings, found = self._swarm.settings, self.failures()
        attempts = {
            each.line: _attempt(settings, spec, folder, line_job_id(self.id, each.line, each.attempts + 1))
            for each in found
        }
        for signals in self._maps.retry(self.id, attempts):
            self._swarm.publish(signals)
        return len(found)

    def _hold(self, spec: AgentSpec, folder: Path) -> None:
        ceiling = self._swarm.ceiling
        if ceiling != UNLIMITED:
            ceiling.hold(wanted_of(spec, str(folder), self._maps.rules(self.id)))
            ceiling.hold(Privileges(budget_usd=self.view().budget_usd or math.inf))

    def cancel(self, reason: str = "its map was cancelled by a person", *, by: str = USER) -> None:
        """Start no further lines and cancel the running ones. Finished results stay. `by` names the author."""
        for root in self._maps.cancel(self.id):
            self._swarm.cancel(root, reason, by=by)


@dataclass(frozen=True)
class PreparedMap:
    """A map ready to start: each line's job is `job` with the line's own prompt."""

    job: PreparedJob
    lines: list[Line]
    prompts: list[str]
    title: str
    max_running: int
    retries: int
    budget_usd: float | None

    def record(self, settings: Settings) -> dict[str, Any]:
        """The map's record, shared by all its lines."""
        spec = clean(self.job.spec)
        agent = {name: value for name, value in agent_fields(spec).items() if name not in ("spec", "label")}
        record = {
            "title": self.title[:200],
            "workspace": str(self.job.folder),
            "max_running": self.max_running,
            "budget": "" if self.budget_usd is None else round(self.budget_usd * NANO),
            "retention": int(settings.retention_seconds),
            "seconds": "" if spec.limits.timeout_seconds is None else spec.limits.timeout_seconds,
            "job": json.dumps(job_fields(spec, **self.job.terms(settings))),
            "agent": json.dumps(agent),
            "spec": spec.model_dump_json(exclude=_OWN | (_OWN_FILES if has_own_files(spec) else set())),
        }
        flags = {"rehearsed": spec.base_url is not None, "batch": spec.batch}
        return record | {name: 1 for name, holds in flags.items() if holds}


def prepare_map(
    order: MapOrder, settings: Settings, *, ceiling: Ceiling = UNLIMITED, trust: Trust | None = None
) -> PreparedMap:
    """Check a map's order, like `prepare_order` for a job."""
    lines = check_lines(order.over)
    prompts = fill_prompts(order.prompt, lines)
    ceiling.hold(Privileges(budget_usd=order.budget_usd))
    line = order.line(prompts[0])
    if line.ask_seconds is None:
        line = replace(line, ask_seconds=0.0)
    return PreparedMap(
        prepare_order(line, settings, ceiling=ceiling, trust=trust),
        lines,
        prompts,
        title=order.title or order.prompt,
        max_running=order.max_running or (MOST_BATCH if order.batch else DEFAULT_AT_ONCE),
        retries=order.retries,
        budget_usd=ceiling.bound_cost(order.budget_usd),
    )


def place_map(swarm: Swarm, prepared: PreparedMap) -> Map:
    """Start a map; it is durable on return. Raises `RedisUnavailable`, and `GitFailed` if files cannot be sent to the hub."""
    map_id, job, settings = new_map_id(), prepared.job, swarm.settings
    catalogue, carried = job.project.catalogue_text, job.documents
    record = prepared.record(settings) | {
        "definitions": digest_of(catalogue),
        "carried": json.dumps({name: digest_of(text) for name, text in carried.items()}) if carried else "",
    }
    documents = {digest_of(text): text for text in (catalogue, *carried.values())} | job.packages
    with swarm.store.explained():
        problems = place_first(swarm, job)
        attempts = range(1, prepared.retries + 2)
        kept = [
            MapLine(
                line,
                _label(line),
                json.dumps({"prompt": prompt, "description": _label(line)}),
                [_attempt(settings, job.spec, job.folder, line_job_id(map_id, number, tried)) for tried in attempts],
            )
            for number, (line, prompt) in enumerate(zip(prepared.lines, prepared.prompts, strict=True), 1)
        ]
        maps = Maps(swarm.store.keyspace)
        maps.make(map_id, record, kept, documents)
        for signals in maps.start(map_id):
            swarm.publish(signals)
        wait_for_disk(swarm)
    return Map(swarm, map_id, warnings=[*job.warnings, *problems])


def fill_prompts(template: str, lines: Sequence[Line]) -> list[str]:
    """The prompt of each line. Raises `ConfigurationError` with the line's number for an unusable prompt."""
    prompts = list(fill_all(template, lines))
    for number, prompt in enumerate(prompts, 1):
        try:
            check_prompt(prompt)
        except ConfigurationError as error:
            raise ConfigurationError(f"line {number}: {error}") from None
    return prompts


def _attempt(settings: Settings, spec: AgentSpec, folder: Path, job_id: str) -> Attempt:
    """The job of an attempt; a job with its own files also gets their first commit."""
    root_id = root_agent_id(job_id)
    if not has_own_files(spec):
        return Attempt(job_id, root_id)
    base = keep_files(settings, folder, spec.files, job_id).commit
    workspace = str(place_checkout(settings.checkouts_folder(), root_id, folder.name))
    return Attempt(job_id, root_id, json.dumps({"workspace": workspace, "base": base}))


def _label(line: Line) -> str:
    text = line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
    return str(clean(" ".join(text.split())))[:_LABEL_LENGTH]
