"""`swarm cost`: show the fleet's spending, and compare it with the provider's count."""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated

import typer

from swarm.cli.lookup import open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.output import print_json, print_line, print_note, show_cost, show_count
from swarm.cli.tables import Column, Listing
from swarm.client.spending import AGREE, Compared, Part, Spent, day_of, reconcile, sum_jobs, sum_ledger, total
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.models.usage_report import ADMIN_KEY, Report, fetch_report, read_report
from swarm.store.spending import ModelStore

_PROVIDER = "https://api.anthropic.com"
_MOST_JOBS = 100_000


def show_spending(
    by: Annotated[
        Part, typer.Option("--by", help="Sums by this; workspaces and jobs as far as jobs are kept.")
    ] = "day",
    days: Annotated[int, typer.Option("--days", "-d", min=1, max=400, help="Number of days, in UTC, with today.")] = 7,
    report: Annotated[
        str,
        typer.Option("--reconcile", metavar="FILE", help="Compare with a usage report, or `api`: ask the provider."),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Show the fleet's spending, or compare it with the provider's usage report.

    A report is a file of Anthropic's Usage and Cost Admin API (JSON) or of its Console (CSV). `--reconcile api` asks that API with the
    key in ANTHROPIC_ADMIN_API_KEY. Exit code 1 if the sums of tokens differ by more than half a percent.
    """
    with open_swarm() as swarm:
        last = day_of(swarm.store.now())
        first = last - timedelta(days=days - 1)
        ledger = {
            day: models for day, models in ModelStore(swarm.store.keyspace).spending().items() if first <= day <= last
        }
        if report:
            theirs = {day: rows for day, rows in _read(swarm, report, first, last).items() if first <= day <= last}
            rows = reconcile(ledger, theirs, swarm.settings.prices_file)
            _show_compared(rows, as_json)
            raise typer.Exit(int(abs(rows[-1].difference) > AGREE))
        if by in ("day", "model"):
            spent = sum_ledger(ledger, by)
        else:
            views = swarm.jobs(_MOST_JOBS)
            spent = sum_jobs((view for view in views if first <= day_of(view.created_at) <= last), by)
    spent.sort(key=lambda row: (row.name if by == "day" else -(row.cost_usd or 0.0), row.name))
    _show(spent, by, as_json)


def _read(swarm: Swarm, report: str, first: date, last: date) -> Report:
    if report != "api":
        return read_report(Path(report))
    key = os.environ.get(ADMIN_KEY)
    if not key:
        raise ConfigurationError(
            f"set {ADMIN_KEY} to an Admin key of your organization, or give a file of its usage report"
        )
    return fetch_report(swarm.settings.base_url or _PROVIDER, key, first, last)


def _show(spent: list[Spent], by: Part, as_json: bool) -> None:
    if as_json:
        print_json({"by": by, "rows": [row.model_dump() for row in spent], "total": total(spent).model_dump()})
        return
    Listing[Spent](
        Column(by, lambda row: row.name),
        Column("input", lambda row: show_count(row.usage.input_tokens), right=True, drop=2),
        Column("cache write", lambda row: show_count(row.usage.cache_creation_input_tokens), right=True, drop=3),
        Column("cache read", lambda row: show_count(row.usage.cache_read_input_tokens), right=True, drop=4),
        Column("output", lambda row: show_count(row.usage.output_tokens), right=True, drop=1),
        Column(
            "rehearsed",
            lambda row: show_count(row.rehearsed_tokens) if row.rehearsed_tokens else None,
            right=True,
            drop=5,
        ),
        Column("cost", lambda row: show_cost(row.cost_usd, row.unpriced_tokens, row.estimated_usd), right=True),
        otherwise="nothing was spent in these days",
    ).show([*spent, total(spent)] if spent else [])


def _show_compared(rows: list[Compared], as_json: bool) -> None:
    if as_json:
        print_json([{**row.model_dump(mode="json"), "difference": row.difference} for row in rows])
        return
    Listing[Compared](
        Column("day", lambda row: row.day or ""),
        Column("model", lambda row: row.model),
        Column("ours", lambda row: show_count(row.ours.total_tokens), right=True),
        Column("theirs", lambda row: show_count(row.theirs.total_tokens), right=True),
        Column("difference", lambda row: f"{row.difference:+.2%}", right=True),
        Column("theirs at our prices", lambda row: show_cost(row.theirs_usd), right=True, drop=1),
    ).show(rows)
    found = rows[-1].difference
    if abs(found) <= AGREE:
        print_line("both counts agree")
    else:
        print_line(f"the fleet counted {abs(found):.1%} {'less' if found > 0 else 'more'} than the provider")
        print_note("note: a usage report covers all programs of its keys; choose this fleet's key or workspace")
