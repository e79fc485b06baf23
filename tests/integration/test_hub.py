"""The hub, as git meets it: what it takes, what it never changes, what it refuses, and what becomes of a job's repository.

Tests of swarm/cli/daemons.py, swarm/hub/probe.py, swarm/hub/backend.py, swarm/hub/repositories.py, swarm/hub/requests.py,
swarm/hub/server.py, swarm/hub/service.py, swarm/hub/maintenance.py.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from swarm import Settings
from swarm.hub.maintenance import HubMaintenance, Jobs
from swarm.hub.probe import find_trouble
from swarm.hub.repositories import RepositoryStore
from swarm.hub.requests import CommandReader, Query, RepositoryPlace, read_ask
from swarm.store.store import Store
from tests.fleet import Fleet
from tests.hub_world import TOKEN, Client, HubProcess
from tests.job_world import StoredJob, open_store
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    with closing(HubProcess(tmp_path_factory.mktemp("hub"))) as hub:
        yield hub


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path / "client")


def below(process: HubProcess) -> list[str]:
    """What git processes the hub has now."""
    found = psutil.Process(process.process.pid).children(recursive=True)
    return [one.name() for one in found if one.status() != psutil.STATUS_ZOMBIE]


# -- what it keeps --------------------------------------------------------------------------------------------


def test_a_ref_that_is_there_is_neither_changed_nor_deleted(hub: HubProcess, client: Client, tmp_path: Path) -> None:
    url, ref = f"{hub.url}/jobs/job-refs.git", "refs/swarm/a/1"
    first = client.commit(file="one")
    assert client.push(url, ref) == ""
    second = client.commit(file="two")
    assert "stale info" in client.push(url, ref)
    for wanted in (f":{ref}", f"+{second}:{ref}", f"{second}:refs/heads/main"):
        assert "403" in client.complain("push", "-q", url, wanted), wanted
    assert client.push(url, "refs/swarm/a/2") == ""
    assert client.git("ls-remote", url).split() == [first, ref, second, "refs/swarm/a/2"]
    branch = "refs/heads/swarm/job-refs"
    assert client.complain("push", "-q", url, f"{first}:{branch}") == ""
    assert client.complain("push", "-q", url, f"{second}:{branch}") == "", "a result goes forward"
    assert "rejected" in client.complain("push", "-q", "--force", url, f"{first}:{branch}"), "and never back"
    assert second in client.git("ls-remote", url, branch)
    other = Client(tmp_path / "other")
    other.git("fetch", "-q", url, f"+{ref}:{ref}")
    assert other.git("show", f"{ref}:file") == "one"


def test_what_a_project_has_in_common_is_pushed_once(hub: HubProcess, client: Client) -> None:
    client.commit(**{f"file{number}": f"{number}\n" * 100 for number in range(50)})
    base = f"{hub.url}/crew/base.git"
    assert client.push(base, "refs/swarm/base/one") == ""
    client.commit(file1="changed")
    assert client.push(f"{hub.url}/crew/job-one.git", "refs/swarm/a/1") == ""
    assert client.push(f"{hub.url}/other/job-two.git", "refs/swarm/a/1") == ""

    def held(place: str) -> int:
        told = subprocess.run(["git", "count-objects", "-v"], cwd=hub.folder / place, capture_output=True, text=True)
        counts = dict(line.split(": ") for line in told.stdout.splitlines())
        return int(counts["count"]) + int(counts["in-pack"])

    assert (held("crew/job-one.git"), held("other/job-two.git")) == (3, 55)


@pytest.mark.parametrize(
    ("command", "made"),
    [
        (f"{'0' * 40} {'a' * 40} refs/swarm/a/1\0report-status", True),
        (f"{'0' * 64} {'a' * 64} refs/swarm/a/1", True),
        (f"{'b' * 40} {'a' * 40} refs/swarm/a/1", False),
        (f"{'0' * 40} {'0' * 40} refs/swarm/a/1", False),
        (f"{'0' * 40} {'a' * 40} refs/heads/main", False),
        (f"{'b' * 40} {'a' * 40} refs/heads/swarm/job-1", True),
        (f"{'b' * 40} {'0' * 40} refs/heads/swarm/job-1", False),
        ("push-cert\0", False),
        ("", False),
    ],
)
def test_a_push_is_held_back_until_it_is_known_what_it_does_to_refs(command: str, made: bool) -> None:
    body = f"{len(command) + 4:04x}{command}0000PACK and the rest".encode()
    for step in (1, 7, len(body)):
        reader = CommandReader()
        passed = b"".join(reader.take(body[at : at + step]) for at in range(0, len(body), step))
        assert (passed == body, passed == b"", reader.refused == "") == (made, not made, made)


# -- what it refuses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "another"])
def test_nothing_is_done_without_the_token(hub: HubProcess, tmp_path: Path, token: str | None) -> None:
    stranger = Client(tmp_path / "stranger", token=token)
    stranger.commit(file="x")
    assert "could not read Username" in stranger.push(f"{hub.url}/jobs/job-stranger.git", "refs/swarm/a/1")
    assert not (hub.folder / "jobs" / "job-stranger.git").exists()


@pytest.mark.parametrize(
    "asked",
    [
        "GET /jobs/j.git/HEAD",
        "GET /jobs/j.git/objects/info/packs",
        "GET /jobs/j.git/config",
        "GET /jobs/j.git/info/refs",
        "GET /jobs/j.git/info/refs?service=git-upload-archive",
        "GET /jobs/../j.git/info/refs?service=git-upload-pack",
        "GET /jobs/%2e%2e/j.git/info/refs?service=git-upload-pack",
        "GET /jobs/.new-1.git/info/refs?service=git-upload-pack",
        "GET /a/b/c/d/e/j.git/info/refs?service=git-upload-pack",
        "GET /jobs/j.git/x.git/info/refs?service=git-upload-pack",
        "GET //jobs/j.git/info/refs?service=git-upload-pack",
        "GET /jobs/j.git/info/refs\n?service=git-upload-pack",
        "POST /jobs/j.git/git-receive-pack?x=1",
        "GET /jobs/j.git/git-receive-pack",
        "PUT /jobs/j.git/git-receive-pack",
    ],
)
def test_only_gits_own_requests_are_served(asked: str) -> None:
    method, _, target = asked.partition(" ")
    path, _, query = target.partition("?")
    assert read_ask(method, path, query) is None


def test_gits_own_requests_are_understood() -> None:
    place = RepositoryPlace("team/jobs", "job-1")
    assert read_ask("GET", "/team/jobs/job-1.git/info/refs", "service=git-receive-pack") == Query(place, "push", True)
    assert read_ask("POST", "/team/jobs/job-1.git/git-upload-pack", "") == Query(place, "fetch", False)


def test_git_says_what_is_not_there(hub: HubProcess, client: Client) -> None:
    assert "there is no repository jobs/job-none" in client.complain("fetch", "-q", f"{hub.url}/jobs/job-none.git")
    assert "serves only git repositories at" in client.complain("ls-remote", f"{hub.url}/{'x/' * 5}job.git")


def test_a_repository_has_its_share_and_the_hub_its_own(tmp_path: Path, client: Client) -> None:
    with closing(HubProcess(tmp_path / "small", SWARM_HUB_JOB_MIB="1", SWARM_HUB_MIB="3")) as small:
        for number in range(2):
            client.commit(big=os.urandom(700_000))
            push = ("push", "-q", f"{small.url}/jobs/job-big.git", "HEAD:refs/swarm/a/9")
            told = client.complain("-c", "http.extraHeader=Swarm-Optional: 1", *push)
            assert "no room" in told or "maximum allowed size" in told, "half of the room is kept for the job's work"
            told = client.push(f"{small.url}/jobs/job-big.git", f"refs/swarm/a/{number}")
            assert (told == "") is (number == 0), told
        assert "maximum allowed size" in told
        client.git("reset", "-q", "--hard", "HEAD~1")
        client.commit(small=os.urandom(100_000))
        job = f"{small.url}/jobs/job-big.git"
        wait_for("what was refused takes no room", lambda: "hub.push_failed" in small.text())
        assert client.push(job, "refs/swarm/a/2") == "", "what was refused takes no room"
        for name in ("b", "c", "d", "e"):
            client.commit(big=os.urandom(900_000))
            told = client.push(f"{small.url}/jobs/job-{name}.git", "refs/swarm/a/0", "HEAD~0")
        assert told, "there was no room left"
        assert client.git("ls-remote", job), "it still is read"
        assert small.stop() == 0


# -- who is slow, or means harm -------------------------------------------------------------------------------


def test_a_push_that_breaks_off_has_changed_nothing_and_leaves_no_process(hub: HubProcess, client: Client) -> None:
    url = f"{hub.url}/jobs/job-broken.git"
    client.commit(file="kept")
    assert client.push(url, "refs/swarm/a/1") == ""
    before = client.git("ls-remote", url)
    import base64

    known = base64.b64encode(f"swarm:{TOKEN}".encode()).decode()
    head = (
        f"POST /jobs/job-broken.git/git-receive-pack HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {known}\r\n"
        "Content-Type: application/x-git-receive-pack-request\r\nContent-Length: 100000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", hub.port)) as slow:
        slow.sendall(head.encode() + b"0094")
        wait_for("git waits for the rest", lambda: below(hub))
        assert client.git("ls-remote", url) == before, "others are served meanwhile"
    wait_for("its git is ended", lambda: not below(hub))
    assert client.git("ls-remote", url) == before
    assert "hub.push_broke_off" in hub.text()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"POST /jobs/j.git/git-upload-pack HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /jobs/j.git/git-upload-pack HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    ],
)
def test_nonsense_is_refused_and_does_no_harm(hub: HubProcess, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", hub.port), timeout=10) as stranger:
        stranger.sendall(sent)
        with suppress(OSError):
            stranger.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: _receive(stranger), b""))
    assert not answer or b" 40" in answer.split(b"\r\n")[0], answer
    assert not below(hub)
    asked = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=10)
    asked.request("GET", "/health")
    assert asked.getresponse().read() == b"ok\n"


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65_536)
    except ConnectionError:
        return b""


def test_what_is_pushed_is_never_run(hub: HubProcess, client: Client) -> None:
    """Attributes, submodules and settings that a tree holds are bytes."""
    mark = hub.folder.parent / "ran"
    client.commit(
        **{
            ".gitattributes": "* filter=evil diff=evil\n",
            ".gitmodules": f'[submodule "x"]\n\tpath = x\n\turl = ext::touch {mark}\n\tupdate = !touch {mark}\n',
            "config": f"[core]\n\tfsmonitor = touch {mark}\n",
        }
    )
    assert client.push(f"{hub.url}/jobs/job-evil.git", "refs/swarm/a/1") == ""
    assert not mark.exists()


@pytest.mark.parametrize(
    ("token", "path", "told"),
    [(TOKEN, "", ""), ("another", "", "set SWARM_HUB_TOKEN to"), (TOKEN, ":1", "start it (`swarm hub`)")],
)
def test_doctor_tells_whether_the_hub_can_be_used(hub: HubProcess, token: str, path: str, told: str) -> None:
    url = f"http://127.0.0.1{path}" if path else hub.url
    trouble, remedy = find_trouble(Settings(hub=url, hub_token=token))
    assert bool(trouble) is bool(told) and told in remedy, (trouble, remedy)


# -- what becomes of a repository -----------------------------------------------------------------------------


def test_repositories_of_jobs_that_are_no_more_are_removed_whole(
    unmanned: Fleet, hub: HubProcess, client: Client, tmp_path: Path
) -> None:
    store = open_store(unmanned)
    lives = StoredJob(store, unmanned)
    client.commit(file="x")
    for name in (lives.job_id, "job-expired"):
        assert client.push(f"{hub.url}/kept/{name}.git", "refs/swarm/a/1") == ""
    assert client.push(f"{hub.url}/kept/base.git", "refs/swarm/base/x") == ""

    async def look(prefix: str, *, young_seconds: float = 0.0, retention_seconds: float = 60.0) -> list[str]:
        repositories = RepositoryStore(hub.folder / "kept", job_bytes=1, all_bytes=1)
        jobs = Jobs(Store(store.keyspace.client, prefix), tmp_path / f"mark-{prefix}")
        await HubMaintenance(
            repositories, jobs, retention_seconds=retention_seconds, young_seconds=young_seconds
        ).look()
        return sorted(place.name for place in repositories.places())

    everything = ["base", "job-expired", lives.job_id]
    assert asyncio.run(look(store.keyspace.prefix, young_seconds=60)) == sorted(everything), "it may not be known yet"
    (tmp_path / "mark-another").write_text("of another Redis")
    assert asyncio.run(look("another")) == sorted(everything), "that is not the Redis that knows"
    assert asyncio.run(look(store.keyspace.prefix)) == ["base", lives.job_id]
    store.keyspace.client.delete(f"{store.keyspace.prefix}:hub")
    assert asyncio.run(look(store.keyspace.prefix, retention_seconds=0)) == ["base", lives.job_id], (
        "it has lost everything"
    )
    store.keyspace.client.set(f"{store.keyspace.prefix}:hub", (tmp_path / f"mark-{store.keyspace.prefix}").read_text())
    assert asyncio.run(look(store.keyspace.prefix, retention_seconds=0)) == [lives.job_id], (
        "nobody borrows from that base"
    )


def test_a_hub_without_a_token_does_not_start(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-P", "-m", "swarm", "hub"], env=env, capture_output=True, text=True)
    assert ran.returncode != 0 and "SWARM_HUB_TOKEN is not set" in ran.stderr, ran
