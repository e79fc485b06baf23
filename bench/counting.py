"""Count what operations cost, in a process of its own: `python -m bench.counting [ROW …]` prints the counts as JSON.

Nothing here measures time. Each operation runs `ROUNDS` times under a profiler, MONITOR and tracemalloc each, and the least of
each count is taken: an agent reports its activity once a second, so a busy machine adds to a count, and nothing takes away. A
turn is the difference between a long and a short life, divided by the turns between them.
"""

from __future__ import annotations

import cProfile
import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import redis

from bench.calls import ROOT, count_calls
from bench.lives import claim_root, submit
from bench.served import serve
from swarm.models.anthropic import AnthropicModel
from swarm.runtime.loop import Loop
from swarm.runtime.segment import Ended, Outcome, Segment, Waits
from swarm.store.values import Claim, Signals
from tests.fleet import Fleet
from tests.segments import make_segment

Count = dict[str, float]
"""By the name of the figure."""
Work = Callable[[], object]
ROUNDS = 3
MANY = 4
"""Operations of one kind that are counted together."""
SHORT, LONG = 4, 8
"""Turns of the two lives whose difference is counted: few, so that the long one ends within a second."""
STARTS = {
    "help": "from swarm.cli import main; main()",
    "worker_import": "import swarm.tasks.agent_task, swarm.tasks.worker",
}
"""What new processes run whose start is counted."""
_START = """
import _lsprof, sys
profile, before, sys.argv = _lsprof.Profiler(), set(sys.modules), ["swarm", "--help"]
profile.enable()
try:
    exec(sys.stdin.read(), {})
except SystemExit:
    pass
profile.disable()
new = set(sys.modules) - before
import json
from bench.calls import count_calls
own = sum(name.partition(".")[0] == "swarm" for name in new)
print("\\n" + json.dumps({"own_modules": own, "modules": len(new), **count_calls(profile.getstats(), importing=True)}))
"""


class Counter:
    """Counts what work costs in this process, and in a Redis that no other process uses."""

    def __init__(self, url: str) -> None:
        self._redis: Any = redis.Redis.from_url(url, decode_responses=True)

    def count(self, prepare: Callable[[], Work]) -> Count:
        """Prepare the work and run it, once for nothing and then `ROUNDS` times in each way; returns the least of each count."""
        prepare()()
        ways = (self._count_calls, self._count_commands, _count_memory)
        rounds = [{name: value for way in ways for name, value in way(prepare()).items()} for _ in range(ROUNDS)]
        return {name: min(each[name] for each in rounds) for name in rounds[0]}

    def _count_calls(self, work: Work) -> Count:
        profile = cProfile.Profile()
        idle, before = self._moved(), self._moved()
        profile.enable()
        work()
        profile.disable()
        after = self._moved()
        # Between two looks there are the bytes of a look, which those of the idle pair are subtracted for.
        come, gone = (late - 2 * early + first for first, early, late in zip(idle, before, after, strict=True))
        return count_calls(profile.getstats()) | {"redis_bytes_in": come, "redis_bytes_out": gone}

    def _moved(self) -> tuple[float, float]:
        info = self._redis.info("stats")
        return info["total_net_input_bytes"], info["total_net_output_bytes"]

    def _count_commands(self, work: Work) -> Count:
        found = {"redis_commands": 0.0, "step_commands": 0.0}
        with self._redis.monitor() as monitor:
            work()
            self._redis.echo("counted")
            while (seen := monitor.next_command())["command"] != "ECHO counted":
                found["step_commands" if seen["client_type"] == "lua" else "redis_commands"] += 1
        return found


def _count_memory(work: Work) -> Count:
    """Count the bytes allocated at the peak, with results and garbage: nothing is collected meanwhile."""
    gc.collect()
    tracemalloc.start()
    work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"memory_bytes": float(most)}


