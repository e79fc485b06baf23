"""Jobs taken out and put in again, checked against the code, gone on from in the middle, and compared: with real workers.

Tests of swarm/cli/diff.py, swarm/cli/replay.py, swarm/cli/trials.py, swarm/client/jobs.py, swarm/replay/branch.py,
swarm/replay/check.py, swarm/replay/comparison.py, swarm/replay/side_by_side.py, swarm/replay/files.py, swarm/replay/resumption.py,
swarm/replay/past.py, swarm/replay/importer.py, swarm/replay/redaction.py, swarm/replay/redefinition.py,
swarm/replay/scenario.py, swarm/replay/score.py, swarm/replay/shared_state.py, swarm/telemetry/journal_reader.py, swarm/replay/store.py.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from swarm import Job, Limits
from swarm.agent.entries import Assistant
from swarm.agent.history import fold
from swarm.capabilities.team.board import Board
from swarm.capabilities.team.scratchpad import Pad
from swarm.cli.app import app
from swarm.core.errors import ConfigurationError
from swarm.replay.check import check_requests
from swarm.replay.comparison import compare
from swarm.replay.importer import freeze, import_past
from swarm.replay.past import Past, read_lines, read_past, write_lines
from swarm.replay.redaction import redact
from swarm.replay.resumption import Resumption, go_on
from swarm.replay.shared_state import share_then
from swarm.store.store import Store
from swarm.telemetry.journal_reader import JournalReader
from swarm.telemetry.spans import Span
from tests.fleet import Fleet
from tests.job_world import open_store
from tests.mcp_world import running
from tests.waiting import wait_for

Team = tuple[Past, Callable[[str], str]]
_TEAM = """
name: team
rules:
  - when: {prompt: '^mate', last_text: 'go on'}
    reply: {text: went on}
  - when: {prompt: '^mate', turn: 0}
    reply: {tools: [{name: Write, input: {file_path: m.txt, content: of the mate}}]}
  - when: {prompt: '^mate'}
    reply: {text: ready}
  - when: {prompt: '^find', turn: 0}
    reply: {tools: [{name: LS, input: {}}]}
  - when: {prompt: '^find'}
    reply: {text: found}
  - when: {last_text: 'otherwise'}
    reply: {text: did it otherwise}
  - when: {turn: 0}
    reply: {tools: [{name: Write, input: {file_path: a.txt, content: one}}, {name: Agent, input: {description: f, prompt: find it}}]}
  - when: {turn: 1}
    reply: {tools: [{name: TeamCreate, input: {name: crew, agents: [{name: ada, prompt: mate}]}}]}
  - when: {turn: 2}
    reply: {tools: [{name: WaitAgents, input: {agent_ids: [ada], timeout_seconds: 60}}]}
  - when: {turn: 3}
    reply: {tools: [{name: Write, input: {file_path: a.txt, content: two}}, {name: SendMessage, input: {to: ada, message: go on}}]}
  - when: {turn: 4}
    reply: {tools: [{name: WaitAgents, input: {agent_ids: [ada], timeout_seconds: 60}}]}
  - when: {turn: 5}
    reply: {tools: [{name: TeamDelete, input: {force: true}}]}
  - reply: {text: 'api_key = sk-abcdefghijklmnopqrstuvwxyz is done'}
"""


_kept: list[str] = []


def _team_job(fleet: Fleet, agent: str = "build") -> tuple[Job, str]:
    server = fleet.rehearse(_TEAM)
    job = fleet.swarm.submit("go", agent=agent, workspace=fleet.workspace, base_url=server.url, snapshots=True)
    view = job.wait(60)
    assert view.state == "completed" and server.stats()["unmatched"] == [], (view.reason, server.stats())
    return job, server.url


@pytest.fixture
def team(at_work: Fleet, tmp_path: Path) -> Team:
    """One job of all tests here as it ended, and what serves its scenario."""
    if not _kept:
        _kept.append(_team_job(at_work)[0].id)
    url = at_work.rehearse(_TEAM).url
    return read_past(at_work.swarm.store, _kept[0]), lambda job_id: url


def _replies(fleet: Fleet, agent_id: str) -> list[Assistant]:
    return [entry for entry in fleet.swarm.journal(agent_id) if isinstance(entry, Assistant)]


def _messages(fleet: Fleet, agent_id: str, replies: int) -> list[dict[str, Any]]:
    """What the agent's request after so many replies held."""
    entries = fleet.swarm.journal(agent_id)
    places = [at for at, entry in enumerate(entries) if isinstance(entry, Assistant)]
    return fold(agent_id, entries[: places[replies]]).messages


