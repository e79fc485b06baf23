"""Who may look at the page and who may act in it: real Flowers, real requests, and a job that must stay as it is.

Tests of swarm/client/failures.py, swarm/local/page_token.py, swarm/local/stack.py, swarm/web/guard.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from swarm import Job
from swarm.client.failures import Refusal
from swarm.local.page_token import find_token, make_token, page_url
from swarm.local.stack import down, up
from swarm.web.guard import check_site, cookie_for
from tests.fleet import Fleet
from tests.flower import Flower, running_flower

PASSWORD = secrets.token_hex(8)
LOGIN = f"anna:{PASSWORD}"


class Target:
    """A job that nobody runs, and every act of the page on it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.job: Job = fleet.swarm.submit("go", workspace=fleet.workspace)
        self.root = self.job.view().root_id
        self.acts: dict[str, Any] = {
            "jobs": {"prompt": "x", "workspace": str(fleet.workspace)},
            f"jobs/{self.job.id}/messages": {"to": "root", "text": "x"},
            f"jobs/{self.job.id}/messages/read": {"up_to": "1-0"},
            f"agents/{self.root}/cancel": {},
            "questions/question-none/answer": {"answer": "allow"},
            f"jobs/{self.job.id}/panel/board/act": {},
            "panel/triggers/fire": {"trigger": "none"},
        }
        self.reads = (
            *(
                "about",
                "jobs",
                "start",
                "stream?jobs=1",
                f"jobs/{self.job.id}/snapshot",
                f"jobs/{self.job.id}/panel/board",
                "panel/triggers",
            ),
            *(f"agents/{self.root}{part}" for part in ("", "/journal", "/mail", "/entry/1", "/output/x")),
        )

    def all_refused(self, flower: Flower, status: int, code: str, **headers: str | None) -> None:
        """Every act is refused in this way, and nothing has happened."""
        for path, body in self.acts.items():
            found = flower.post(f"/api/{path}", body, **headers)
            assert (found.status, found.code) == (status, code), path
        assert len(self.fleet.swarm.jobs()) == 1
        assert self.job.view().state == "running" and not self.fleet.swarm.mailbox(self.root).messages

    def none_readable(self, flower: Flower, status: int, code: str, **headers: str | None) -> None:
        for path in self.reads:
            found = flower.get(f"/api/{path}", **headers)
            assert (found.status, found.code) == (status, code), path
            assert self.job.id.encode() not in found.body


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with closing(Fleet()) as fleet:
        yield Target(fleet)


@pytest.fixture(scope="module")
def flower(target: Target) -> Iterator[Flower]:
    """Without a login."""
    with running_flower(target.fleet) as flower:
        yield flower


def test_nobody_without_the_token_sees_or_does_anything(target: Target, flower: Flower) -> None:
    for cookie in (None, "swarm_=x", f"{flower.cookie}x", flower.cookie.partition("=")[0] + "=", f"x={flower.token}"):
        target.all_refused(flower, 403, "token", Cookie=cookie)
        target.none_readable(flower, 403, "token", Cookie=cookie)
    for query in ("", "?token=", "?token=wrong"):
        page = flower.get("", query=query, Cookie=None)
        assert (page.status, page.headers["Set-Cookie"]) == (403, None) and b"swarm status" in page.body
    assert flower.get("").status == 200


def test_the_cookie_is_of_this_site_alone_and_out_of_reach_of_scripts(flower: Flower) -> None:
    cookie = flower.get("", query=f"?token={flower.token}", Cookie=None).headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert flower.token not in cookie and cookie_for("another")[0] not in cookie


def test_pages_of_other_sites_can_do_nothing(target: Target, flower: Flower) -> None:
    host = f"http://127.0.0.1:{flower.port}"
    for site in ("cross-site", "same-site", "none"):
        target.all_refused(flower, 403, "foreign", **{"Sec-Fetch-Site": site})
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{flower.port + 1}", host + ".evil.example"):
        target.all_refused(flower, 403, "foreign", **{"Sec-Fetch-Site": None, "Origin": origin})
        target.none_readable(flower, 403, "foreign", Origin=origin)
    target.none_readable(flower, 403, "foreign", **{"Sec-Fetch-Site": "cross-site"})
    assert flower.get("", **{"Sec-Fetch-Site": "cross-site"}).status == 200, "a link may lead to the page"
    for path in ("/api/jobs", ""):
        found = flower.get(path)
        assert found.headers["Access-Control-Allow-Origin"] is None
        assert found.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert (
        flower.post(
            "/api/questions/question-none/answer", {"answer": "x"}, **{"Sec-Fetch-Site": None, "Origin": host}
        ).status
        == 404
    )


