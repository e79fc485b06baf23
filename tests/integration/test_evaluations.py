"""Evaluations: cases and variants as jobs, scores that stay, gates; a killed command goes on and pays nothing twice.

Tests of swarm/capabilities/evaluations/model.py, swarm/capabilities/evaluations/store.py, swarm/replay/evaluation.py,
swarm/replay/measuring.py, swarm/replay/run_options.py, swarm/replay/sets.py, swarm/cli/evaluate.py, swarm/cli/evals.py, swarm/cli/score.py,
swarm/client/evaluations.py, swarm/client/evaluation_acts.py,
swarm/client/evaluation_reads.py.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from swarm.capabilities.evaluations.model import Evaluation, find_gaps
from swarm.cli.app import app
from swarm.client.acts import ACTS
from swarm.client.evaluations import evaluations_of
from swarm.client.operations import Invocation
from swarm.client.reads import READS
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError, UnknownAgent, UnknownEvaluation
from swarm.core.ids import new_evaluation_id, root_agent_id
from swarm.replay.evaluation import Evaluator, remove_old_copies
from swarm.replay.sets import read_set, read_variant
from tests.fleet import Fleet


def run(fleet: Fleet, *arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env=fleet.environment())


def write_set(fleet: Fleet, **told: Any) -> str:
    path = fleet.workspace / "cases.yaml"
    path.write_text(yaml.safe_dump(told, sort_keys=False))
    return str(path)


def test_a_killed_evaluation_of_twenty_cases_goes_on_and_pays_nothing_twice(at_work: Fleet, tmp_path: Path) -> None:
    server = at_work.rehearse("""
name: twenty
rules:
  - when: {prompt: 'case (7|13)$'}
    reply: {text: wrong}
  - reply: {text: right}
""")
    counted = tmp_path / "counted"
    cases = write_set(
        at_work,
        score=f'echo "$SWARM_CASE" >> {counted}; grep -q right "$SWARM_ANSWER"',
        options={"base_url": server.url, "agent": "answer", "isolation": "none"},
        cases=[{"prompt": f"case {number}"} for number in range(1, 21)],
    )
    argv = [sys.executable, "-m", "swarm", "eval", cases]
    with subprocess.Popen(argv, env=at_work.environment(), stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        told = list(takewhile(lambda line: not line.startswith("6 of 20"), command.stderr))
        command.kill()
    assert command.returncode == -signal.SIGKILL, f"it ended before it was killed: {told}"
    evaluation, *_ = json.loads(run(at_work, "evals", "list", "--json").stdout)  # newest first
    ended = run(at_work, "eval", "--resume", evaluation["id"], "--at-least", "0.95", "--json")
    assert ended.exit_code == 1, ended.output
    view = json.loads(ended.stdout)
    assert view["gate"] == ["now passed 18 of 20 runs, less than 95%"]
    assert [row["case"] for row in view["cases"] if not row["passed"]["now"]] == ["case-7", "case-13"]
    assert server.stats()["requests"] == 20, "no reply was paid for twice"
    scored = counted.read_text().split()
    assert len(set(scored)) == 20 and len(scored) <= 21, "only a command under way is run again"
    assert run(at_work, "eval", "--resume", evaluation["id"], "--at-least", "0.9").exit_code == 0
    assert len(counted.read_text().split()) == len(scored) and server.stats()["requests"] == 20


WORK = """
name: work
rules:
  - when: {{prompt: 'Judge whether', turn: 0}}
    reply: {{text: '{{"passed": true, "summary": "all met", "findings": []}}'}}
  - when: {{prompt: '^Write (?P<text>\\w+)', model: haiku, turn: 0}}
    reply: {{tools: [{{name: Write, input: {{file_path: '{{workspace}}/out.txt', content: wrong}}}}]}}
  - when: {{prompt: '^Write (?P<text>\\w+)', turn: 0}}
    reply: {{tools: [{{name: Write, input: {{file_path: '{{workspace}}/out.txt', content: '{{text}}'}}}}]}}
  - when: {{definition: asker, model: opus}}
    reply: {{text: "carefully: the answer is 42"}}
  - when: {{prompt: Answer}}
    reply: {{text: "the answer is 41"}}
  - reply: {{text: written}}