def test_a_team_job_goes_on_from_its_middle_with_the_same_request_and_the_files_of_then(at_work: Fleet) -> None:
    job, url = _team_job(at_work)
    past, root = read_past(at_work.swarm.store, job.id), job.view().root_id
    assert (at_work.workspace / "a.txt").read_text() == "two"

    # As it was, in the folder as it is: the very request that was sent.
    same = go_on(at_work.swarm, past, Resumption(root, 3, files="here"), lambda job_id: url).job
    assert same.id != job.id and same.wait(60).state == "completed"
    assert _replies(at_work, same.view().root_id)[3].request_sha == _replies(at_work, root)[3].request_sha
    names = {agent.name for agent in same.agents() if agent.parent_id}
    assert names == {"ada", None} and "went on" in {agent.text for agent in same.agents()}, (
        "told under the id and name of then"
    )
    assert len([agent for agent in job.agents() if agent.ended]) == len(job.agents()) == 3, "the old job is as it was"

    # Otherwise, with the files of then: the old beginning, and one more message.
    made = go_on(at_work.swarm, past, Resumption(root, 3, text="do it otherwise"), lambda job_id: url)
    assert made.restored and made.job.wait(60).text == "did it otherwise"
    first = made.job.view().root_id
    old, new = _messages(at_work, root, 3), _messages(at_work, first, 3)
    assert new[:-1] == old[:-1] and new[-1]["content"][0] == old[-1]["content"][0]
    assert "do it otherwise" in str(new[-1]) and made.workspace in str(new[-1])
    kept = {path.name: path.read_text() for path in _files(made.workspace)}
    assert kept == {"a.txt": "one", "m.txt": "of the mate"}
    assert (at_work.workspace / "a.txt").read_text() == "two"
    told = made.job.view()
    assert told.usage.total_tokens < job.view().usage.total_tokens, "budgets begin anew"


def _files(folder: str) -> list[Path]:
    return [path for path in Path(folder).iterdir() if path.is_file()]


def test_one_agent_alone_goes_on_and_what_cannot_is_said(at_work: Fleet, team: Team) -> None:
    past, serve = team
    [finder] = [agent for agent in past.agents.values() if agent.parent and "name" not in agent.fields]
    alone = go_on(at_work.swarm, past, Resumption(finder.id, 1, files="here"), serve).job
    view = alone.wait(60)
    assert (view.state, view.text, len(alone.agents())) == ("completed", "found", 1)
    assert _replies(at_work, view.root_id)[1].request_sha == _replies(at_work, finder.id)[1].request_sha
    with pytest.raises(ConfigurationError, match="has 2 turns; choose one from 0 to 2"):
        go_on(at_work.swarm, past, Resumption(finder.id, 9), serve)
    with pytest.raises(ConfigurationError, match="was a rehearsal, whose server has ended"):
        go_on(at_work.swarm, past, Resumption(finder.id, 1))


_SHARING = """
name: sharing
rules:
  - when: {prompt: '^take', turn: 0}
    reply: {tools: [{name: BoardClaim, input: {task_id: 1}}]}
  - when: {prompt: '^take'}
    reply: {text: left it}
  - when: {turn: 0}
    reply:
      tools:
        - {name: BoardAdd, input: {subject: 'first  of all', description: do it, role: Tester}}
        - {name: BoardAdd, input: {subject: second, blocked_by: [1]}}
        - {name: ScratchpadWrite, input: {page: plan, content: 'é, then '}}
        - {name: ScratchpadWrite, input: {page: gone, content: x}}
  - when: {turn: 1}
    reply:
      tools:
        - {name: BoardUpdate, input: {task_id: 1, role: '', note: for anybody}}
        - {name: ScratchpadAppend, input: {page: plan, content: more}}
        - {name: ScratchpadWrite, input: {page: gone, delete: true}}
        - {name: Agent, input: {description: t, prompt: take it, subagent_type: taker}}
  - when: {turn: 2}
    reply: {tools: [{name: BoardClaim, input: {}}]}
  - when: {turn: 3}
    reply: {tools: [{name: BoardComplete, input: {task_id: 1, result: done}}, {name: BoardAdd, input: {subject: third, blocked_by: [2]}}]}
  - reply: {text: shared}
"""
_TAKER = """---
name: taker
description: Takes.
tools: [BoardClaim]
---
Take.
"""


