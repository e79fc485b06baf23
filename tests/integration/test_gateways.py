"""The gateway of a program: requests that fail, that are under way at the end, and the signals of `swarm proxy`.

Tests of swarm/capabilities/harnesses/gateway.py, swarm/capabilities/harnesses/request_budget.py,
swarm/capabilities/harnesses/alone.py, swarm/cli/proxy.py.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml

from swarm import Limits, Swarm
from swarm.agent.entries import Assistant
from swarm.capabilities.harnesses.alone import LoneGateway
from swarm.capabilities.harnesses.request_budget import TurnedDown
from swarm.cli.proxy import _claim
from swarm.models.catalogue import load_models
from tests.fleet import Fleet
from tests.rehearsal import RehearsalServer
from tests.waiting import wait_for

SONNET = "claude-sonnet-5-5"
MODELS = {SONNET: SONNET, "gpt-6": "openai:gpt-6"}
DONE = "rules: [{reply: {text: All done.}}]\n"
PLAIN = f"name: plain\n{DONE}"
SILENT = f"name: silent\nfaults: [{{kind: hang, times: 1}}]\n{DONE}"


class Program:
    """A person's program, and the gateway that serves it."""

    def __init__(
        self, fleet: Fleet, server: RehearsalServer, threads: ThreadPoolExecutor, budget: float | None
    ) -> None:
        self.server, self._threads = server, threads
        prices = fleet.folder / "prices-of-gateways.yaml"
        prices.write_text(yaml.safe_dump({"models": {MODELS["gpt-6"]: load_models().models[SONNET].model_dump()}}))
        self.swarm = Swarm(fleet.settings.model_copy(update={"base_url": server.url, "prices_file": prices}))
        self.lone, worker = _claim(self.swarm, MODELS, Limits(budget_usd=budget), "", [])
        self.over, begun = threading.Event(), threading.Event()
        self.served = threads.submit(self.lone.serve, 0, worker, begun.set, self.over)
        assert begun.wait(30)

    def ask(self, path: str = "/v1/messages", **body: Any) -> int:
        """Ask the model; returns the status."""
        asked = {
            "model": SONNET,
            "max_tokens": 99,
            "messages": [{"role": "user", "content": "hi"}],
            **body,
        }
        url = f"http://127.0.0.1:{self.lone.gateway.port}{path}"
        request = Request(url, json.dumps(asked).encode(), {"x-api-key": self.lone.gateway.token})
        try:
            with urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    def begin_ask(self, **body: Any) -> Future[int]:
        """Ask the model on another thread."""
        return self._threads.submit(self.ask, **body)


@contextmanager
def serving(fleet: Fleet, scenario: str, budget: float | None = None) -> Iterator[Program]:
    """Serve a program until the end of the block."""
    server = fleet.rehearse(scenario)
    with ThreadPoolExecutor(4) as threads:
        program = Program(fleet, server, threads, budget)
        try:
            yield program
        finally:
            server.close()
            program.over.set()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-test")


def test_a_request_that_cannot_be_sent_keeps_no_money_and_no_slot(unmanned: Fleet) -> None:
    # The budget has room for one request at a time.
    with serving(unmanned, PLAIN, budget=0.03) as program:
        odd = {"model": "gpt-6", "stream": True, "stream_options": "all", "max_tokens": 500}
        assert [program.ask("/v1/chat/completions", **odd) for _ in range(3)] == [400] * 3
        assert program.server.stats()["requests"] == 0
        assert program.ask(system="half a pair: \ud83d") == 200
        program.over.set()
        assert program.served.result(30).state == "completed"


def _replies(lone: LoneGateway, swarm: Swarm) -> list[Assistant]:
    job = swarm.job(lone.job_id)
    return [one for one in swarm.store.journals.read(job.view().root_id) if isinstance(one, Assistant)]


def test_a_request_under_way_at_the_end_is_charged_once(unmanned: Fleet) -> None:
    with serving(unmanned, SILENT, budget=1.0) as program:
        asked = program.begin_ask()
        wait_for("the request is under way", lambda: program.server.stats()["in_flight"])
        program.over.set()
        assert program.served.result(30).state == "completed"
        [reply] = _replies(program.lone, program.swarm)
        view = program.swarm.job(program.lone.job_id).view()
        assert reply.usage.input_tokens and reply.usage.output_tokens == 99 and view.cost_usd == reply.cost_usd > 0
        # Its own end changes nothing any more.
        program.server.close()
        with pytest.raises((OSError, AssertionError)):
            assert asked.result(30) == 200
        assert program.lone.budget.take_all().names == []
        assert program.swarm.job(program.lone.job_id).view().cost_usd == view.cost_usd


def test_a_request_that_waits_for_its_turn_is_not_sent_after_the_end(unmanned: Fleet) -> None:
    with serving(unmanned, PLAIN, budget=0.03) as program:
        tools = [{"name": "look", "input_schema": {"type": "object"}}]
        assert program.ask(tools=tools) == 200, "it uses the slot that came with the claim"
        budget, rates = program.lone.budget, program.swarm.store.rates
        limit_class = budget.model.limit_class(SONNET)
        assert rates.hold(limit_class, 60.0) is not None
        asked = program.begin_ask(tools=tools)
        wait_for("the request waits", lambda: budget._held)
        budget.close(TurnedDown(402, "billing_error", "the end"))
        rates.release(limit_class)
        assert asked.result(30) == 402 and program.server.stats()["requests"] == 1


def _proxy(fleet: Fleet, server: RehearsalServer, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**fleet.environment(), "SWARM_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k", "HOME": str(folder)}
    command = [sys.executable, "-m", "swarm", "proxy", *arguments]
    return subprocess.Popen(
        command, env=environment, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_the_proxy_leaves_no_job_at_a_taken_port_and_no_program_at_a_signal(unmanned: Fleet, tmp_path: Path) -> None:
    server = unmanned.rehearse(PLAIN)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = _proxy(unmanned, server, tmp_path, "--port", port, "--title", "taken")
        code = (
            "import signal, sys\n"
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
            "print('ready', flush=True)\n"
            "while True: signal.pause()\n"
        )
        ended = _proxy(unmanned, server, tmp_path, "--title", "ended", "--", sys.executable, "-c", code)
        assert ended.stdout is not None and ended.stdout.readline() == "ready\n"
        ended.send_signal(signal.SIGINT)
        ended.send_signal(signal.SIGTERM)
        told = ended.communicate(timeout=60)[1]
        assert ended.returncode == 7, told
        told = refused.communicate(timeout=60)[1]
        assert refused.returncode == 2 and f"port {port} cannot be used" in told
    views = {view.title: view for view in unmanned.swarm.jobs()}
    assert views["ended"].state == "completed"
    assert views["taken"].state == "cancelled" and "the proxy failed" in views["taken"].reason