""".replace("{{", "{").replace("}}", "}")


def test_variants_are_scored_by_command_words_and_grader_and_a_worse_one_breaks_the_gate(at_work: Fleet) -> None:
    server = at_work.rehearse(WORK)
    other = at_work.workspace / "other" / ".swarm" / "agents"
    other.mkdir(parents=True)
    for folder, model in ((at_work.workspace / ".swarm" / "agents", "sonnet"), (other, "opus")):
        folder.mkdir(parents=True, exist_ok=True)
        told = f"name: asker\ndescription: Answers.\ntools: Read\nmodel: {model}"
        (folder / "asker.md").write_text(f"---\n{told}\n---\nYou answer.\n")
    (at_work.workspace / "given.txt").write_text("as it was")
    work: dict[str, Any] = {
        "name": "work",
        "options": {"base_url": server.url},
        "variants": {"now": None, "small": {"options": {"model": "haiku"}}},
        "cases": [
            {
                "name": "write",
                "prompt": "Write apples",
                "score": "test -f given.txt && cat out.txt && grep -q apples out.txt",
            },
            {"name": "graded", "prompt": "Write pears", "rubric": "It is written.", "expect": "^written$"},
            {"name": "ask", "prompt": "Answer.", "expect": "42", "options": {"agent": "asker"}},
        ],
    }
    path = write_set(at_work, **work)
    ended = run(
        at_work, "eval", path, "--variant", f"new:agents={at_work.workspace / 'other'}", "--against", "now", "--json"
    )
    assert ended.exit_code == 1, ended.output
    view = json.loads(ended.stdout)
    assert view["gate"] == ["write passed with now and fails with small"]
    passed = {row["case"]: row["passed"] for row in view["cases"]}
    assert passed == {
        "write": {"now": 1, "small": 0, "new": 1},
        "graded": {"now": 1, "small": 1, "new": 1},
        "ask": {"now": 0, "small": 0, "new": 1},
    }
    notes = {(one["case"], one["variant"]): one["score"]["note"] for one in view["runs"]}
    assert notes["write", "small"] == "wrong" and notes["graded", "now"] == "all met"
    assert not (at_work.workspace / "out.txt").exists(), "each run has its own copy of the files"
    assert {at_work.swarm.job(one["job_id"]).view().state for one in view["runs"]} == {"completed"}

    # A person's score outweighs the command's, from the terminal and over HTTP; another evaluation is held to this one.
    wrong = next(one["job_id"] for one in view["runs"] if (one["case"], one["variant"]) == ("write", "small"))
    assert run(at_work, "score", wrong, "--passed", "--points", "0.5", "--note", "as I meant it").exit_code == 0
    shown = run(at_work, "evals", "show", view["id"])
    assert "2 of 3" in shown.stdout and "1/1" in shown.stdout, shown.stdout
    acts, call = {one.name: one for one in ACTS}, Invocation(swarm=at_work.swarm, by="ann")
    job = acts["score_job"].function(call, job=wrong, name="style", note="terse")
    assert job.scores["style"].by == "ann" and job.scores["person"].points == 0.5 and not job.scores["eval"].passed
    assert acts["score_job"].function(call, job=wrong, name="style").scores.keys() == {"person", "eval"}
    read = {one.name: one for one in READS}["get_evaluation"].function(call, evaluation=view["id"])
    assert [row.passed for row in read.variants] == [2, 2, 3]
    again = run(
        at_work,
        "eval",
        write_set(at_work, **{**work, "variants": {"small": {"options": {"model": "haiku"}}}}),
        "--against",
        view["id"],
        "-q",
    )
    assert again.exit_code == 1 and "gate: write passed with now and fails with small" in again.stderr
    with pytest.raises(ConfigurationError, match="points cannot be so"):
        at_work.swarm.job(wrong).score(points=2)
    with pytest.raises(UnknownAgent):
        at_work.swarm.job("job-none").score(passed=True)


SHELL = """
name: shell
rules:
  - when: {model: haiku, turn: 0}
    reply: {tools: [{name: Bash, input: {command: echo wrong > out.txt}}]}
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: echo apples > out.txt}}]}
  - reply: {text: written}
