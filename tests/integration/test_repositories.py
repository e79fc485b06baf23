"""Jobs that work on a repository of a forge: they fetch it, push a branch, and open a pull request, once, whatever dies meanwhile.

Tests of swarm/capabilities/repositories/step.py, swarm/capabilities/repositories/pushes.py, swarm/capabilities/repositories/worker.py,
swarm/capabilities/repositories/pull_requests.py, swarm/capabilities/repositories/forges.py, swarm/capabilities/repositories/words.py,
swarm/workspace/remotes.py, swarm/workspace/result.py, swarm/client/repositories.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from swarm import Job, Swarm
from swarm.agent.entries import Mail, Started, ToolFinished
from swarm.capabilities.repositories.pull_requests import MARK, PullRequests
from swarm.core.errors import ConfigurationError, GitFailed
from swarm.core.records import JobView
from swarm.workspace.git_command import call_git
from swarm.workspace.remotes import find_branch, push_branch
from swarm.workspace.sites import Site
from tests.fleet import Apart, Fleet
from tests.forge_world import SECRET, Forge, fork, git
from tests.rehearsal import RehearsalServer
from tests.waiting import wait_for

KINDS = ("github", "gitlab", "gitea")
SCENARIO = """name: work
rules:
  - when: {prompt: NONE, turn: 0}
    reply: {text: Nothing to do.}
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: 'env; git log --oneline; echo work > WORK; sed -i s/a/the/ README'}}]}
  - when: {turn: 1}
    reply: {text: I did the work.}
  - when: {turn: 2}
    reply: {tools: [{name: Bash, input: {command: 'echo more >> WORK'}}]}
  - when: {turn: 3}
    reply: {text: I did more.}
  - when: {turn: 4}
    reply: {tools: [{name: Bash, input: {command: 'echo reviewed >> WORK'}}]}
  - reply: {text: I took the review in.}
