"""Operations on maps: the same order for each line of a list."""

from __future__ import annotations

from functools import partial

from pydantic import BaseModel, Field

from swarm.capabilities.mapping.maps import LineResult, MapView
from swarm.client.acts import Reason, reason_of
from swarm.client.operations import Body, Invocation, OfMap, Operation, Wait
from swarm.client.reads import CURSOR, await_new


class StartedMap(BaseModel):
    """A map that was started."""

    map: MapView
    warnings: list[str]
    """What settings files held that could not be used."""


class EndMap(OfMap, Reason):
    """A map to cancel."""


class ListMaps(Body):
    """Which maps are listed."""

    count: int = Field(default=50, ge=1, le=1000)
    """The newest."""


class ListedMaps(BaseModel):
    """Maps, newest first."""

    maps: list[MapView]


class ResultsAfter(OfMap, Wait):
    """A map, and how far its results are known."""

    after: str = Field(default="0", pattern=CURSOR)
    """The `next` of the part before."""


class LineResults(BaseModel):
    """Results of lines, in the order in which they came; one that was tried again comes again."""

    results: list[LineResult]
    next: str
    """Give it as `after` to go on from here."""
    over: bool
    """No more will come, unless the map goes on."""


class FailedLines(BaseModel):
    """The lines that failed for good, by number, with why."""

    failures: list[LineResult]


def start_map(call: Invocation) -> StartedMap:
    """Start a map: a job for each line. An order that is sent twice starts two."""
    given = {name: value for name, value in call.given if value is not None}
    started = call.swarm.map(given.pop("prompt"), given.pop("lines"), **given)
    return StartedMap(map=started.view(), warnings=started.warnings)


def list_maps(call: Invocation) -> ListedMaps:
    """The newest maps."""
    return ListedMaps(maps=call.swarm.maps(call.given.count))


def get_map(call: Invocation) -> MapView:
    """One map as it stands now."""
    return call.swarm.find_map(call.given.map).view()


def get_results(call: Invocation) -> LineResults:
    """Results of a map's lines, part by part; with wait_seconds they are waited for if there are none yet."""
    given, its_map = call.given, call.swarm.find_map(call.given.map)
    read = partial(call.swarm.store.wait_entries, f"map:{its_map.id}", "results", given.after)
    found, _ = await_new(read, given.wait_seconds, lambda: its_map.view().ended)
    results, over = its_map.interpret(found)
    return LineResults(results=results, next=found[-1][0] if found else given.after, over=over)


def get_failures(call: Invocation) -> FailedLines:
    """The lines of a map that failed for good."""
    return FailedLines(failures=call.swarm.find_map(call.given.map).failures())


def retry_map(call: Invocation) -> MapView:
    """Try all lines again that failed."""
    found = call.swarm.find_map(call.given.map)
    found.retry()
    return found.view()


def cancel_map(call: Invocation) -> MapView:
    """Begin no further lines, and cancel those that run; results that are there stay."""
    found = call.swarm.find_map(call.given.map)
    found.cancel(reason_of(call), by=call.by)
    return found.view()


MAP_OPERATIONS = (
    Operation("GET", "/maps", "read", list_maps, ListMaps, ListedMaps),
    Operation("GET", "/maps/{map}", "read", get_map, OfMap, MapView),
    Operation("GET", "/maps/{map}/results", "read", get_results, ResultsAfter, LineResults),
    Operation("GET", "/maps/{map}/failures", "read", get_failures, OfMap, FailedLines),
    Operation("POST", "/maps/{map}/retry", "submit", retry_map, OfMap, MapView),
    Operation("POST", "/maps/{map}/cancel", "cancel", cancel_map, EndMap, MapView),
)
"""All but the start."""