class Operations:
    """The counted operations, prepared in a swarm without workers: this process runs its agents, as a worker's child does."""

    def __init__(self, fleet: Fleet, url: str) -> None:
        self._fleet, self._url = fleet, url
        self._model = AnthropicModel.rehearsing(fleet.settings, url)

    def submission(self) -> Work:
        """Submit a job and publish its wake-up."""
        self._clear()
        return lambda: [submit(self._fleet, self._url, "TREE depth=0 steps=0") for _ in range(MANY)]

    def claim(self) -> Work:
        """Claim a queued root."""
        self._clear()
        jobs = [submit(self._fleet, self._url, "TREE depth=0 steps=0") for _ in range(MANY)]
        return lambda: [claim_root(self._fleet, job) for job in jobs]

    def agent(self) -> Work:
        """Run a claimed agent of one turn to its end."""
        claims = self._claim_roots("TREE depth=0 steps=0")
        return lambda: [self._run(claim, Ended) for claim in claims]

    def park_and_wake(self) -> Work:
        """Run a parent until it parks, then its only child, then claim the woken parent and run it to its end."""
        parents = self._claim_roots("TREE depth=1 fanout=1 steps=0")
        agents = self._fleet.swarm.store.agents

        def run(parent: Claim) -> Outcome:
            self._run(parent, Waits)
            [child] = agents.children(parent.agent_id)
            for agent_id in (child, parent.agent_id):
                claim = agents.claim(agent_id, "bench", 3600.0)
                assert isinstance(claim, Claim), claim
                outcome = self._run(claim, Ended)
            return outcome

        return lambda: [run(parent) for parent in parents]

    def life(self, turns: int) -> Work:
        """Live a life of so many turns, and keep its history."""
        segment = self._segment(self._claim_roots(f"TREE depth=0 steps={turns - 1}", 1)[0])

        def live() -> object:
            Loop(segment, draining=str).run()
            assert segment.history.finished is not None and segment.history.turns == turns, segment.history.finished
            return segment.history

        return live

    def _clear(self) -> None:
        # Wake-ups are published only for as many queued agents as workers could soon take.
        for job in self._fleet.swarm.jobs():
            if not job.ended:
                self._fleet.swarm.cancel(job.root_id)

    def _claim_roots(self, prompt: str, many: int = MANY) -> list[Claim]:
        self._clear()
        return [claim_root(self._fleet, submit(self._fleet, self._url, prompt)) for _ in range(many)]

    def _segment(self, claim: Claim) -> Segment:
        segment = make_segment(claim, self._fleet.swarm.store, self._fleet.settings, self._model)
        return replace(segment, publish=self._publish)

    def _publish(self, effect: Signals | None) -> None:
        if effect is not None:
            self._fleet.swarm.publish(effect)

    def _run(self, claim: Claim, expected: type[Outcome]) -> Outcome:
        outcome = Loop(self._segment(claim), draining=str).run()
        assert isinstance(outcome, expected), outcome
        return outcome


def count_start(code: str) -> Count:
    """Count the calls and modules of a new process that runs this."""
    ran = subprocess.run([sys.executable, "-c", _START], input=code, cwd=ROOT, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"a process that runs {code!r} failed:\n{ran.stderr}")
    found: Count = json.loads(ran.stdout.splitlines()[-1])
    return found


def count_rows(wanted: Sequence[str]) -> dict[str, Count]:
    """Count these rows, or all."""
    rows: dict[str, Count] = {}
    with serve() as url, closing(Fleet()) as fleet:
        gc.disable()
        operations, counter = Operations(fleet, url), Counter(fleet.url)
        for name in ("submission", "claim", "agent", "park_and_wake"):
            if not wanted or name in wanted:
                rows[name] = _share(counter.count(getattr(operations, name)), MANY)
        if not wanted or "turn" in wanted:
            short, long = (counter.count(partial(operations.life, turns)) for turns in (SHORT, LONG))
            rows["turn"] = _share({name: long[name] - short[name] for name in long}, LONG - SHORT)
            # Four turns take too little to tell it from noise.
            del rows["turn"]["memory_bytes"]
    return rows | {name: count_start(code) for name, code in STARTS.items() if not wanted or name in wanted}


def _share(count: Count, parts: int) -> Count:
    return {name: round(value / parts, 1) for name, value in count.items()}


if __name__ == "__main__":
    print(json.dumps(count_rows(sys.argv[1:])))