def _shared(store: Store, job_id: str) -> Any:
    board, pad = Board(store.keyspace, job_id), Pad(store.keyspace, job_id)
    tasks = board.tasks()
    texts = board.texts([task.number for task in tasks])
    pages = [(page.model_dump(exclude={"at"}), pad.read(page.name)[1]) for page in pad.pages()]
    return [task.model_dump(exclude={"created", "changed"}) for task in tasks], texts, pages


def test_the_board_and_the_scratchpad_are_as_they_were_at_that_moment(at_work: Fleet, unmanned: Fleet) -> None:
    agents = at_work.workspace / ".swarm/agents"
    agents.mkdir(parents=True, exist_ok=True)
    (agents / "taker.md").write_text(_TAKER)
    server = at_work.rehearse(_SHARING)
    job = at_work.swarm.submit("go", agent="build", workspace=at_work.workspace, base_url=server.url)
    assert job.wait(60).text == "shared" and [task.state for task in job.board()] == ["completed", "pending", "pending"]
    past, root = read_past(at_work.swarm.store, job.id), job.view().root_id

    store = open_store(unmanned)
    import_past(store, freeze(_copied(past)), names={"root": root}, shared=share_then(past))
    assert _shared(store, job.id) == _shared(at_work.swarm.store, job.id), "as if the steps themselves had made them"
    for name in ("board:open", "board:edges", "board:left", "board:done", "board:owners"):
        kinds = [
            one.keyspace.client.type(one.keyspace.key("job", job.id, name)) for one in (store, at_work.swarm.store)
        ]
        assert kinds[0] == kinds[1], name

    # With its own task in progress, which nobody could complete on an empty board.
    made = go_on(at_work.swarm, past, Resumption(root, 3), lambda _: server.url).job
    assert made.wait(60).text == "shared"
    before, after = (_shared(at_work.swarm.store, one.id) for one in (job, made))
    assert after[1:] == (before[1], [(page | {"by": made.view().root_id}, text) for page, text in before[2]])
    assert [(task["state"], task["waits_for"]) for task in after[0]] == [
        ("completed", []),
        ("pending", []),
        ("pending", [2]),
    ]
    assert share_then(past, past.agents[root].entries[1].seq).tasks == {}


_PROBE = """---
name: probe
description: Looks.
tools: [LS{tools}]
---
{prompt}
"""
_PROBING = """
name: probing
rules:
  - when: {last_text: 'look again'}
    reply: {tools: [{name: Glob, input: {pattern: '*'}}]}
  - when: {turn: 0}
    reply: {tools: [{name: LS, input: {}}]}
  - reply: {text: looked}
"""


def test_a_job_goes_on_by_the_definitions_of_now_with_limits_that_begin_anew(at_work: Fleet, tmp_path: Path) -> None:
    agents = at_work.workspace / ".swarm/agents"
    agents.mkdir(parents=True)
    (agents / "probe.md").write_text(_PROBE.format(tools="", prompt="Be quick."))
    url = at_work.rehearse(_PROBING).url
    job = at_work.swarm.submit(
        "go", agent="probe", workspace=at_work.workspace, base_url=url, limits=Limits(max_turns=2)
    )
    assert job.wait(60).text == "looked"
    (agents / "probe.md").write_text(_PROBE.format(tools=", Glob", prompt="Be thorough."))
    past, root = read_past(at_work.swarm.store, job.id), job.view().root_id
    as_it_was = go_on(at_work.swarm, past, Resumption(root, 2, "look again"), lambda _: url).job
    wanted = Resumption(root, 2, "look again", agents=at_work.workspace)
    made = go_on(at_work.swarm, past, wanted, lambda _: url).job
    # Two turns more, although it had used both.
    assert as_it_was.wait(60).turns == made.wait(60).turns == 2
    first = made.view().root_id
    before, after = (fold(one, at_work.swarm.journal(one)) for one in (as_it_was.view().root_id, first))
    assert ("Be quick." in before.system, "Be thorough." in after.system) == (True, True)
    assert (sorted(before.tool_names()), sorted(after.tool_names())) == (["LS"], ["Glob", "LS"])
    assert before.messages[:4] == after.messages[:4] == fold(root, at_work.swarm.journal(root)).messages
    spans: list[Span] = []
    reader = JournalReader(at_work.swarm.store, "test", lambda found: spans.extend(found) or True)
    wait_for("telemetry has read it", reader.read)
    told = Counter(span.name.split()[0] for span in spans if span.job_id == made.id)
    assert told["chat"] == 2, "what it had said in the old job is that one's"
    again = read_past(at_work.swarm.store, made.id)
    assert {one.outcome for one in check_requests(again)} == {"same"}
    assert json.loads(again.documents[again.fields["definitions"]])["definitions"]["probe"]["prompt"] == "Be thorough."
    (agents / "probe.md").unlink()
    with pytest.raises(ConfigurationError, match="has the type 'probe', which does not exist here"):
        go_on(at_work.swarm, past, wanted, lambda _: url)


