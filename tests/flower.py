"""A Flower for tests: a real one, with the page, in front of a fleet's Redis; and requests to it."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.fleet import Fleet
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[1]
TOKEN = "a-token-for-tests"


class Response:
    """An answer: its status, headers and body."""

    def __init__(self, found: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = found.status, found.headers, found.read()

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json()["error"]["code"])


class Flower:
    """One that runs. Requests carry the page's cookie, or `login`, unless they say otherwise."""

    def __init__(
        self, port: int, process: psutil.Process | None, *, token: str = TOKEN, login: str = "", prefix: str = ""
    ) -> None:
        self.port, self.process, self.token, self.login = port, process, token, login
        self.base = f"{prefix}/swarm"
        self.cookie = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.base}"

    def open_page(self) -> None:
        """Exchange the token for the cookie, as a browser does."""
        found = self.get("", query=f"?token={self.token}")
        assert (found.status, found.headers["Location"]) == (302, self.base), found.body
        self.cookie = found.headers["Set-Cookie"].partition(";")[0]

    def headers(self, **more: str | None) -> dict[str, str]:
        """Those of a request of the page; None leaves one out."""
        given: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}"}
        if self.cookie:
            given["Cookie"] = self.cookie
        if self.login:
            given["Authorization"] = f"Basic {base64.b64encode(self.login.encode()).decode()}"
        return {name: value for name, value in {**given, **more}.items() if value is not None}

    def get(self, path: str, *, query: str = "", **headers: str | None) -> Response:
        return self._ask("GET", path + query, None, self.headers(**headers))

    def post(self, path: str, body: Any, **headers: str | None) -> Response:
        own: dict[str, str | None] = {
            "X-Swarm": "1",
            "Content-Type": "application/json",
            "Sec-Fetch-Site": "same-origin",
        }
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._ask("POST", path, data, self.headers(**{**own, **headers}))

    def read(self, path: str) -> Any:
        """What a GET below `/api/` gives."""
        found = self.get(f"/api/{path}")
        assert found.status == 200, (path, found.status, found.body)
        return found.json()

    def act(self, path: str, body: Any) -> Any:
        """What a POST below `/api/` gives."""
        found = self.post(f"/api/{path}", body)
        assert found.status in (200, 201), (path, found.status, found.body)
        return found.json()

    def stream(self, query: str, **headers: str | None) -> Stream:
        return Stream(self, query, self.headers(**headers))

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Response:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request(method, self.base + path, body=body, headers=headers)
            return Response(connection.getresponse())


class Told:
    """One server-sent event."""

    def __init__(self, event: str, ident: str, data: Any) -> None:
        self.event, self.id, self.data, self.at = event, ident, data, time.time()


class Stream:
    """An event stream that is read as it comes."""

    def __init__(self, flower: Flower, query: str, headers: dict[str, str]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", flower.port, timeout=20)
        self._connection.request("GET", f"{flower.base}/api/stream?{query}", headers=headers)
        self.found = self._connection.getresponse()

    def __enter__(self) -> Stream:
        assert self.found.status == 200, self.found.read()
        return self

    def __exit__(self, *failure: object) -> None:
        # The response holds the socket, too.
        self.found.close()
        self._connection.close()

    def next(self) -> Told:
        """The next event."""
        fields: dict[str, str] = {}
        while True:
            read = self.found.readline()
            assert read, "the stream has ended"
            line = read.decode().rstrip("\n")
            if not line:
                if "event" in fields:
                    return Told(fields["event"], fields.get("id", ""), json.loads(fields["data"]))
                fields = {}
                continue
            name, _, value = line.partition(": ")
            fields[name] = value

    def until(self, event: str, *parts: str, seconds: float = 30.0) -> Told:
        """The next event of that name whose data has these parts."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            told = self.next()
            if told.event == event and all(part in told.data for part in parts):
                return told
        raise AssertionError(f"no {event} with {parts} within {seconds} s")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_flower(
    fleet: Fleet, *arguments: str, login: str = "", prefix: str = "", **environment: str
) -> Iterator[Flower]:
    """`swarm flower` in front of the fleet's Redis, with the page open unless it has a login."""
    port = free_port()
    hidden = {name: value for name, value in fleet.environment().items() if not name.startswith("FLOWER_")}
    path = os.pathsep.join(filter(None, [str(ROOT), hidden.get("PYTHONPATH")]))
    given = {"PYTHONPATH": path, "SWARM_REDIS_URL": fleet.url, "SWARM_FLOWER_TOKEN": TOKEN, **environment}
    if login:
        given["FLOWER_BASIC_AUTH"] = login
    if prefix:
        arguments = (*arguments, f"--url-prefix={prefix.strip('/')}")
    log = fleet.folder / f"flower-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "swarm", "flower", "--port", str(port), *arguments],
            cwd="/",
            env={**hidden, **given},
            stdout=output,
            stderr=output,
        )
    try:
        wait_for("Flower listens", lambda: _listens(port) or process.poll() is not None, 60)
        assert process.poll() is None, log.read_text()
        flower = Flower(port, psutil.Process(process.pid), login=login, prefix=prefix)
        if not login:
            flower.open_page()
        yield flower
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
