"""Flower answers those who name it rightly, and those who have logged in: real Flowers, real requests.

Tests of swarm/local/page_token.py, swarm/web/flower_config.py, swarm/web/flower_guard.py, swarm/web/guard.py, swarm/web/mount.py.
"""

from __future__ import annotations

import base64
import http.client
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import flower.urls as flower_urls
import httpx
import psutil
import pytest
from tornado.routing import URLSpec

from swarm.local.page_token import find_token
from swarm.local.stack import down, up
from swarm.web.flower_guard import is_known_host
from swarm.web.guard import cookie_for
from tests.fleet import Fleet
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = secrets.token_hex(8)
PAGES = ("/", "/workers", "/tasks", "/api/workers", "/metrics", "/healthcheck", "/static/css/flower.css", "/nowhere")


class Flower:
    """One that runs."""

    def __init__(self, port: int, process: psutil.Process, *, token: str = "") -> None:
        self.port, self.process, self.token = port, process, token

    def status(self, path: str, *, host: str = "127.0.0.1", login: str = "", method: str = "GET") -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"Host": host, **({"Cookie": "=".join(cookie_for(self.token))} if self.token else {})}
        if login:
            headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        try:
            connection.request(method, path, headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    fleet = Fleet()
    yield fleet
    fleet.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _running(fleet: Fleet, argv: list[str], port: int, **environment: str) -> Iterator[Flower]:
    hidden = {name: value for name, value in fleet.environment().items() if not name.startswith("FLOWER_")}
    path = os.pathsep.join(filter(None, [str(ROOT), hidden.get("PYTHONPATH")]))
    log = fleet.folder / f"flower-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *argv],
            cwd="/",
            env={**hidden, "PYTHONPATH": path, "SWARM_REDIS_URL": fleet.url, **environment},
            stdout=output,
            stderr=output,
        )
    try:
        wait_for("Flower listens", lambda: _listens(port) or process.poll() is not None, 60)
        assert process.poll() is None, log.read_text()
        yield Flower(port, psutil.Process(process.pid))
    finally:
        process.kill()
        process.wait()


def _as_spec(route: Any) -> URLSpec:
    return route if isinstance(route, URLSpec) else URLSpec(*route)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_local_stack_answers_to_no_name_that_could_be_pointed_at_it(tmp_path: Path) -> None:
    fleet = Fleet()
    try:
        found = up(fleet.settings, workers=0, flower_port=0).flower
        assert found is not None
        port, process = int(found.url.rpartition(":")[2]), psutil.Process(found.pid)
        flower = Flower(port, process, token=find_token(fleet.settings) or "")
        for host in (f"127.0.0.1:{flower.port}", f"localhost:{flower.port}", "[::1]:5555", "LOCALHOST."):
            assert flower.status("/workers", host=host) == 200, host
        for host in ("evil.example", f"evil.example:{flower.port}", "localhost.evil.example", "127.0.0.1.evil.example"):
            assert {flower.status(page, host=host) for page in PAGES} == {421}, host
        assert {each.laddr.ip for each in flower.process.net_connections() if each.status == "LISTEN"} == {"127.0.0.1"}
    finally:
        down(fleet.settings, grace_seconds=1.0)
        fleet.close()


