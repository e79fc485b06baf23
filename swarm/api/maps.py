"""Endpoints about maps: the same order for each line of a list."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic import BaseModel, Field, create_model

from swarm.api.endpoint import Body, Call, Endpoint, Wait
from swarm.api.jobs import IN_FOLDER, Reason
from swarm.capabilities.mapping.maps import LineResult, MapView
from swarm.client.maps import Map
from swarm.client.order import REMOTE_LEAVES_OUT, MapOrder, options_of

_LOOK_SECONDS = 2.0
"""Less than the store's connection lets pass in silence."""


NewMap = create_model(
    "NewMap",
    __base__=Body,
    __doc__="A map to start: a job for each line.",
    lines=(list[str | dict[str, Any]], ...),
    **(options_of(MapOrder, {*REMOTE_LEAVES_OUT, "over"}) | IN_FOLDER),
)


class StartedMap(BaseModel):
    """A map that was started."""

    map: MapView
    warnings: list[str]
    """What settings files held that could not be used."""


class MapsQuery(Body):
    """Which maps are listed."""

    count: int = Field(default=50, ge=1, le=1000)
    """The newest."""


class ListedMaps(BaseModel):
    """Maps, newest first."""

    maps: list[MapView]


class ResultsQuery(Wait):
    """Which results are returned; with `wait` some are waited for if there are none yet."""

    after: str = Field(default="0", pattern=r"^\d+(-\d+)?$")
    """The `next` of the part before."""


class Results(BaseModel):
    """What came of some lines, in the order in which it came; one that was tried again comes again."""

    results: list[LineResult]
    next: str
    """Give it as `after` to go on from here."""
    over: bool
    """No more will come, unless the map goes on."""


class Failures(BaseModel):
    """The lines that failed for good, by number, with why."""

    failures: list[LineResult]


def start_map(call: Call) -> StartedMap:
    """Start a map: a job for each line. Whoever sends it twice starts two."""
    given = call.body.model_dump(exclude_unset=True)
    started = call.swarm.map(over=given.pop("lines"), **given)
    return StartedMap(map=started.view(), warnings=started.warnings)


def list_maps(call: Call) -> ListedMaps:
    """The newest maps."""
    return ListedMaps(maps=call.swarm.maps(call.query.count))


def get_map(call: Call) -> MapView:
    """One map as it stands now."""
    return _map(call).view()


def get_results(call: Call) -> Results:
    """What came of the lines, part by part."""
    its_map, query = _map(call), call.query
    read = partial(call.swarm.store.streams.wait, ("map", its_map.id, "results"), query.after)
    waited, found = 0.0, read(0)
    while not found and waited < query.wait and not its_map.view().ended:
        found = read(min(_LOOK_SECONDS, query.wait - waited))
        waited += _LOOK_SECONDS
    results, over = its_map.interpret(found)
    return Results(results=results, next=found[-1][0] if found else query.after, over=over)


def get_failures(call: Call) -> Failures:
    """The lines that failed for good."""
    return Failures(failures=_map(call).failures())


def retry_map(call: Call) -> MapView:
    """Try all lines again that failed."""
    found = _map(call)
    found.retry()
    return found.view()


def cancel_map(call: Call) -> MapView:
    """Begin no further lines, and cancel those that run; results that are there stay."""
    found = _map(call)
    found.cancel(call.body.reason, by=call.key.name)
    return found.view()


def _map(call: Call) -> Map:
    return call.swarm.find_map(call.path["map"])


MAP_ENDPOINTS = [
    Endpoint("POST", "/v1/maps", "submit", start_map, StartedMap, body=NewMap, status=201),
    Endpoint("GET", "/v1/maps", "read", list_maps, ListedMaps, query=MapsQuery),
    Endpoint("GET", "/v1/maps/{map}", "read", get_map, MapView),
    Endpoint("GET", "/v1/maps/{map}/results", "read", get_results, Results, query=ResultsQuery),
    Endpoint("GET", "/v1/maps/{map}/failures", "read", get_failures, Failures),
    Endpoint("POST", "/v1/maps/{map}/retry", "submit", retry_map, MapView),
    Endpoint("POST", "/v1/maps/{map}/cancel", "cancel", cancel_map, MapView, body=Reason),
]