def test_a_form_of_any_page_cannot_act(target: Target, flower: Flower) -> None:
    target.all_refused(flower, 400, "bad_request", **{"X-Swarm": None})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None):
        target.all_refused(flower, 400, "bad_request", **{"Content-Type": kind})


def test_a_name_that_was_pointed_here_is_not_served(target: Target, flower: Flower) -> None:
    for host in ("evil.example", f"evil.example:{flower.port}", "localhost.evil.example"):
        target.all_refused(flower, 421, "host", Host=host)
        target.none_readable(flower, 421, "host", Host=host)
        assert flower.get("", Host=host).status == flower.get("/static/nothing", Host=host).status == 421


def test_a_read_only_flower_shows_everything_and_does_nothing(target: Target) -> None:
    with running_flower(target.fleet, "--read-only") as flower:
        target.all_refused(flower, 403, "read_only")
        assert flower.read(f"jobs/{target.job.id}/snapshot")["job"]["id"] == target.job.id
        assert flower.read("about")["read_only"] is True


def test_with_a_login_the_login_opens_the_page_and_is_the_name_that_answers_bear(target: Target) -> None:
    with running_flower(target.fleet, login=LOGIN, prefix="/flower") as flower:
        target.all_refused(flower, 401, "login", Authorization=None)
        target.none_readable(flower, 401, "login", Authorization=None)
        target.all_refused(flower, 401, "login", Authorization="Basic YW5uYTp4")
        target.all_refused(flower, 403, "foreign", **{"Sec-Fetch-Site": "cross-site"})
        assert flower.get("", query=f"?token={flower.token}", Authorization=None).status == 401, (
            "the token opens nothing"
        )
        assert flower.read("about")["user"] == "anna"
        shell = flower.get("")
        assert shell.status == 200 and b'data-base="/flower/swarm"' in shell.body
        assert b'href="/flower/swarm" aria-current="page">Swarm</a>' in shell.body
        with flower.stream("jobs=1") as stream:
            assert stream.next().event == "hello"


def test_what_flower_opens_to_everybody_does_not_open_the_page(target: Target) -> None:
    with running_flower(target.fleet, FLOWER_UNAUTHENTICATED_API="true") as flower:
        target.none_readable(flower, 403, "token", Cookie=None)
        assert flower.get("/api/jobs").headers["Access-Control-Allow-Origin"] is None


def test_the_local_stack_prints_the_address_that_opens_the_page(tmp_path: Path) -> None:
    fleet = Fleet()
    try:
        found = up(fleet.settings, workers=0, flower_port=0).flower
        token = find_token(fleet.settings)
        assert found is not None and token is not None and token == make_token(fleet.settings)
        flower = Flower(int(found.url.rpartition(":")[2]), None, token=token)
        assert page_url(found.url, token) == f"{flower.url}?token={token}"
        flower.open_page()
        assert flower.read("jobs")["jobs"] == []
        kept = fleet.settings.state_folder() / "flower-token"
        assert kept.stat().st_mode & 0o777 == 0o600
    finally:
        down(fleet.settings, grace_seconds=1.0)
        fleet.close()


def test_only_the_page_itself_is_same_origin() -> None:
    check_site({"Sec-Fetch-Site": "same-origin", "Origin": "https://proxy.example"}, "inside:5555", acts=True)
    check_site({}, "127.0.0.1:5555", acts=True)
    check_site({"Sec-Fetch-Site": "none"}, "127.0.0.1:5555", acts=False)
    for headers in ({"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://127.0.0.1:5556"}):
        with pytest.raises(Refusal):
            check_site(headers, "127.0.0.1:5555", acts=True)