"""


def test_past_jobs_and_a_folder_of_exported_ones_are_a_set(at_work: Fleet, tmp_path: Path) -> None:
    server = at_work.rehearse(SHELL)
    job = at_work.submit("Write apples", server)
    assert job.wait(30).text == "written"
    (at_work.workspace / "out.txt").write_text("before")
    folder = tmp_path / "past"
    folder.mkdir()
    assert run(at_work, "export", job.id, "-o", str(folder / "apples.jsonl.gz")).exit_code == 0
    (tmp_path / "work.yaml").write_text(SHELL)
    (folder / "set.yaml").write_text(
        yaml.safe_dump({"score": "cat out.txt; grep -q apples out.txt", "workspace": str(at_work.workspace)})
    )
    ended = run(
        at_work, "eval", str(folder), "--job", job.id, "--variant", "now:", "--variant", "small:model=haiku",
        "--rehearse", str(tmp_path / "work.yaml"), "--json", "--concurrency", "2", "--budget", "40",
    )  # fmt: skip
    assert ended.exit_code == 0, ended.output
    view = json.loads(ended.stdout)
    assert [(row["case"], row["passed"]) for row in view["cases"]] == [
        ("apples", {"now": 1, "small": 0}),
        (job.id, {"now": 1, "small": 0}),
    ], view
    assert (at_work.workspace / "out.txt").read_text() == "before"
    for one in view["runs"]:
        limits, permissions = at_work.swarm.job(one["job_id"]).view().limits, at_work.swarm.store.jobs
        assert limits.budget_usd == 10 and permissions.permissions(one["job_id"]).ask_seconds == 0
        assert at_work.swarm.store.agents.spec(root_agent_id(one["job_id"])).limits.budget_usd == 10
    evaluation = evaluations_of(at_work.swarm).get(view["id"])
    jobs = [one.id for one in Evaluator(at_work.swarm, evaluation, base_url=server.url).submit()]
    assert jobs == [one["job_id"] for one in view["runs"]], "a repeated submission makes no second job"
    [row] = {one.name: one for one in READS}["list_evaluations"].function(
        Invocation(swarm=at_work.swarm, by="ann"), limit=1
    )
    assert (row.id, row.cases, row.variants) == (view["id"], ["apples", job.id], ["now", "small"])
    # Copies of folders go once their jobs are forgotten.
    copies = at_work.settings.state_folder() / "evaluations" / view["id"]
    (copies / "job-forgotten").mkdir()
    kept = {one.name for one in copies.iterdir()}
    remove_old_copies(at_work.swarm)
    assert {one.name for one in copies.iterdir()} == kept, "it may belong to a swarm with another Redis"
    remove_old_copies(Swarm(at_work.settings.model_copy(update={"retention_seconds": 0.0})))
    assert {one.name for one in copies.iterdir()} == kept - {"job-forgotten"} and len(kept) > 1


def test_a_trouble_of_the_machine_is_no_score_and_is_measured_again(at_work: Fleet) -> None:
    server = at_work.rehearse("""
name: troubled
faults: [{kind: 400, when: {prompt: Judge whether}, times: 1}]
rules:
  - when: {prompt: Judge whether}
    reply: {text: '{"passed": true, "summary": "all met", "findings": []}'}
  - reply: {text: written}
""")
    swarm, folder, away = at_work.swarm, at_work.workspace / "here", at_work.workspace / "away"
    folder.mkdir()
    cases = write_set(
        at_work,
        options={"base_url": server.url, "agent": "answer", "isolation": "none"},
        cases=[
            {"name": "command", "prompt": "Write.", "score": "true", "workspace": str(folder)},
            {"name": "graded", "prompt": "Write more.", "rubric": "It is written."},
        ],
    )
    found = read_set(Path(cases), [], {})
    evaluation = Evaluation(id=new_evaluation_id(), name=found.name, variants=found.variants, cases=found.cases)
    evaluator = Evaluator(swarm, evaluations_of(swarm).keep(evaluation))
    evaluator.check()
    for job in evaluator.submit():
        job.wait(30)
    folder.rename(away)
    runs = {one.case: one for one in evaluator.score_all()}
    assert [one.score for one in runs.values()] == [None, None]
    assert "cannot be run" in runs["command"].unscored and "gave no verdict" in runs["graded"].unscored
    shown = run(at_work, "evals", "show", evaluation.id)
    assert "command / now not scored: it cannot be run" in shown.stderr, shown.output
    refused = run(at_work, "eval", cases, "--against", evaluation.id)
    assert isinstance(refused.exception, ConfigurationError)
    assert "command / now has no score: it cannot be run" in str(refused.exception)

    away.rename(folder)
    key = swarm.store.keyspace.key("evaluation", evaluation.id)
    swarm.store.keyspace.client.expire(key, 100)
    again = Evaluator(swarm, evaluation)
    again.submit()
    assert all(one.score is not None and one.score.passed for one in again.score_all())
    assert swarm.store.keyspace.client.ttl(key) > 1_000, "it outlives its runs"
    # Their rows have no scores.
    for one in runs.values():
        assert swarm.store.archive.take_in(one.job_id)
    assert [row.passed for row in again.view().variants] == [2] and find_gaps(again.view()) == []


def test_an_interrupted_evaluation_ends_at_once_while_its_runs_go_on(at_work: Fleet) -> None:
    server = at_work.rehearse("""