def test_without_a_login_all_of_flower_wants_the_token_that_opens_the_page(fleet: Fleet) -> None:
    port = _free_port()
    settings = {"SWARM_FLOWER_TOKEN": PASSWORD, "FLOWER_UNAUTHENTICATED_API": "true"}
    with _running(fleet, ["swarm", "flower", "--port", str(port)], port, **settings) as flower:
        every = [route.regex.pattern.rstrip("$") for route in map(_as_spec, flower_urls.handlers)]
        paths = [pattern.replace("(.+)", "x").replace("(.*)", "x").replace("/?", "") for pattern in every]
        # Without a login there is nothing at its address.
        paths = [path for path in paths if path.startswith("/") and path not in ("/static/x", "/login")]
        assert {"/", "/workers", "/tasks", "/tasks/datatable", "/broker", "/api/workers", "/metrics"} <= set(paths)
        for path in (*paths, "/dashboard", "/nowhere"):
            assert flower.status(path) == 403, path
            for method in ("POST", "OPTIONS", "DELETE", "PUT"):
                assert flower.status(path, method=method) == 403, (method, path)
        assert flower.status("/static/css/flower.css") == 200
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20, follow_redirects=True) as browser:
            assert "swarm flower" in browser.get("/tasks").text, "it says what to open"
            assert browser.get("/swarm", params={"token": PASSWORD}).url.path == "/swarm"
            for path in ("/", "/workers", "/tasks", "/metrics", "/healthcheck", "/api/workers", "/swarm/api/jobs"):
                assert browser.get(path).status_code == 200, path
            act = "/api/worker/pool/grow/nobody@nowhere"
            other = {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"}
            assert browser.post(act, headers=other).status_code == 403, "a page of another port has the cookie sent"
            assert browser.post(act, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 404, "no such worker"


def test_without_a_login_what_the_setting_names_stays_open(fleet: Fleet) -> None:
    port = _free_port()
    argv = ["swarm", "flower", "--port", str(port), "--url-prefix=flower"]
    with _running(fleet, argv, port, SWARM_FLOWER_TOKEN=PASSWORD, SWARM_FLOWER_OPEN="metrics") as flower:
        assert flower.status("/flower/metrics") == 200
        assert flower.status("/flower/healthcheck") == flower.status("/flower/workers") == 403
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20, follow_redirects=True) as browser:
            assert browser.get("/flower/swarm", params={"token": PASSWORD}).url.path == "/flower/swarm"
            assert browser.get("/flower/workers").status_code == browser.get("/flower/healthcheck").status_code == 200


def test_with_a_login_metrics_and_health_are_behind_it(fleet: Fleet) -> None:
    port, login = _free_port(), f"swarm:{PASSWORD}"
    argv = ["swarm", "flower", "--port", str(port)]
    settings = {"FLOWER_BASIC_AUTH": login, "SWARM_FLOWER_HOSTS": "Flower.example.com, other.example"}
    with _running(fleet, argv, port, **settings) as flower:
        for page in ("/workers", "/metrics", "/healthcheck"):
            assert flower.status(page) == 401, page
            assert flower.status(page, login=f"swarm:{PASSWORD}x") == 401, page
            assert flower.status(page, login=login) == 200, page
        assert flower.status("/workers", host="flower.example.com:443", login=login) == 200
        assert flower.status("/workers", host="evil.example", login=login) == 421
        assert PASSWORD not in " ".join(flower.process.cmdline())


def test_health_can_be_opened_for_probes_without_metrics(fleet: Fleet) -> None:
    port = _free_port()
    argv = ["swarm", "flower", "--port", str(port), "--url-prefix=flower"]
    settings = {"FLOWER_BASIC_AUTH": f"swarm:{PASSWORD}", "SWARM_FLOWER_OPEN": "healthcheck"}
    with _running(fleet, argv, port, **settings) as flower:
        assert flower.status("/flower/healthcheck") == 200
        assert flower.status("/flower/healthcheck", host="evil.example") == 421
        assert flower.status("/flower/metrics") == 401
        assert flower.status("/flower/static/css/flower.css") == 200


def test_flower_alone_with_our_configuration_serves_this_machine_only(fleet: Fleet) -> None:
    port, configuration = _free_port(), ROOT / "swarm" / "web" / "flower_config.py"
    argv = ["celery", "-A", "swarm.tasks", "flower", f"--port={port}", f"--conf={configuration}"]
    with _running(fleet, argv, port) as flower:
        listening = {each.laddr.ip for each in flower.process.net_connections() if each.status == "LISTEN"}
        assert listening == {"127.0.0.1"}


def test_a_password_on_the_command_line_is_refused(fleet: Fleet) -> None:
    for option in ("--basic-auth=me:secret", "--basic_auth=me:secret"):
        ran = subprocess.run(
            [sys.executable, "-m", "swarm", "flower", option],
            cwd=ROOT,
            env=fleet.environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (ran.returncode, "FLOWER_BASIC_AUTH" in ran.stderr, "secret" in ran.stderr) == (2, True, False)


def test_hosts_are_known_by_address_by_localhost_and_by_what_was_set() -> None:
    names = frozenset({"flower.example.com"})
    known = ("10.1.2.3:5555", "[::1]", "[fd00::1]:80", "localhost:1", "flower.example.com.")
    assert all(is_known_host(host, names) for host in known)
    unknown = (
        "",
        "evil.example",
        "localhost.evil",
        "127.0.0.1@evil.example",
        "a b",
        "[localhost]",
        "flower.example.com:x",
    )
    assert not any(is_known_host(host, names) for host in unknown)