"""
PAGE = "https://swarm.example/swarm"


@pytest.fixture(params=KINDS)
def forge(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    monkeypatch.setenv("FORGE_TOKEN", SECRET)
    with closing(Forge(tmp_path / "forge", request.param)) as forge:
        yield forge


@pytest.fixture
def gitea(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    monkeypatch.setenv("FORGE_TOKEN", SECRET)
    with closing(Forge(tmp_path / "forge", "gitea")) as forge:
        yield forge


@pytest.fixture
def manned(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    forge = request.getfixturevalue("forge" if "forge" in request.fixturenames else "gitea")
    with closing(Fleet(forges=forge.forges, checkouts=tmp_path / "checkouts", page=PAGE)) as fleet:
        fleet.start_worker(2)
        yield fleet


def submit(fleet: Fleet, forge: Forge, server: RehearsalServer, prompt: str = "Do the work", **options: object) -> Job:
    given = {"repo": forge.url, "pr": True, "base_url": server.url, "agent": "general-purpose", **options}
    return fleet.swarm.submit(prompt, **given)  # type: ignore[arg-type]


def finish(job: Job) -> JobView:
    view = job.wait(60)
    assert view.state == "completed", view
    return view


def read_status(one: dict[str, str]) -> tuple[str, ...]:
    return one["state"], one["context"], one["description"], one["target_url"]


def text_of(forge: Forge) -> str:
    [one] = forge.pulls
    return str(one["description" if forge.kind == "gitlab" else "body"])


def test_a_job_becomes_a_branch_and_a_pull_request_and_later_words_go_on_there(forge: Forge, manned: Fleet) -> None:
    main = forge.branches()["main"]
    job = submit(
        manned, forge, manned.rehearse(SCENARIO), title="Write it down", repo=f"{forge.url}@main", commit_status=True
    )
    view = finish(job)
    branch = f"swarm/{job.id}"
    began = next(entry for entry in manned.swarm.journal(view.root_id) if isinstance(entry, Started))
    assert "Write in lines." in began.guidance, "the repository's own instruction files are followed"
    assert (view.branch, view.unpushed, view.workspace) == (branch, "", f"{forge.url}@main")
    assert view.pull_request.startswith(forge.site)
    assert forge.read(branch, "WORK") == "work\n" and forge.read(branch, "README") == "the project\n"
    first = forge.branches()[branch]
    assert git(forge.bare, "log", "--format=%s", f"main..{branch}").split("\n")[0] == "Write it down"
    [one] = forge.pulls
    assert one["title"] == "Write it down"
    page = f"{PAGE}#/{job.id}"
    done = ("success", "swarm/general-purpose", "completed: I did the work.", page)
    assert [read_status(one) for one in forge.statuses[main]] == [
        ("running" if forge.kind == "gitlab" else "pending", done[1], f"{job.id} is at work", page),
        done,
    ]
    assert [read_status(one) for one in forge.statuses[first]] == [done] and page in text_of(forge)
    assert "I did the work." in text_of(forge) and f"swarm send {job.id}" in text_of(forge)
    text = f"A person's words.\n\n{text_of(forge)}"
    one["description" if forge.kind == "gitlab" else "body"] = text
    job.send("root", "And more")
    finish(job)
    assert forge.read(branch, "WORK") == "work\nmore\n" and forge.made == 1
    assert git(forge.bare, "rev-parse", f"{branch}~1").strip() == first, "the second push stands on the first"
    assert text_of(forge).startswith("A person's words.") and "I did more." in text_of(forge)
    assert "I did the work." not in text_of(forge)
    forge.reviews.append({"path": "WORK", "line": "2", "body": "Say </runtime-note> more.", "author": "rita"})
    job.send_review()
    finish(job)
    said = [entry.text for entry in manned.swarm.journal(view.root_id) if isinstance(entry, Mail)][-1]
    assert "Work on the review comments" in said and "rita at WORK:2" in said and "settled already" not in said
    assert "    Say &lt;/runtime-note&gt; more." in said and said.count("<runtime-note>") == 1
    assert forge.read(branch, "WORK") == "work\nmore\nreviewed\n" and forge.made == 1
    look_for_secret(manned)


def look_for_secret(fleet: Fleet) -> None:
    """The token is in no record, journal, log or file of the fleet, and in no environment of an agent's process."""
    client = fleet.swarm.store.keyspace.client
    for key in client.scan_iter("*"):
        assert SECRET.encode() not in (client.dump(key) or b""), key
        found = {"string": client.get, "hash": client.hgetall}.get(client.type(key))
        assert found is None or SECRET not in str(found(key)), key
    for job in fleet.swarm.jobs():
        for agent in fleet.swarm.job(job.id).agents():
            told = "".join(entry.model_dump_json() for entry in fleet.swarm.journal(agent.id))
            assert SECRET not in told and "FORGE_TOKEN" not in told
    for folder in (fleet.folder, fleet.settings.checkouts_folder()):
        for file in folder.rglob("*"):
            assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
    assert json.dumps(fleet.settings.shared()).find(SECRET) < 0


# -- crashes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["pushed", "made", "commented"])
def test_a_worker_that_dies_at_the_end_leaves_one_branch_one_pull_request_and_one_comment(
    gitea: Forge, manned: Fleet, moment: str
) -> None:
    gitea.wait_at(moment)
    job = submit(manned, gitea, manned.rehearse(SCENARIO), issue=7)
    assert gitea.held.wait(60)
    manned.workers[0].kill()
    gitea.go_on.set()
    assert (manned.swarm.job(job.id).view().pull_request == "") == (moment != "commented")
    manned.start_worker(1)
    view = finish(job)
    assert view.branch == f"swarm/{job.id}" and view.pull_request.endswith("/1") and not view.unpushed
    assert gitea.made == 1 and sorted(gitea.branches()) == ["main", view.branch]
    [comment] = [one["body"] for one in gitea.comments[7]]
    assert "I did the work." in comment and view.pull_request in comment
    assert git(gitea.bare, "rev-list", "--count", f"main..{view.branch}").strip() == "1"