def test_every_request_of_a_job_would_be_sent_again_and_a_changed_one_is_found(team: Team) -> None:
    past, _ = team
    checked = list(check_requests(past))
    assert Counter(one.outcome for one in checked) == {"same": len(checked)} and len(checked) >= 10
    entries = past.agents[past.root].entries
    next(one for one in entries if one.document["kind"] == "tool_finished").document["text"] += " "
    differing = [(one.agent_id, one.turn) for one in check_requests(past) if one.outcome == "differs"]
    assert differing == [(past.root, turn) for turn in range(2, 8)]


def _copied(past: Past) -> Past:
    file = io.StringIO()
    write_lines(past, file.write)
    return read_lines(io.StringIO(file.getvalue()), "a file")


def test_a_job_is_taken_out_and_put_into_another_redis_where_it_goes_on_with_nothing_it_may_not(
    at_work: Fleet, unmanned: Fleet, team: Team
) -> None:
    past, serve = team
    store = open_store(unmanned)
    copied = freeze(_copied(past))
    assert import_past(store, copied, names={"root": copied.root}).publish == []
    view = store.jobs.get(past.job_id)
    assert (view.state, view.text, view.agents) == ("completed", past.fields["text"], 3)
    again = read_past(store, past.job_id)
    assert {one.id: one.entries for one in again.agents.values()} == {
        one.id: one.entries for one in past.agents.values()
    }
    assert again.events == past.events and again.documents == past.documents
    assert list(check_requests(again)) == list(check_requests(past))
    with pytest.raises(ConfigurationError, match="exists already"):
        import_past(store, freeze(_copied(past)))
    # Put in here under another name: it goes on, with this person's rules, and no server of its own.
    stranger = _copied(past)
    for agent in stranger.agents.values():
        spec = agent.spec | {
            "job_id": "job-00000000deadbeef",
            "mode": "bypassPermissions",
            "network": True,
            "folders": ["/etc"],
        }
        agent.fields["spec"] = json.dumps(spec)
        agent.fields["job"] = "job-00000000deadbeef"
    stranger.job_id, stranger.fields["imported"] = "job-00000000deadbeef", "1"
    made = go_on(at_work.swarm, stranger, Resumption(stranger.root, 1, "otherwise", workspace=at_work.workspace), serve)
    assert made.job.wait(60).text == "did it otherwise" and not made.restored
    spec = at_work.swarm.store.agents.spec(made.job.view().root_id)
    assert (spec.mode, spec.network, spec.folders, spec.workspace) == ("acceptEdits", False, [], str(at_work.workspace))


@pytest.mark.parametrize("what", ["secrets", "words"])
def test_what_is_not_to_be_read_is_taken_out(at_work: Fleet, unmanned: Fleet, team: Team, what: Any) -> None:
    past, serve = team
    copied = _copied(redact(past, what))
    text = json.dumps(
        [
            copied.fields,
            [(a.fields, [e.document for e in a.entries], a.mail) for a in copied.agents.values()],
            copied.events,
        ]
    )
    assert "sk-abcdefghij" not in text and ("of the mate" in text) is (what == "secrets")
    assert [e.document["kind"] for e in copied.agents[past.root].entries] == [
        e.document["kind"] for e in past.agents[past.root].entries
    ]
    renamed = freeze(_copied(past))
    renamed.job_id = "job-00000000deadbeef"
    with pytest.raises(ConfigurationError, match="or one with its agents"):
        import_past(at_work.swarm.store, renamed)
    assert import_past(open_store(unmanned), freeze(copied)).publish == []
    if what == "words":
        with pytest.raises(ConfigurationError, match="without its words"):
            go_on(at_work.swarm, copied, Resumption(past.root, 1), serve)


