"""An OTLP receiver that fails now and then, and the exporter, killed at random while a fleet works and its workers die, too.

python -m tests.telemetry_world       # the long form: prints what was found, exit code 1 if a span or a token is missing
"""

from __future__ import annotations

import argparse
import gzip
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from swarm import Job
from swarm.agent.entries import Assistant, Compacted, Finished, ModelFailed, ToolFinished
from swarm.core.ids import trace_id
from swarm.telemetry.metrics import Sample, read_metrics
from tests.fleet import Fleet
from tests.waiting import wait_for


class Receiver:
    """Takes what it is sent. Of a hundred requests so many are refused, and so many taken and not answered."""

    def __init__(self, *, refused: int = 0, unanswered: int = 0, seed: int = 1) -> None:
        self.spans: dict[str, bytes] = {}
        """By id, as they came."""
        self.read: dict[str, Any] = {}
        self.repeats = 0
        self.differing: list[str] = []
        """Those that came again, and were not the same."""
        self.metrics: list[ExportMetricsServiceRequest] = []
        self._chance = random.Random(seed)
        self._refused, self._unanswered, self._lock = refused, unanswered, threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _take(self, path: str, body: bytes) -> None:
        if path == "/v1/metrics":
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))
            return
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            for span in group.scope_spans[0].spans:
                name, told = span.span_id.hex(), span.SerializeToString(deterministic=True)
                self.repeats += name in self.spans
                if self.spans.setdefault(name, told) != told:
                    self.differing.append(name)
                self.read[name] = span

    def _handler(receiver) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
                with receiver._lock:
                    luck = receiver._chance.randrange(100)
                    if luck < receiver._refused:
                        self.send_response(400)
                    else:
                        receiver._take(self.path, body)
                        if luck < receiver._refused + receiver._unanswered:
                            self.close_connection = True
                            return
                        self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *given: Any) -> None:
                pass

        return Handler