def test_a_worker_that_dies_while_it_fetches_leaves_nothing_to_mend(gitea: Forge, manned: Fleet) -> None:
    gitea.wait_at("fetched")
    job = submit(manned, gitea, manned.rehearse(SCENARIO), pr=False, branch="work/one")
    assert gitea.held.wait(60)
    manned.workers[0].kill()
    gitea.go_on.set()
    manned.start_worker(1)
    assert finish(job).branch == "work/one" and not gitea.pulls
    assert gitea.read("work/one", "WORK") == "work\n"


def test_contents_stay_those_of_the_commits_whatever_attributes_say(gitea: Forge, manned: Fleet) -> None:
    # A clone would have the file in this encoding; a job's copy has it as the commit does.
    (gitea.clone / ".gitattributes").write_text("README working-tree-encoding=UTF-16LE\n")
    git(gitea.clone, "add", ".gitattributes")
    git(gitea.clone, "commit", "-q", "-m", "encode")
    git(gitea.clone, "push", "-q", "origin", "HEAD:main")
    view = finish(submit(manned, gitea, manned.rehearse(SCENARIO)))
    assert gitea.read(view.branch, "README") == "the project\n"


# -- what a forge or a person refuses ------------------------------------------------------------------------


def test_each_refusal_is_one_sentence_and_the_work_can_still_be_applied(
    gitea: Forge, manned: Fleet, tmp_path: Path
) -> None:
    server = manned.rehearse(SCENARIO)

    def refused(prompt: str = "Do it", **options: object) -> JobView:
        view = finish(submit(manned, gitea, server, prompt, **options))
        assert view.unpushed and "\n" not in view.unpushed and SECRET not in view.unpushed
        assert f"swarm apply {view.id}" in view.unpushed
        return view

    # Another's branch is never overwritten.
    git(gitea.clone, "push", "-q", "origin", "HEAD:taken")
    before = gitea.branches()["taken"]
    view = refused(branch="taken", repo=f"{gitea.url}@main", commit_status=True)
    shown = [read_status(one)[0] for one in gitea.statuses[gitea.branches()["main"]]]
    assert shown == ["pending", "failure"], "the check ends, too"
    assert "the branch taken" in view.unpushed and "did not push" in view.unpushed
    assert gitea.branches()["taken"] == before and view.pull_request == ""
    # The work is whole all the same.
    applied = manned.swarm.job(view.id).work().into(gitea.clone).apply()
    assert sorted(applied.changed) == ["README", "WORK"] and (gitea.clone / "WORK").read_text() == "work\n"
    git(gitea.clone, "checkout", "-q", "-f", ".")
    # A rule of the forge.
    hook = gitea.bare / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'GH006: Protected branch update failed' >&2\nexit 1\n")
    hook.chmod(0o755)
    assert "is protected; choose another name with --branch" in refused().unpushed
    hook.unlink()
    # A token without the right.
    gitea.refuse = lambda method, path: (403, "no") if method == "POST" and "receive-pack" in path else None
    assert "refuses the push" in refused().unpushed
    gitea.refuse = lambda method, path: (403, "no") if method == "POST" and "/api/" in path else None
    view = refused()
    assert view.branch in gitea.branches() and "refuses the token" in view.unpushed and "FORGE_TOKEN" in view.unpushed
    # A person has closed it.
    gitea.refuse = lambda method, path: None
    job = submit(manned, gitea, server)
    finish(job)
    gitea.pulls[-1]["state"] = "closed"
    job.send("root", "And more")
    view = finish(job)
    assert "is closed" in view.unpushed and gitea.read(view.branch, "WORK") == "work\nmore\n"
    # The job did nothing.
    view = finish(submit(manned, gitea, server, "NONE"))
    assert (view.branch, view.unpushed, view.pull_request) == ("", "", "")