def test_a_file_that_was_cut_off_or_is_none_is_refused() -> None:
    whole = '{"t":"swarm-export","v":1,"job":"job-1","redacted":""}\n{"t":"job","fields":{"root":"agent-1"}}\n'
    assert read_lines(io.StringIO(whole + '{"t":"end","records":2}\n'), "f").root == "agent-1"
    with pytest.raises(ConfigurationError, match="f is incomplete after line 2"):
        read_lines(io.StringIO(whole), "f")
    with pytest.raises(ConfigurationError, match="f, line 1: not a record of an exported job"):
        read_lines(io.StringIO("hello\n"), "f")
    with pytest.raises(ConfigurationError, match=r"'job-\.\./x' is not a valid job id"):
        read_lines(io.StringIO(whole.replace("job-1", "job-../x")), "f")
    with pytest.raises(ConfigurationError, match=r"line 3: .*'agent-\.\./x' is not a valid agent id"):
        read_lines(io.StringIO(whole + '{"t":"agent","id":"agent-../x","fields":{}}\n'), "f")
    with pytest.raises(ConfigurationError, match="has version 2"):
        read_lines(io.StringIO('{"t":"swarm-export","v":2,"job":"j"}\n'), "f")


def test_two_jobs_are_compared_by_place_and_the_first_turn_in_which_they_part(at_work: Fleet, team: Team) -> None:
    past, serve = team
    other = go_on(at_work.swarm, past, Resumption(past.root, 1, "otherwise", files="here"), serve).job
    assert other.wait(60).state == "completed"
    wait_for("all have ended", lambda: all(agent.ended for agent in other.agents()))
    found = compare(past, read_past(at_work.swarm.store, other.id))
    parted = {one.place: (one.turns, one.diverges) for one in found.agents}
    assert parted == {"build": ((7, 2), 2), "build / general-purpose: f": ((2, 2), None)}
    assert found.only == (["build / ada"], []) and found.totals["agents"] == (3, 2)
    assert found.agents[0].replies[0].startswith("TeamCreate") and found.agents[0].replies[1] == "did it otherwise"


