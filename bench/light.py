"""Light workers: threads that take wake-ups from the queue and run the product's own loop; replies are made on the spot.

A light worker claims, appends, spawns, sends, parks and finishes with the same code, steps and messages as a pool process, so Redis
cannot tell them apart. It has no main process, no HTTP and no lease to renew. `python -m bench.light` runs one until its queue closes.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from swarm.core.settings import load_settings
from swarm.models import ApplyLimits, Begin, Block, Hear, ModelRequest, Progress, Reply, Usage
from swarm.runtime.loop import Loop
from swarm.runtime.segment import Segment, Stop
from swarm.store.connection import connect
from swarm.store.store import Store
from swarm.store.values import Claim
from swarm.tasks.app import make_app
from swarm.tasks.publish import carry_out
from tests.fleet import Fleet

LEASE_SECONDS = 36_000.0
STAFF_SECONDS = 36_000.0
_ORDER = re.compile(r"CROWD depth=(\d+) fanout=(\d+) think=(\d+) id=([\d.]+)")
_DONE = re.compile(r"DONE (\d+)")
_ids = itertools.count(1)


class LightModel:
    """Answers for a tree: parents spawn, leaves write a small file and a message to their parent; all count their agents."""

    def complete(
        self,
        request: ModelRequest,
        on_progress: Progress | None = None,
        on_words: Hear | None = None,
        on_limits: ApplyLimits | None = None,
        on_begin: Begin | None = None,
    ) -> Reply:
        """Make the reply after the order's time to think."""
        found = _ORDER.search(json.dumps(request.messages[0]))
        assert found is not None, request.messages[0]
        depth, fanout, think = (int(number) for number in found.groups()[:3])
        time.sleep(think / 1e3)
        if on_progress is not None:
            on_progress("")
        content = self._content(request, depth, fanout, think, found[4])
        usage = Usage(input_tokens=100, output_tokens=20)
        stop = "tool_use" if content[0]["type"] == "tool_use" else "end_turn"
        return Reply(content=content, stop_reason=stop, usage=usage, model=request.model)

    def limit_class(self, model: str) -> str:
        """Return the limits of its own account."""
        return "light"

    def summarizes(self, model: str) -> bool:
        """Return that it does not."""
        return False

    def _content(self, request: ModelRequest, depth: int, fanout: int, think: int, place: str) -> list[Block]:
        begun = any(message["role"] == "assistant" for message in request.messages)
        if depth and not begun:
            below = f"CROWD depth={depth - 1} fanout={fanout} think={think}"
            return [
                _call(
                    "Agent", description=f"part {n}", prompt=f"{below} id={place}.{n}", subagent_type="general-purpose"
                )
                for n in range(fanout)
            ]
        if depth:
            counted = _DONE.findall(json.dumps(request.messages[1:]))
            return [{"type": "text", "text": f"DONE {1 + sum(map(int, counted))}"}]
        if not begun:
            text = f"{place}\n"
            return [
                _call("Write", file_path=f"part-{place}.txt", content=text),
                _call("SendMessage", to="parent", message=f"{place} has begun"),
            ]
        return [{"type": "text", "text": "DONE 1"}]


def _call(name: str, **given: str) -> Block:
    return {"type": "tool_use", "id": f"toolu_{next(_ids):08d}", "name": name, "input": given}


class LightWorker:
    """Some threads with a place for one agent each."""

    def __init__(self, name: str, threads: int) -> None:
        self._settings, self._name = load_settings(), name
        self._store = Store(connect(self._settings), self._settings.key_prefix)
        self._app = make_app(self._settings)
        carry_out(self._app, self._store, self._store.fleet.staff(name, threads, STAFF_SECONDS))
        self._threads = [threading.Thread(target=self._serve) for _ in range(threads)]
        self._over = False

    def run(self) -> None:
        """Work until the standard input closes."""
        for thread in self._threads:
            thread.start()
        print("ready", flush=True)
        sys.stdin.read()
        self._over = True
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        client = self._store.keyspace.client
        while not self._over:
            came = client.brpop([self._settings.key_prefix], timeout=1)
            if came:
                self._run_agent(json.loads(came[1])["headers"]["id"])

    def _run_agent(self, agent_id: str) -> None:
        claim = self._store.agents.claim(agent_id, self._name, LEASE_SECONDS)
        if isinstance(claim, Claim):
            segment = Segment(
                claim,
                store=self._store,
                settings=self._settings,
                publish=lambda effect: carry_out(self._app, self._store, effect),
                stop=Stop(agent_id),
                model=LightModel(),
            )
            Loop(segment, draining=str).run()


@contextmanager
def light_workers(fleet: Fleet, processes: int, threads: int) -> Iterator[list[int]]:
    """Run so many light workers for the fleet; yields their process ids."""
    argv = [sys.executable, "-m", "bench.light", "--threads", str(threads)]
    started = [
        subprocess.Popen(
            [*argv, "--name", f"light:{number}:w"],
            env=fleet.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    try:
        for one in started:
            assert one.stdout is not None and one.stdout.readline() == "ready\n"
        yield [one.pid for one in started]
    finally:
        for one in started:
            assert one.stdin is not None
            one.stdin.close()
        for one in started:
            one.wait(60)


def main() -> None:
    """Run one light worker."""
    parser = ArgumentParser(prog="python -m bench.light")
    parser.add_argument("--name", required=True)
    parser.add_argument("--threads", type=int, default=8)
    given: Namespace = parser.parse_args()
    LightWorker(given.name, given.threads).run()


if __name__ == "__main__":
    main()