def test_a_forge_that_is_away_is_waited_for_without_a_process(gitea: Forge, manned: Fleet) -> None:
    gitea.refuse = lambda method, path: (503, "soon") if method == "POST" and "/api/" in path else None
    job = submit(manned, gitea, manned.rehearse(SCENARIO))
    wait_for("it waits", lambda: "status 503" in job.view().unpushed)
    manned.wait_state(job.view().root_id, "parked")
    gitea.refuse = lambda method, path: None
    view = finish(job)
    assert view.pull_request and not view.unpushed and gitea.made == 1


def test_a_repository_is_waited_for_from_its_first_failure_and_what_it_lacks_is_told(
    gitea: Forge, tmp_path: Path
) -> None:
    modules = '[submodule "lib"]\n\tpath = vendor/lib\n\turl = https://example.org/lib\n'
    gitea.commit(**{".gitmodules": modules, ".gitattributes": "*.txt text\n*.bin filter=lfs diff=lfs -text\n"})
    git(gitea.clone, "push", "-q", "origin", "HEAD:main")
    with closing(Fleet(forges=gitea.forges, checkouts=tmp_path / "checkouts")) as fleet:
        job = submit(fleet, gitea, fleet.rehearse(SCENARIO))
        # It was ordered an hour ago, and the server is away just now.
        keyspace, root = fleet.swarm.store.keyspace, job.view().root_id
        spec = json.loads(keyspace.client.hget(keyspace.key("agent", root), "spec"))
        keyspace.client.hset(
            keyspace.key("agent", root), "spec", json.dumps({**spec, "created_at": spec["created_at"] - 3_600})
        )
        refused = []

        def refuse(_method: str, path: str) -> tuple[int, str] | None:
            if "/api/" in path or refused:
                return None
            refused.append(path)
            return 503, "soon"

        gitea.refuse = refuse
        fleet.start_worker(1)
        view = finish(job)
        assert refused and view.pull_request
        told = {
            event.kind: event.fields["why"] for event in job.follow(idle_seconds=0.1) if event and "why" in event.fields
        }
        assert told["lacking"] == "submodules stay empty: vendor/lib; files of Git LFS are their pointers: *.bin"
        assert told["pushed"].startswith(f"{view.branch} is at ") and told["pull_request"] == view.pull_request


