"""One map as whoever made it has it: to read results from, wait for, retry, and cancel.

A map is durable: lines are begun and noted by Redis and the workers, whether this program lives or not. Its id is all that it takes to
go on reading it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm.agent.spec import AgentSpec
from swarm.capabilities.mapping.lines import Line, fill_all
from swarm.capabilities.mapping.maps import Attempt, End, LineResult, MapLine, Maps, MapView
from swarm.capabilities.memory.files import take_in
from swarm.capabilities.memory.pages import Memories
from swarm.client.orders import PreparedJob, check_prompt, wanted_of
from swarm.client.work import keep_folder
from swarm.core.errors import ConfigurationError, JobLost, UnknownMap
from swarm.core.ids import line_job_id, new_map_id, root_agent_id
from swarm.core.plain import clean
from swarm.core.records import NANO
from swarm.mailbox import USER
from swarm.permissions.ceiling import UNLIMITED, Wanted
from swarm.store.connection import explained
from swarm.store.durable import Disk
from swarm.store.fields import agent_fields, job_fields
from swarm.store.outage import Outage, follow
from swarm.store.prefixes import digest_of
from swarm.workspace.checkouts import place_checkout
from swarm.workspace.sending import send_folder

if TYPE_CHECKING:
    from swarm.client.swarm import Swarm

DEFAULT_AT_ONCE = 20
"""Lines at work at once: a map is one of those who share the fleet."""
MOST_PATIENT = 10_000
"""The same of lines that wait for a batch, which take nothing from others meanwhile."""
PATIENT_AGENT = "answer"
MAX_RETRIES = 10
_OWN = {"agent_id", "job_id", "prompt", "description"}
_OWN_FILES = {"workspace", "base"}
_LABEL_LENGTH = 80


class Map:
    """A handle on one map."""

    def __init__(self, swarm: Swarm, map_id: str, *, warnings: Sequence[str] = ()) -> None:
        self._swarm, self.id = swarm, map_id
        self._maps = Maps(swarm.store)
        self._outage = Outage(swarm.tell, who=map_id)
        self.warnings = list(warnings)
        """What the settings files held that could not be used, when it was made."""

    def __repr__(self) -> str:
        return f"Map({self.id!r})"

    def view(self) -> MapView:
        """The map as it stands now. Raises `UnknownMap`."""
        return self._maps.view(self.id)

    def results(self, *, after: str = "0") -> Iterator[LineResult]:
        """What came of each line, as it comes, up to the map's end; from a place on, or from the beginning.

        A line that failed and was tried again by `retry` comes again; one that was done comes once. A Redis that is away is waited for.
        """
        return (found for found in self.follow(after=after) if found is not None)

    def follow(self, *, after: str = "0", idle_seconds: float = 1.0) -> Iterator[LineResult | None]:
        """As `results`, with None whenever nothing has come for so long. Raises `JobLost` if Redis comes back without the map."""

        def ask() -> tuple[str, list[LineResult], bool]:
            found = self._swarm.store.wait_entries(f"map:{self.id}", "results", after, idle_seconds)
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
        """The results that some entries of the map's stream tell, and whether no more will come. Raises `JobLost`."""
        try:
            read = self._maps.interpret(self.id, found)
            # An end may be that of an earlier time, and whoever asks for what comes after the last one is told at once.
            over = (not read or isinstance(read[-1], End)) and self.view().ended
        except UnknownMap as error:
            raise JobLost(self.id) from error
        return [each for each in read if isinstance(each, LineResult)], over

    def results_so_far(self) -> Iterator[LineResult]:
        """The results that are there now."""
        after = "0"
        while found := self._maps.read(self.id, after, 0):
            after = found[-1].position
            yield from (each for each in found if isinstance(each, LineResult))

    def wait(self) -> MapView:
        """Wait for its end; the map as it then is."""
        for _ in self.follow():
            pass
        return self.view()

    def failures(self) -> list[LineResult]:
        """The lines that failed for good, by number, with why."""
        failed = set(self._maps.failed(self.id))
        last = {each.line: each for each in self.results_so_far() if each.line in failed}
        return [last[number] for number in sorted(last)]

    def go_on(self, *, max_running: int | None = None, budget_usd: float | None = None) -> None:
        """Have it go on within other bounds; with more money also after it has stopped.

        Raises `ConfigurationError` for what never began.
        """
        for signals in self._maps.go_on(self.id, max_running=max_running, budget_usd=budget_usd):
            self._swarm.publish(signals)

    def retry(self) -> int:
        """Try all lines again that failed; how many those are. Raises `BeyondCeiling` where the caller could not have made the map."""
        spec = self._maps.template(self.id)
        folder = Path(self.view().workspace)
        self._hold(spec, folder)
        found = self.failures()
        attempts = {
            each.line: _attempt(self._swarm, spec, folder, self.id, each.line, each.attempts + 1) for each in found
        }
        for signals in self._maps.retry(self.id, attempts):
            self._swarm.publish(signals)
        return len(found)

    def _hold(self, template: dict[str, Any], folder: Path) -> None:
        ceiling = self._swarm.ceiling
        if ceiling != UNLIMITED:
            unsaid = {**dict.fromkeys(_OWN, ""), "workspace": str(folder)}
            spec = AgentSpec.model_validate({**unsaid, **template})
            ceiling.hold(wanted_of(spec, str(folder), self._maps.rules(self.id)))
            ceiling.hold(Wanted(budget_usd=self.view().budget_usd or math.inf))

    def cancel(self, reason: str = "its map was cancelled by a person", *, by: str = USER) -> None:
        """Begin no further lines, and cancel those that run; results that are there stay. `by` says who did."""
        for root in self._maps.cancel(self.id):
            self._swarm.cancel(root, reason, by=by)


