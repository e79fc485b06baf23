"""`swarm event`: telling agents that something has happened outside."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from swarm.cli.opening import open_swarm
from swarm.cli.options import JsonOption, parse_duration, read_text
from swarm.cli.output import one_line, print_json, print_line, print_note, show_number, show_time
from swarm.store.happenings import KEEP_SECONDS, MAX_DATA_BYTES


def tell_event(
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="What has happened, as the agents that wait for it know it: deploy/1234."),
    ],
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help="What they are told of it; - reads it from a pipe.")
    ] = None,
    keep: Annotated[
        float | None,
        typer.Option(
            parser=parse_duration,
            metavar="TIME",
            help="How long it is kept for those who wait later.",
            show_default="24h",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tell an event from outside: agents that wait for it (the tool WaitFor) go on.

    The first event of a key stays as long as it is kept. Exit code: 0 told, 1 the key had one already, 2 wrong usage.
    """
    text = "" if data is None else read_text(data, name="DATA", usage="say something", max_bytes=MAX_DATA_BYTES)
    seconds = KEEP_SECONDS if keep is None else keep
    with open_swarm() as swarm:
        told = swarm.event(key, text, keep_seconds=seconds)
    if as_json:
        print_json(told.model_dump(mode="json"))
    elif told.new:
        print_line(
            f"told {key}: {show_number(len(told.woken), 'agent')} waited for it; it is kept for {show_time(seconds)}"
        )
    else:
        came = datetime.fromtimestamp(told.at).strftime("%Y-%m-%d %H:%M:%S")
        print_note(
            f"nothing was changed: {key} came already at {came}, from {one_line(told.by)}, with {one_line(told.data) or 'no data'}"
        )
    if not told.new:
        raise typer.Exit(1)