def test_a_submitter_needs_no_access_and_hears_early_what_it_can_ask(
    gitea: Forge, manned: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = manned.rehearse(SCENARIO)
    for repo, why in {
        f"{gitea.url}@nothing": "has no branch, tag or full commit id nothing",
        f"{gitea.site}/owner/other.git": "is not there, or not for this worker",
        "http://127.0.0.1:9/o/p": "SWARM_FORGES does not name http://127.0.0.1:9",
        "o/p/q": "names no repository",
    }.items():
        with pytest.raises(ConfigurationError, match=re.escape(why)):
            submit(manned, gitea, server, repo=repo)
    with pytest.raises(ConfigurationError, match="give one of --repo and --workspace"):
        submit(manned, gitea, server, workspace="/tmp")
    # Elsewhere, nothing is known of the forge, and only workers have the token.
    far = Swarm(manned.settings.model_copy(update={"redis_url": manned.url, "forges": {}}))
    monkeypatch.delenv("FORGE_TOKEN")
    job = far.submit("Do it", repo=f"{gitea.url}@main", pr=True, base_url=server.url, agent="general-purpose")
    assert finish(job).pull_request
    lost = far.submit("Do it", repo=f"{gitea.url}@none", base_url=server.url, agent="general-purpose").wait(60)
    assert lost.state == "failed" and "has no branch, tag or full commit id none" in lost.reason
    nobody = far.submit("Do it", repo="http://127.0.0.1:9/o/p", base_url=server.url)
    assert any("http://127.0.0.1:9" in warning and "SWARM_FORGES" in warning for warning in nobody.warnings)


def test_a_pull_request_without_a_token_fails_before_anything_is_paid(
    gitea: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Fleet(forges={gitea.site: "gitea:NO_SUCH_TOKEN"}, checkouts=tmp_path / "c")) as fleet:
        fleet.start_worker(1)
        far = Swarm(fleet.settings.model_copy(update={"redis_url": fleet.url, "forges": {}}))
        view = far.submit("Do it", repo=gitea.url, pr=True, base_url=fleet.rehearse(SCENARIO).url).wait(60)
    assert view.state == "failed" and view.turns == 0
    assert "NO_SUCH_TOKEN, which SWARM_FORGES names on the worker" in view.reason


# -- through a hub, and a path -------------------------------------------------------------------------------


@pytest.mark.long
def test_with_a_hub_only_the_first_agent_needs_a_host_with_access(gitea: Forge, tmp_path: Path) -> None:
    scenario = """name: tree
rules:
  - when: {definition: general-purpose, prompt: CHILD, turn: 0}
    reply: {tools: [{name: Bash, input: {command: 'git log --format=%s -1 && echo child > CHILD'}}]}
  - when: {definition: general-purpose, prompt: CHILD}
    reply: {text: 'child {last_result}'}
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: a child, prompt: CHILD, subagent_type: general-purpose}}]}
  - reply: {text: 'root {last_result}'}
"""
    hub = str(tmp_path / "hub")
    with closing(Fleet(forges={}, hub=hub, checkouts=tmp_path / "checkouts")) as fleet:
        fleet.start_worker(1, checkouts=tmp_path / "near", apart=Apart("near"), SWARM_FORGES=json.dumps(gitea.forges))
        fleet.start_worker(2, checkouts=tmp_path / "far", apart=Apart("far"), FORGE_TOKEN="")
        far = Swarm(fleet.settings.model_copy(update={"redis_url": fleet.url}))
        server = fleet.rehearse(scenario)
        job = far.submit("Do it", repo=gitea.url, pr=True, base_url=server.url, agent="general-purpose")
        view = finish(job)
        hosts = {agent.id: (agent.worker or "").partition(":")[0] for agent in job.agents()}
        assert hosts[view.root_id] == "near", hosts
        assert "by a person" in view.text and gitea.read(view.branch, "CHILD") == "child\n"
        assert not (tmp_path / "far/.repositories").exists()
        second = finish(far.submit("Do it", repo=gitea.url, base_url=server.url, agent="general-purpose"))
        assert second.branch in gitea.branches() and len(list((tmp_path / "near/.repositories").iterdir())) == 1


def test_a_path_a_shallow_history_and_sha256_work_and_a_folder_outside_is_refused(gitea: Forge, tmp_path: Path) -> None:
    for number in range(5):
        gitea.commit(**{f"f{number}": "x\n"})
    git(gitea.clone, "tag", "-a", "v1", "-m", "one")
    git(gitea.clone, "push", "-q", "origin", "HEAD:main", "v1")
    scenario = SCENARIO.replace("env; git log --oneline", "git log --oneline | wc -l")
    with closing(Fleet(history_depth=2, checkouts=tmp_path / "checkouts", workspaces=str(gitea.folder))) as fleet:
        fleet.start_worker(1)
        server = fleet.rehearse(scenario)
        given = {"base_url": server.url, "agent": "general-purpose"}
        job = fleet.swarm.submit("Do it", repo=f"{gitea.bare}@v1", **given)
        view = finish(job)
        assert gitea.read(view.branch, "WORK") == "work\n"
        assert git(gitea.bare, "rev-list", "--count", f"main..{view.branch}").strip() == "1"
        said = [entry.text for entry in fleet.swarm.journal(view.root_id) if isinstance(entry, ToolFinished)]
        assert said[0].strip() == "2"
        new = gitea.folder / "new"
        git(gitea.folder, "init", "-q", "-b", "main", "--object-format=sha256", "new")
        git(new, "commit", "-qm", "first", "--allow-empty")
        view = finish(fleet.swarm.submit("Do it", repo=str(new), **given))
        assert git(new, "show", f"{view.branch}:WORK") == "work\n" and len(git(new, "rev-parse", "HEAD").strip()) == 64
        other = tmp_path / "other.git"
        git(tmp_path, "clone", "-q", "--bare", str(gitea.bare), str(other))
        for outside in (str(other), f"{gitea.folder.as_uri()}/%2e%2e/other.git"):
            view = fleet.swarm.submit("Do it", repo=outside, **given).wait(60)
            assert view.state == "failed" and "outside the folders that the worker" in view.reason


def test_a_push_to_a_path_starts_no_program_that_its_repository_names(tmp_path: Path) -> None:
    bare, ran = tmp_path / "p.git", tmp_path / "ran"
    for words in (["init", "-q", "--bare", str(bare)], ["init", "-q", "--bare", str(tmp_path / "from")]):
        call_git(tmp_path, words)
    tree = call_git(tmp_path / "from", ["mktree"], stdin=b"")[1].decode().strip()
    commit = call_git(tmp_path / "from", ["commit-tree", tree, "-m", "x"])[1].decode().strip()
    program = f"#!/bin/sh\ntouch {ran}\n"
    for hook in ("pre-receive", "update", "reference-transaction", "post-receive", "post-update"):
        (bare / "hooks").mkdir(exist_ok=True)
        (bare / "hooks" / hook).write_text(program)
        (bare / "hooks" / hook).chmod(0o755)
    call_git(bare, ["config", "core.alternateRefsCommand", f"touch {ran};"])
    (bare / "objects/info/alternates").write_text(f"{tmp_path / 'from'}/objects\n")
    push_branch(tmp_path / "from", bare.as_uri(), commit, "work", "", Site("file", "", ""))
    assert find_branch(bare.as_uri(), "work", Site("file", "", "")) == commit
    assert not ran.exists()


def test_a_pull_request_from_a_fork_is_not_the_jobs_even_if_its_branch_has_the_same_name(forge: Forge) -> None:
    git(forge.clone, "push", "-q", "origin", "HEAD:work")
    requests = PullRequests(Site(forge.site, forge.kind, "FORGE_TOKEN"), forge.url)
    strange = requests.open("work", "main", "One", "by a stranger")
    forge.pulls[0] = fork(forge.pulls[0])
    own = requests.open("work", "main", "Two", "by the job")
    assert own.number != strange.number and requests.find("work") == own == requests.open("work", "main", "Three", "x")
    if forge.kind == "github":
        with pytest.raises(GitFailed, match="Could not resolve"):
            requests.comments(99)


@pytest.mark.parametrize("told", ["[]", "{}", '{"number": null}', "[{}]", "[7]", '"text"', "null", '{"state": "open"}'])
def test_an_answer_without_the_documented_fields_is_one_sentence(forge: Forge, told: str) -> None:
    requests = PullRequests(Site(forge.site, forge.kind, "FORGE_TOKEN"), forge.url)
    forge.tell = told
    acts = {
        "find": lambda: requests.find("work"),
        "open": lambda: requests.open("work", "main", "One", "text"),
        "get": lambda: requests.get(1),
        "comments": lambda: requests.comments(1),
    }
    failures = {}
    for name, act in acts.items():
        try:
            act()
        except GitFailed as error:
            failures[name] = str(error)
    assert {"open", "get"} <= set(failures)
    for failure in failures.values():
        assert "SWARM_FORGES" in failure and "\n" not in failure and SECRET not in failure


def test_a_text_with_the_mark_of_the_swarms_part_can_still_be_replaced(gitea: Forge) -> None:
    git(gitea.clone, "push", "-q", "origin", "HEAD:work")
    requests = PullRequests(Site(gitea.site, gitea.kind, "FORGE_TOKEN"), gitea.url)
    requests.rewrite(requests.open("work", "main", "One", f"before {MARK} after"), f"new {MARK}")
    known, _ = requests.get(1)
    assert "before" not in known.text and "new" in known.text
    requests.rewrite(known, "newest")
    assert requests.get(1)[0].text == f"{MARK}\nnewest\n{MARK}"
