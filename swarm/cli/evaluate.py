"""`swarm eval`: run a set of cases with several variants, score the runs, and compare."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from swarm.capabilities.evaluations.model import (
    Evaluation,
    EvaluationView,
    Regression,
    RunView,
    find_gaps,
    find_regressions,
)
from swarm.cli.completion import complete_job
from swarm.cli.evals import SHOWN_CHARACTERS, print_view
from swarm.cli.interrupts import Terminated
from swarm.cli.launch import require_credentials
from swarm.cli.lookup import find_job
from swarm.cli.map import workers_for
from swarm.cli.options import JsonOption, takes
from swarm.cli.order_options import Here
from swarm.cli.output import one_line, print_json, print_note, show_number
from swarm.client.evaluations import evaluations_of, view_now
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.core.ids import new_evaluation_id
from swarm.core.settings import load_settings
from swarm.rehearsal.scenario import load_scenario
from swarm.rehearsal.server import RehearsalServer
from swarm.replay.evaluation import Evaluator
from swarm.replay.sets import read_set, read_text, read_variant


@dataclass(frozen=True)
class EvalOptions:
    """The options of `swarm eval`."""

    source: Annotated[
        Path | None,
        typer.Argument(metavar="[SET]", help="Cases: YAML, JSON lines, or a folder of exported jobs."),
    ] = None
    jobs: Annotated[
        list[str] | None,
        typer.Option("--job", metavar="JOB", help="A past job as a case; repeatable.", autocompletion=complete_job),
    ] = None
    variants: Annotated[
        list[str] | None,
        typer.Option("--variant", metavar="NAME:KEY=VALUE", help="As in new:model=haiku,agents=../new; repeatable."),
    ] = None
    times: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Runs of each case and variant.")] = 1
    score: Annotated[str, typer.Option(metavar="COMMAND", help="Command that scores a run's files.")] = ""
    expect: Annotated[str, typer.Option(metavar="REGEX", help="What each answer must match.")] = ""
    rubric: Annotated[Path | None, typer.Option(metavar="FILE", help="Criteria that a grader must find met.")] = None
    grader_model: Annotated[str, typer.Option(metavar="MODEL", help="The graders' model.")] = ""
    budget: Annotated[
        float | None, typer.Option(min=0.0001, metavar="USD", help="Budget of all runs; each has an equal part.")
    ] = None
    at_least: Annotated[
        float | None, typer.Option(min=0, max=1, metavar="SHARE", help="Gate: share of runs that must pass.")
    ] = None
    against: Annotated[
        str, typer.Option(metavar="WHAT", help="Gate: no case worse than with this variant, or evaluation.")
    ] = ""
    resume: Annotated[str | None, typer.Option(metavar="EVAL", help="Continue this evaluation.")] = None
    rehearse: Annotated[str | None, typer.Option(metavar="SCENARIO", help="Play a scenario for all runs.")] = None
    concurrency: Annotated[int | None, typer.Option(min=1, help="Agents at once on a worker started for it.")] = None
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False
    as_json: JsonOption = False


@takes(EvalOptions)
def evaluate(given: EvalOptions) -> None:
    """Run a set of cases with each variant, score the runs, and print a table.

    Each run is a job with its own copy of the files. If this command ends, the runs continue while there are workers, and `swarm eval
    --resume EVAL` scores them; nothing is paid for twice. Exit code: 0; 1 if a gate (--at-least, --against) is not met; 130 interrupted.
    """
    settings = load_settings()
    here = Here(given.rehearse, given.concurrency, quiet=given.quiet)
    with contextlib.ExitStack() as cleanup:
        swarm = Swarm(settings, tell=print_note)
        interrupts = cleanup.enter_context(workers_for(settings, here))
        evaluation = _find(swarm, given)
        baseline = _find_baseline(swarm, evaluation, given.against)
        if given.rehearse is None and not all("base_url" in case.options for case in evaluation.cases):
            require_credentials(settings)
        url = None
        if given.rehearse is not None:
            server = RehearsalServer(load_scenario(given.rehearse), port=evaluation.port).start()
            cleanup.callback(server.close)
            url, evaluation = server.url, evaluation.model_copy(update={"port": int(server.url.rpartition(":")[2])})
        elif evaluation.port:
            raise ConfigurationError(f"{evaluation.id} is a rehearsal; continue it with --rehearse SCENARIO")
        Evaluator(swarm, evaluation, base_url=url).check()
        evaluation = evaluations_of(swarm).keep(evaluation)
        if not given.quiet:
            runs = show_number(sum(1 for _ in evaluation.runs()), "run")
            print_note(f"{evaluation.id}: {runs}; if this command ends: swarm eval --resume {evaluation.id}")
        try:
            view = _run(Evaluator(swarm, evaluation, base_url=url), quiet=given.quiet)
        except (KeyboardInterrupt, Terminated):
            interrupts.disarm()
            print_note(f"its runs continue while there are workers; swarm eval --resume {evaluation.id} scores them")
            raise
    broken = _check_gates(view, baseline, given)
    if given.as_json:
        print_json({**view.model_dump(mode="json"), "gate": [*broken]})
    else:
        print_view(view)
    for one in broken:
        print_note(f"gate: {one}")
    if broken:
        raise typer.Exit(1)


def _find(swarm: Swarm, given: EvalOptions) -> Evaluation:
    if given.resume is not None:
        if given.source is not None or given.jobs or given.variants:
            raise typer.BadParameter("a resumed evaluation has its cases and variants", param_hint="--resume")
        return evaluations_of(swarm).get(given.resume)
    jobs = [find_job(swarm, job).id for job in given.jobs or ()]
    scoring = {
        "score": given.score,
        "expect": given.expect,
        "rubric": read_text(given.rubric) if given.rubric else "",
    }
    found = read_set(given.source, jobs, scoring, list(map(read_variant, given.variants or ())))
    return Evaluation(
        id=new_evaluation_id(),
        name=found.name,
        variants=found.variants,
        cases=found.cases,
        folder=found.folder,
        times=given.times,
        budget_usd=given.budget,
        grader_model=given.grader_model,
    )


def _run(evaluator: Evaluator, *, quiet: bool) -> EvaluationView:
    jobs = evaluator.submit()
    for number, run in enumerate(evaluator.score_all(), 1):
        if not quiet:
            print_note(f"{number} of {len(jobs)}: {_describe(run)}")
    return evaluator.view()


def _describe(run: RunView) -> str:
    judged = "not scored" if run.score is None else "passed" if run.score.passed else "failed"
    said = run.unscored if run.score is None else run.score.note
    why = f" ({one_line(said, SHOWN_CHARACTERS)})" if said else ""
    return f"{run.case} / {run.variant} {judged}{why} [{run.job_id}]"


def _check_gates(view: EvaluationView, baseline: EvaluationView | None, given: EvalOptions) -> list[str]:
    """Return a sentence for each unmet gate."""
    found = []
    if given.at_least is not None:
        found += [
            f"{row.variant} passed {row.passed} of {row.runs} runs, less than {given.at_least:.0%}"
            for row in view.variants
            if row.share < given.at_least
        ]
    if given.against:
        gaps = {(one.case, one.variant) for one in find_gaps(view)}
        found += [f"{case} has no score with {variant}, so it cannot be compared" for case, variant in sorted(gaps)]
        worse = (
            find_regressions(view, view, given.against)
            if baseline is None
            else find_regressions(view, baseline, baseline.variants[0].variant)
        )
        found += [_tell(one) for one in worse if (one.case, one.variant) not in gaps]
    return found


def _find_baseline(swarm: Swarm, evaluation: Evaluation, against: str) -> EvaluationView | None:
    """Return the earlier evaluation to compare with; None: a variant, or nothing. Raises `ConfigurationError` if it cannot be compared."""
    if not against or against in {one.name for one in evaluation.variants}:
        return None
    if not against.startswith("eval-"):
        raise ConfigurationError(
            f"--against {against}: the evaluation has no such variant, and it is no id of another one"
        )
    baseline = view_now(swarm, evaluations_of(swarm).get(against))
    cases = {one.name for one in evaluation.cases}
    gaps = [one for one in find_gaps(baseline, baseline.variants[0].variant) if one.case in cases]
    if gaps:
        first = gaps[0]
        why = first.unscored or ("it is not scored yet" if first.state else "its job is no longer kept")
        raise ConfigurationError(
            f"--against {against}: its run {first.case} / {first.variant} has no score: {why}. "
            f"Score it with swarm eval --resume {against}, or compare with another evaluation"
        )
    return baseline


def _tell(one: Regression) -> str:
    return f"{one.case} passed with {one.against} and fails with {one.variant}"