@dataclass
class Exporter:
    """`swarm telemetry`, killed and started again."""

    fleet: Fleet
    url: str
    kills: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def command(self, *more: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "swarm", "telemetry", "--otlp", self.url, "--port", "0", *more]
        env = {**self.fleet.environment(), "SWARM_REDIS_URL": self.fleet.url, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
        log = (self.fleet.folder / "telemetry.log").open("ab")
        return subprocess.Popen(argv, cwd=self.fleet.folder, env=env, stdout=log, stderr=log)

    def be_killed(self, seed: int) -> threading.Thread:
        """Run, die, run again, until `finish`."""
        chance = random.Random(seed)

        def live() -> None:
            while not self._over.is_set():
                process = self.command("--every", "0.1")
                # Most of the first second it is loaded.
                self._over.wait(chance.uniform(0.8, 2.5))
                process.kill()
                process.wait()
                self.kills += 1

        thread = threading.Thread(target=live)
        thread.start()
        return thread

    def finish(self, thread: threading.Thread) -> None:
        """End it, and have what is left told."""
        self._over.set()
        thread.join()
        # The dead one is still taken for the reader, until it was not heard of for long.
        self.fleet.swarm.store.keyspace.client.delete(self.fleet.swarm.store.keyspace.key("telemetry", "telling"))
        wait_for("all is told", lambda: self.command("--once").wait(120) == 0, 300)


def play(fleet: Fleet, receiver: Receiver, order: str, *, kills: int, seed: int = 1) -> tuple[Job, Exporter]:
    """A job whose workers die while the exporter does."""
    for worker in [fleet.begin_worker(3, SWARM_LOG_FORMAT="json") for _ in range(2)]:
        worker.wait_ready()
    exporter = Exporter(fleet, receiver.url)
    thread = exporter.be_killed(seed)
    chance = random.Random(seed)
    try:
        job = fleet.submit(order, fleet.rehearse(latency_seconds=0.05))
        for _ in range(kills):
            victim = chance.choice([worker for worker in fleet.workers if worker.process.poll() is None])
            with suppress(AssertionError):
                wait_for("it has gone on", _has_gone_on(job), 20)
            victim.kill()
            fleet.start_worker(3)
        assert job.wait(900).state == "completed", job.view().reason
        wait_for("exporters were killed", lambda: exporter.kills >= 3, 60)
    finally:
        exporter.finish(thread)
    return job, exporter


def _has_gone_on(job: Job) -> Callable[[], bool]:
    turns = job.view().turns + 3
    return lambda: job.view().turns >= turns


def find_faults(fleet: Fleet, receiver: Receiver, job: Job) -> list[str]:
    """What of the trace, or of the figures, is not as the journals, the records and the totals have it."""
    entries = [entry for agent in job.agents() for entry in fleet.swarm.journal(agent.id)]
    spans = {name: span for name, span in receiver.read.items() if span.trace_id.hex() == trace_id(job.id)}
    faults = [f"{name} came again, and was another one" for name in receiver.differing]
    roots = [name for name, span in spans.items() if not span.parent_span_id]
    orphans = [n for n, span in spans.items() if span.parent_span_id and span.parent_span_id.hex() not in spans]
    if len(roots) != 1 or orphans:
        faults.append(f"{len(roots)} roots, {len(orphans)} orphans")
    found = Counter(span.name.split()[0] for span in spans.values())
    expected = {
        "invoke_workflow": 1,
        "invoke_agent": sum(isinstance(one, Finished) for one in entries),
        "execute_tool": sum(isinstance(one, ToolFinished) for one in entries),
        "chat": sum(isinstance(one, Assistant | Compacted | ModelFailed) for one in entries),
    }
    if found != Counter(expected):
        faults.append(f"spans are {dict(found)}, and not {expected}")
    sums = job.view().sums
    told = [{one.key: one.value for one in span.attributes} for span in spans.values()]
    tokens = sum(one["gen_ai.usage.input_tokens"].int_value for one in told if "gen_ai.usage.input_tokens" in one)
    written = sum(one["gen_ai.usage.output_tokens"].int_value for one in told if "gen_ai.usage.output_tokens" in one)
    if (tokens, written) != (sums.input + sums.cache_read + sums.cache_write, sums.output):
        faults.append(f"the spans have {tokens} and {written} tokens, and not those of {sums}")
    return faults + compare(fleet, read_metrics(fleet.swarm.store.keyspace))


def compare(fleet: Fleet, samples: list[Sample]) -> list[str]:
    """Where the figures of all jobs are not their records' sums."""
    sums = Counter[str]()
    for job in fleet.swarm.jobs():
        sums.update(vars(job.sums))
    sums["input"] += sums["cache_read"] + sums["cache_write"]
    figures = Counter[str]()
    for one in samples:
        figures[one.figure] += round(one.value * 1e9) if one.figure == "cost" else one.value
    faults = [
        f"{name}: {figures[name]:.0f} and not {sums[name]}"
        for name in ("input", "output", "cache_read", "cache_write", "cost", "turns")
        if round(figures[name]) != sums[name]
    ]
    calls = sum(sum(one.buckets) for one in samples if one.figure == "tool_seconds")
    return faults + ([] if calls == sums["tools"] else [f"{calls} calls of tools, and not {sums['tools']}"])


def main() -> int:
    """The long form."""
    parser = argparse.ArgumentParser(prog="python -m tests.telemetry_world")
    parser.add_argument("--order", default="TREE depth=4 fanout=5 steps=1 think=50")
    parser.add_argument("--kills", type=int, default=6, help="of workers")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with closing(Fleet()) as fleet, closing(Receiver(refused=10, unanswered=10, seed=given.seed)) as receiver:
        began = time.monotonic()
        job, exporter = play(fleet, receiver, given.order, kills=given.kills, seed=given.seed)
        faults = find_faults(fleet, receiver, job)
        print(
            f"{len(job.agents())} agents in {time.monotonic() - began:.0f} s, {given.kills} workers and {exporter.kills} exporters killed: "
            f"{len(receiver.spans)} spans, {receiver.repeats} sent again"
        )
        print("\n".join(faults) or "one root, no orphan, sums equal, nothing lost, nothing doubled")
        return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
