"""`swarm evals`: list and show evaluations."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from swarm.capabilities.evaluations.model import (
    CaseRow,
    Evaluation,
    EvaluationView,
    VariantRow,
)
from swarm.cli.lookup import open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.output import (
    one_line,
    print_json,
    print_line,
    print_note,
    show_cost,
    show_count,
    show_duration,
    show_number,
    show_since,
)
from swarm.cli.tables import Column, Listing
from swarm.client.evaluations import evaluations_of, view_now

SHOWN_CHARACTERS = 100
"""Longest reason of a score in a line."""
_MOST_TOLD = 10
group = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)
EvalArgument = Annotated[str, typer.Argument(metavar="EVAL", help="Id, as `swarm evals list` shows it.")]


@group.callback()
def evals() -> None:
    """List and show evaluations; `swarm eval` makes and continues them."""


@group.command("list")
def list_evaluations(
    count: Annotated[int, typer.Option(min=1, max=1_000, help="Number of evaluations, newest first.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List the newest evaluations."""
    with open_swarm() as swarm:
        found = list(evaluations_of(swarm).all(count))
    _LIST.show(found, as_json=as_json)


@group.command("show")
def show_evaluation(evaluation: EvalArgument, as_json: JsonOption = False) -> None:
    """Show an evaluation's table: variants, cases, and runs that failed."""
    with open_swarm() as swarm:
        view = view_now(swarm, evaluations_of(swarm).get(evaluation))
    if as_json:
        print_json(view.model_dump(mode="json"))
    else:
        print_view(view)


def print_view(view: EvaluationView) -> None:
    """Print an evaluation for people."""
    print_line(f"{view.id}  {view.name}")
    _VARIANTS.show(view.variants)
    if len(view.cases) > 1 or len(view.variants) > 1:
        columns = [
            Column(row.variant, partial(_show_passed, view.times, row.variant), right=True) for row in view.variants
        ]
        Listing[CaseRow](Column("case", lambda row: row.case, flexible=True), *columns).show(view.cases)
    open_runs = [one for one in view.runs if one.score is None and one.state]
    troubled = [one for one in open_runs if one.unscored]
    for one in troubled[:_MOST_TOLD]:
        print_note(f"{one.case} / {one.variant} not scored: {one_line(one.unscored, SHOWN_CHARACTERS)} [{one.job_id}]")
    if troubled:
        print_note(f"swarm eval --resume {view.id} tries again to score {show_number(len(troubled), 'run')}")
    if open_runs:
        print_note(f"{show_number(len(open_runs), 'run')} without a score: `swarm score JOB --passed` scores one")


def _show_passed(times: int, variant: str, row: CaseRow) -> str:
    return f"{row.passed[variant]}/{times}"


_LIST = Listing[Evaluation](
    Column("evaluation", lambda one: one.id),
    Column("cases", lambda one: len(one.cases), right=True),
    Column("variants", lambda one: ", ".join(each.name for each in one.variants), drop=2),
    Column("made", lambda one: show_since(one.created_at), drop=1),
    Column("name", lambda one: one.name, flexible=True),
    otherwise="there are no evaluations; `swarm eval SET` makes one",
)
_VARIANTS = Listing[VariantRow](
    Column("variant", lambda row: row.variant),
    Column("passed", lambda row: f"{row.passed} of {row.runs}", right=True),
    Column("points", lambda row: "" if row.points is None else f"{row.points:.2f}", right=True, drop=1),
    Column("turns", lambda row: f"{row.turns:g}", right=True, drop=4),
    Column("tokens", lambda row: show_count(round(row.tokens)), right=True, drop=3),
    Column("cost", lambda row: show_cost(row.cost_usd, 0), right=True, drop=2),
    Column("time", lambda row: show_duration(row.seconds), right=True, drop=5),
)