def place_map(
    swarm: Swarm,
    prepared: PreparedJob,
    lines: Sequence[Line],
    prompts: Sequence[str],
    *,
    title: str,
    max_running: int | None,
    retries: int,
    budget_usd: float | None,
) -> Map:
    """Make a map whose every line has its prompt and else is as `prepared`; durable when this returns.

    Raises `ConfigurationError`, `RedisUnavailable`, and `GitFailed` where files cannot be sent to the hub.
    """
    if max_running is None:
        max_running = MOST_PATIENT if prepared.spec.patient else DEFAULT_AT_ONCE
    check_bounds(max_running, retries, budget_usd)
    map_id, spec = new_map_id(), clean(prepared.spec)
    template = _template(spec)
    record = {
        **job_fields(
            spec,
            retention_seconds=swarm.settings.retention_seconds,
            rules=prepared.permissions.rules.model_dump_json(),
            ask_seconds=prepared.ask_seconds,
            weight=prepared.priority,
            folder=str(prepared.folder),
            memory=prepared.places.model_dump_json() if prepared.places is not None else "",
        )
    }
    agent = {name: value for name, value in agent_fields(spec).items() if name not in ("spec", "label")}
    about = {
        "title": title[:200],
        "workspace": str(prepared.folder),
        "max_running": max_running,
        "budget": "" if budget_usd is None else round(budget_usd * NANO),
        "retention": int(swarm.settings.retention_seconds),
        "seconds": "" if spec.limits.timeout_seconds is None else spec.limits.timeout_seconds,
        "job": json.dumps(record),
        "agent": json.dumps(agent),
        "spec": json.dumps(template)[:-1],
    }
    if spec.base_url is not None:
        about["rehearsed"] = 1
    if spec.patient:
        about["patient"] = 1
    catalogue, carried = prepared.catalogue.model_dump_json(), prepared.documents
    about |= {
        "definitions": digest_of(catalogue),
        "carried": json.dumps({name: digest_of(text) for name, text in carried.items()}) if carried else "",
    }
    documents = {digest_of(text): text for text in (catalogue, *carried.values())} | prepared.skills.packages
    with explained(swarm.store.client):
        memories = Memories(swarm.store)
        found = [problem for folder in prepared.memory_folders for problem in take_in(memories, folder)[1]]
        kept = [
            MapLine(
                line,
                _label(line),
                json.dumps({"prompt": prompt, "description": _label(line)})[1:-1],
                [_attempt(swarm, template, prepared.folder, map_id, number, tried) for tried in range(1, retries + 2)],
            )
            for number, (line, prompt) in enumerate(zip(lines, prompts, strict=True), 1)
        ]
        maps = Maps(swarm.store)
        maps.make(map_id, about, kept, documents)
        for signals in maps.start(map_id):
            swarm.publish(signals)
        if swarm.settings.durability == "all":
            Disk(swarm.store.client, swarm.store.key("synced"), "all").wait()
    return Map(swarm, map_id, warnings=[*prepared.warnings, *map(str, found)])


def fill_prompts(template: str, lines: Sequence[Line]) -> list[str]:
    """The prompt of each line. Raises `ConfigurationError` for what cannot be one, with the line's number."""
    prompts = list(fill_all(template, lines))
    for number, prompt in enumerate(prompts, 1):
        try:
            check_prompt(prompt)
        except ConfigurationError as error:
            raise ConfigurationError(f"line {number}: {error}") from None
    return prompts


def check_bounds(max_running: int, retries: int, budget_usd: float | None) -> None:
    """Raise `ConfigurationError` for bounds that no map can have."""
    if not 1 <= max_running <= 100_000:
        raise ConfigurationError(f"{max_running} lines at once cannot be; use 1 to 100,000")
    if not 0 <= retries <= MAX_RETRIES:
        raise ConfigurationError(f"{retries} retries cannot be; use 0 to {MAX_RETRIES}")
    if budget_usd is not None and budget_usd <= 0:
        raise ConfigurationError("a budget must be more than nothing")


def _template(spec: AgentSpec) -> dict[str, Any]:
    own = _OWN | (_OWN_FILES if spec.isolation != "none" or spec.is_carried else set())
    return spec.model_dump(mode="json", exclude=own)


def _attempt(swarm: Swarm, template: dict[str, Any], folder: Path, map_id: str, number: int, tried: int) -> Attempt:
    """The job of an attempt; where each job has files of its own, with the commit that they begin as."""
    job_id = line_job_id(map_id, number, tried)
    root_id = root_agent_id(job_id)
    if "workspace" in template:
        return Attempt(job_id, root_id)
    hub = (template["files"] or {}).get("hub")
    if hub:
        base = send_folder(swarm.settings, folder, hub, job_id, root_id).commit
    else:
        base = keep_folder(swarm.settings, folder, job_id)
    workspace = str(place_checkout(swarm.settings.checkouts_folder(), root_id, folder.name))
    return Attempt(job_id, root_id, "," + json.dumps({"workspace": workspace, "base": base})[1:-1])


def _label(line: Line) -> str:
    text = line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
    return str(clean(" ".join(text.split())))[:_LABEL_LENGTH]
