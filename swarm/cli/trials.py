"""Continue from a turn of a job's history, once or several times, and score each result by a command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import typer

from swarm.cli.output import one_line, print_json, print_line, print_note, show_cost, show_count, show_duration
from swarm.cli.rehearse import begin_rehearsing
from swarm.cli.tables import Column, Listing
from swarm.cli.wait import wait_for_all
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import ConfigurationError
from swarm.core.records import JobView
from swarm.local.stack import running
from swarm.replay.past import read_past
from swarm.replay.resumption import Branched, Resumption, find_turn, go_on
from swarm.replay.score import Score, score

_SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Trial:
    """Number of new jobs, and their treatment."""

    times: int = 1
    score: str | None = None
    """Command to run on each new job's files."""
    scenario: str | None = None


def go_on_from(swarm: Swarm, job: Job, start: str, wanted: Resumption, trial: Trial, *, as_json: bool) -> None:
    """Create and print the new jobs; with a command, wait and print each score. `start` is AGENT:TURN."""
    past, settings = read_past(swarm.store, job.id), swarm.settings
    agent_id, turn = find_turn(past, start)
    if settings.redis_url is None and not running(settings):
        raise ConfigurationError("no worker would run the new job: start one with `swarm up`")
    wanted = replace(wanted, agent_id=agent_id, turn=turn, several=trial.times > 1)
    scenario = trial.scenario
    serve = None if scenario is None else lambda job_id: begin_rehearsing(scenario, job_id, settings)
    made = [go_on(swarm, past, wanted, serve) for _ in range(trial.times)]
    if trial.score is not None:
        _compare(swarm, made, trial.score, as_json=as_json)
    elif as_json:
        told = [
            {"job_id": one.job.id, "workspace": one.workspace, "restored": one.restored, "from": job.id} for one in made
        ]
        print_json(told if trial.times > 1 else told[0])
    else:
        for one in made:
            print_line(one.job.id)
            where = "with a copy of the old files" if one.restored else f"in the current {one.workspace}"
            print_note(
                f"{one.job.id} continues from {agent_id}, turn {turn}, {where}; `swarm attach {one.job.id}` watches it"
            )


def _compare(swarm: Swarm, made: Sequence[Branched], command: str, *, as_json: bool) -> None:
    print_note(f"waiting for {', '.join(one.job.id for one in made)}")
    views = wait_for_all([one.job for one in made], None)
    # One after the other, because they may need the same port or the whole machine.
    scores = [score(swarm, one.job.id, one.workspace, command) for one in made]
    if as_json:
        print_json([_describe(view, found) for view, found in zip(views, scores, strict=True)])
    else:
        _print(views, scores)
    if not all(found.passed and view.state == "completed" for view, found in zip(views, scores, strict=True)):
        raise typer.Exit(1)


def _describe(view: JobView, found: Score) -> dict[str, object]:
    return {"job_id": view.id, "passed": found.passed, "said": found.said, **view.model_dump(exclude={"id", "limits"})}


def _print(views: Sequence[JobView], scores: Sequence[Score]) -> None:
    Listing[tuple[JobView, Score]](
        Column("job", lambda row: row[0].id),
        Column("state", lambda row: row[0].state.replace("_", " ")),
        Column("score", lambda row: "passed" if row[1].passed else "failed"),
        Column("agents", lambda row: row[0].agents, right=True, drop=1),
        Column("turns", lambda row: row[0].turns, right=True, drop=2),
        Column("tokens", lambda row: show_count(row[0].usage.total_tokens), right=True, drop=3),
        Column("cost", lambda row: show_cost(row[0].cost_usd, row[0].unpriced_tokens), right=True, drop=4),
        Column("time", lambda row: show_duration((row[0].ended_at or 0) - row[0].created_at), right=True, drop=5),
        Column("said", lambda row: one_line(row[1].said, _SHOWN_CHARACTERS), flexible=True),
    ).show(zip(views, scores, strict=True))
    passed, tokens = sum(found.passed for found in scores), median(view.usage.total_tokens for view in views)
    print_note(
        f"{passed} of {len(scores)} passed; median {show_count(round(tokens))} tokens, "
        f"{show_cost(median(view.cost_usd or 0.0 for view in views), sum(view.unpriced_tokens for view in views))}"
    )
