"""Sums a fleet's spending by day, model, workspace or job, and compares it with the provider's own count. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from swarm.core.records import JobView
from swarm.core.usage import Counters, Usage, dollars_known
from swarm.models.catalogue import charge_for, row_name
from swarm.models.usage_report import Report
from swarm.store.spending import REHEARSAL

Part = Literal["day", "model", "workspace", "job"]
Ledger = Mapping[date, Mapping[str, Counters]]
AGREE = 0.005
"""Largest share by which both counts of a whole period may differ."""


class Spent(BaseModel, frozen=True):
    """The use of one day, model, workspace or job, or of all."""

    name: str
    usage: Usage
    cost_usd: float | None
    """Dollars, as far as prices are known; None if none is."""
    estimated_usd: float
    """The part of it that is an estimate, of replies that were cut or lost."""
    unpriced_tokens: int
    rehearsed_tokens: int = 0
    """Tokens of models that a script played; they cost nothing, and are not in `usage`."""


class Compared(BaseModel, frozen=True):
    """The use of one model on one day by both counts, or of all."""

    day: date | None
    model: str
    ours: Usage
    theirs: Usage
    theirs_usd: float | None
    """The price of their count by the table of prices."""

    @property
    def difference(self) -> float:
        """Their tokens beyond ours, as a share of theirs."""
        return (
            1 - self.ours.total_tokens / self.theirs.total_tokens
            if self.theirs.total_tokens
            else float(-bool(self.ours.total_tokens))
        )


def sum_ledger(ledger: Ledger, part: Part) -> list[Spent]:
    """Sum the ledger by day or model."""
    rows = [
        (str(day) if part == "day" else model, model == REHEARSAL, used)
        for day, models in ledger.items()
        for model, used in models.items()
    ]
    return _sum(rows)


def sum_jobs(views: Iterable[JobView], part: Part) -> list[Spent]:
    """Sum jobs by workspace or job."""
    name: Callable[[JobView], str] = (lambda view: view.id) if part == "job" else (lambda view: view.workspace)
    return _sum((name(view), view.rehearsed, view.sums) for view in views)


def total(rows: Iterable[Spent]) -> Spent:
    """Sum rows."""
    rows = list(rows)
    known = [row.cost_usd for row in rows if row.cost_usd is not None]
    return Spent(
        name="all",
        usage=sum((row.usage for row in rows), Usage()),
        cost_usd=sum(known) if known or not rows else None,
        estimated_usd=sum(row.estimated_usd for row in rows),
        unpriced_tokens=sum(row.unpriced_tokens for row in rows),
        rehearsed_tokens=sum(row.rehearsed_tokens for row in rows),
    )


def reconcile(ledger: Ledger, report: Report, prices_file: Path | None = None) -> list[Compared]:
    """Compare both counts on each day of the report, by model; the last row is the sum."""
    rows = []
    for day, theirs in report.items():
        ours_named = _by_row(
            {model: used.usage for model, used in ledger.get(day, {}).items() if model != REHEARSAL}, prices_file
        )
        theirs_named = _by_row(theirs, prices_file)
        for model in sorted(ours_named.keys() | theirs_named.keys()):
            ours, their = ours_named.get(model, Usage()), theirs_named.get(model, Usage())
            charge = charge_for(model, their, prices_file=prices_file)
            priced = charge.cost_usd if not charge.unpriced_tokens else None
            rows.append(Compared(day=day, model=model, ours=ours, theirs=their, theirs_usd=priced))
    known = [row.theirs_usd for row in rows if row.theirs_usd is not None]
    return [
        *rows,
        Compared(
            day=None,
            model="all",
            ours=sum((row.ours for row in rows), Usage()),
            theirs=sum((row.theirs for row in rows), Usage()),
            theirs_usd=sum(known) if known or not rows else None,
        ),
    ]


def day_of(at: float) -> date:
    """The day of a time, in UTC."""
    return datetime.fromtimestamp(at, UTC).date()


def _by_row(models: Mapping[str, Usage], prices_file: Path | None) -> dict[str, Usage]:
    found: defaultdict[str, Usage] = defaultdict(Usage)
    for model, usage in models.items():
        found[row_name(model, prices_file=prices_file)] += usage
    return dict(found)


def _sum(rows: Iterable[tuple[str, bool, Counters]]) -> list[Spent]:
    paid: defaultdict[str, Counters] = defaultdict(Counters)
    rehearsed: defaultdict[str, int] = defaultdict(int)
    for name, is_rehearsed, used in rows:
        paid[name] += Counters() if is_rehearsed else used
        rehearsed[name] += used.usage.total_tokens if is_rehearsed else 0
    return [
        Spent(
            name=name,
            usage=used.usage,
            cost_usd=dollars_known(used, rehearsed=False),
            estimated_usd=used.estimated / 1e9,
            unpriced_tokens=used.unpriced,
            rehearsed_tokens=rehearsed[name],
        )
        for name, used in paid.items()
    ]
