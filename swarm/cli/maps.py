"""`swarm maps`: list, show and cancel maps."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from swarm.capabilities.mapping.maps import MapView
from swarm.cli.lookup import open_swarm
from swarm.cli.map_output import describe_result
from swarm.cli.map_progress import describe_failure, describe_now
from swarm.cli.options import JsonOption
from swarm.cli.output import one_line, print_json, print_json_text, print_line, print_note, show_number, show_since
from swarm.cli.tables import Column, Listing

group = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)
MapArgument = Annotated[str, typer.Argument(metavar="MAP", help="Id, as `swarm maps list` shows it.")]


@group.callback()
def maps() -> None:
    """List, show and cancel maps; `swarm map` starts and continues them."""


@group.command("list")
def list_maps(
    count: Annotated[int, typer.Option(min=1, max=1_000, help="Number of maps, newest first.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List the newest maps."""
    with open_swarm() as swarm:
        found = swarm.maps(count)
    _MAPS.show(found, as_json=as_json)


@group.command("show")
def show_map(
    map_id: MapArgument,
    results: Annotated[bool, typer.Option("--results", help="Print the results so far, as JSON lines.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Print the lines that failed, as JSON lines.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a map's progress, or print its results or failures."""
    with open_swarm() as swarm:
        found = swarm.find_map(map_id)
        view = found.view()
        failures = found.failures() if view.failed else []
        if results or failed:
            for each in failures if failed else found.results_so_far():
                print_json_text(json.dumps(describe_result(map_id, each), ensure_ascii=False))
            return
    if as_json:
        print_json(view.model_dump(mode="json"))
        return
    print_line(f"{view.id}  {view.state}  {one_line(view.title, 100)}")
    print_line(f"{_lines(view)}; {view.waiting} waiting, {describe_now(view)}; {view.max_running} at once")
    for failure in failures:
        print_line(f"  {describe_failure(failure)}")
    if not view.ended or view.failed:
        print_note(f"continue it: swarm map --resume {view.id}{' --retry-failed' if view.ended else ''}")


@group.command("cancel")
def cancel_map(map_id: MapArgument) -> None:
    """Cancel a map and its running lines; no more are started, and results stay."""
    with open_swarm() as swarm:
        found = swarm.find_map(map_id)
        found.cancel()
        view = found.view()
    print_note(f"{map_id}: {view.state}, {_lines(view)}")


def _lines(view: MapView) -> str:
    return f"{view.completed} of {show_number(view.total, 'line')}"


_MAPS = Listing[MapView](
    Column("map", lambda view: view.id),
    Column("state", lambda view: view.state),
    Column("lines", _lines),
    Column("made", lambda view: show_since(view.created_at), drop=1),
    Column("what", lambda view: one_line(view.title, 60), flexible=True),
    otherwise="there are no maps; `swarm map 'Review {path}' --over COMMAND` makes one",
)