def _swarm(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_the_commands_take_a_job_out_read_it_check_it_and_go_on_from_it(
    at_work: Fleet, team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past, serve = team
    monkeypatch.setenv("SWARM_REDIS_URL", at_work.url)
    monkeypatch.setenv("SWARM_STATE_DIR", str(at_work.settings.state_folder()))
    file = tmp_path / "job.jsonl.gz"
    assert _swarm("export", past.job_id, "-o", str(file), "--redact", "secrets").exit_code == 0
    assert file.stat().st_size > 1_000
    refused = _swarm("import", str(file))
    assert refused.exit_code == 1 and "exists already" in str(refused.exception)
    lines = _swarm("replay", past.job_id, "--until", "12").stdout.splitlines()
    assert 3 < len(lines) <= 12 and "started job-" in lines[0] and all(int(line.split()[0]) <= 12 for line in lines)
    checked = _swarm("replay", past.job_id, "--check")
    assert checked.exit_code == 0 and "requests unchanged, 0 different" in checked.stdout
    assert _swarm("replay", past.job_id, "--with", "x").exit_code == 2
    scenario = tmp_path / "team.yaml"
    scenario.write_text(_TEAM)
    going = ("replay", past.job_id, "--from", "root:1", "--with", "otherwise", "--rehearse", str(scenario))
    command = f"echo $SWARM_JOB_ID; test $(cat a.txt) = one && mkdir {tmp_path}/once 2>/dev/null"
    made = _swarm(*going, "--times", "2", "--score", command)
    heading, *rows = (line.split() for line in made.stdout.splitlines())
    assert made.exit_code == 1 and "1 of 2 passed" in made.stderr and heading[:3] == ["job", "state", "score"]
    assert [row[1:3] for row in rows] == [["completed", "passed"], ["completed", "failed"]]
    assert [row[0] for row in rows] == [row[-1] for row in rows] and rows[0][0] != rows[1][0], "the last line is shown"
    compared = _swarm("diff", past.job_id, rows[0][0]).stdout
    assert "build: parts at turn 2 of 7 | 2" in compared and "only a: build / ada" in compared
    told = json.loads(_swarm("compare", past.job_id, rows[0][0], "--json").stdout)
    assert told["figures"]["agents"] == [3, 2] and told["figures"]["turns"][0] > told["figures"]["turns"][1]
    assert told["tools"]["TeamCreate"] == [1, 0] and told["answers"][1] == "did it otherwise"
    assert {name: pair[0] for name, pair in told["files"].items()}.keys() >= {"a.txt"}, told["files"]
    ended = go_on(at_work.swarm, past, Resumption(past.root, 1, "otherwise"), serve).job
    root = ended.wait(60).root_id
    resumed = _swarm("resume", ended.id, "--with", "otherwise, again")
    assert resumed.stdout.strip() == ended.id
    wait_for("it has gone on", lambda: len(_replies(at_work, root)) == 3)
    mail = [entry.text for entry in at_work.swarm.journal(root) if entry.kind == "mail"]
    assert "otherwise, again" in mail[-1]


def test_what_a_person_cancelled_goes_on_as_another_job(
    at_work: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_REDIS_URL", at_work.url)
    monkeypatch.setenv("SWARM_STATE_DIR", str(at_work.settings.state_folder()))
    scenario = tmp_path / "slow.yaml"
    scenario.write_text("""
name: slow
rules:
  - when: {last_text: 'Continue where you stopped'}
    reply: {text: went on}
  - when: {turn: 0}
    reply: {tools: [{name: LS, input: {}}]}
  - reply: {text: never, latency_seconds: 100}
""")
    server = at_work.rehearse(scenario.read_text())
    job = at_work.swarm.submit("go", agent="build", workspace=at_work.workspace, base_url=server.url)
    wait_for("it is in its second turn", lambda: job.view().turns == 1)
    assert _swarm("resume", job.id).exit_code == 1, "it is still at work"
    job.cancel()
    made = _swarm("resume", job.id, "--rehearse", str(scenario))
    new = at_work.swarm.job(made.stdout.splitlines()[0])
    assert new.id != job.id and new.wait(60).text == "went on" and job.view().state == "cancelled"
    wait_for("the server of its model has left", lambda: not running("--until", new.id))


def said_by(store: Store, job_id: str) -> list[tuple[str, str]]:
    """All replies of a job by agent, without the ids of calls."""
    past = read_past(store, job_id)
    return sorted(
        (past.agents[agent].spec["prompt"], json.dumps([{**block, "id": "", "signature": ""} for block in entry.content]))
        for agent in past.agents
        for entry in past.journal(agent)
        if isinstance(entry, Assistant)
    )  # fmt: skip


def test_a_job_makes_a_scenario_that_plays_it_again(at_work: Fleet, tmp_path: Path) -> None:
    secret = "sk-ant-" + "a1B2" * 12
    (at_work.workspace / "page.txt").write_text("a page\n")
    first = at_work.rehearse(f"""
name: first
rules:
  - when: {{prompt: '^find', turn: 0}}
    reply: {{thinking: where, tools: [{{name: Read, input: {{file_path: {at_work.workspace}/page.txt}}}}]}}
  - when: {{prompt: '^find'}}
    reply: {{text: 'found, with {secret}'}}
  - when: {{turn: 0}}
    reply:
      tools:
        - {{name: Agent, input: {{description: one, prompt: find one}}}}
        - {{name: Agent, input: {{description: two, prompt: find two}}}}
  - reply: {{text: both found}}
""")  # fmt: skip
    job = at_work.submit("Find both.", first)
    assert job.wait(30).text == "both found"
    made = CliRunner().invoke(
        app, ["export", job.id, "--scenario", "-o", str(tmp_path / "job.yaml")], env=at_work.environment()
    )
    assert made.exit_code == 0, made.output
    scenario = (tmp_path / "job.yaml").read_text()
    assert secret not in scenario and str(at_work.workspace) not in scenario
    again = at_work.submit("Find both.", at_work.rehearse(scenario))
    assert again.wait(30).text == "both found"
    store = at_work.swarm.store
    told = [(prompt, words.replace(secret, "[a secret was here]")) for prompt, words in said_by(store, job.id)]
    assert said_by(store, again.id) == told