name: slow
rules:
  - when: {prompt: slow}
    reply: {text: late, latency_seconds: 300}
  - reply: {text: done}
""")
    cases = write_set(
        at_work,
        options={"base_url": server.url, "agent": "answer", "isolation": "none"},
        cases=[{"prompt": "quick", "expect": "done"}, {"prompt": "slow", "expect": "late"}],
    )
    argv = [sys.executable, "-m", "swarm", "eval", cases]
    with subprocess.Popen(argv, env=at_work.environment(), stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        told = list(takewhile(lambda line: not line.startswith("1 of 2"), command.stderr))
        command.send_signal(signal.SIGINT)
        said = command.communicate(timeout=60)[1]
    assert command.returncode == 130 and "swarm eval --resume eval-" in said, (told, said)
    slow_job = at_work.swarm.job(next(one.id for one in at_work.swarm.jobs(5) if one.title.endswith("case-2 / now")))
    assert not slow_job.view().ended
    slow_job.cancel()
    slow_job.wait(30)


def test_a_run_that_cannot_start_is_refused_before_any_is_paid_for(at_work: Fleet) -> None:
    server = at_work.rehearse("name: none\nrules: [{reply: {text: done}}]")
    options = {"base_url": server.url, "agent": "answer"}
    cases = write_set(
        at_work,
        options=options,
        cases=[{"prompt": "one"}, {"name": "two", "prompt": "Two.", "options": {"agent": "nobody"}}],
    )
    before = at_work.swarm.jobs(1), list(evaluations_of(at_work.swarm).all(1))
    ended = run(at_work, "eval", cases)
    assert isinstance(ended.exception, ConfigurationError) and "two / now: unknown agent type 'nobody'" in str(
        ended.exception
    )
    assert (at_work.swarm.jobs(1), list(evaluations_of(at_work.swarm).all(1))) == before


def test_unusable_sets_are_refused_with_their_place(at_work: Fleet, tmp_path: Path) -> None:
    case = {"name": "a", "prompt": "do it"}
    for told, said in (
        ({"cases": []}, "has no cases"),
        ({"cases": [case, case]}, "two cases have the name 'a'"),
        ({"cases": [{"name": "a"}]}, "case a: a case has a prompt, or one of `job` and `past`"),
        ({"cases": [{**case, "expects": "x"}]}, "case a: expects: Extra inputs"),
        ({"cases": [{**case, "expect": "("}]}, "case a: `expect` is no regular expression"),
        (
            {"cases": [{**case, "options": {"budget": 3}}]},
            "case a: there is no option 'budget' here; choose from agent",
        ),
        ({"cases": [{"job": "job-1", "options": {"agent": "x"}}]}, "only `model` can replace one"),
        ({"cases": [case], "variants": {"b c": None}}, "variant b c: name"),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(said)):
            read_set(Path(write_set(at_work, **told)), [], {})
    lines = tmp_path / "cases.jsonl"
    lines.write_text('{"prompt": "one"}\n{"prompt": "two", "expect": "2"}\n')
    found = read_set(lines, [], {"expect": "x"})
    assert [(one.name, one.expect) for one in found.cases] == [("case-1", "x"), ("case-2", "2")]
    with pytest.raises(ConfigurationError, match="write NAME:KEY=VALUE"):
        read_variant("new:model")
    with pytest.raises(UnknownEvaluation, match="swarm evals list"):
        evaluations_of(at_work.swarm).get("eval-none")
