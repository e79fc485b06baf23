"""Journal appends a second, against raw XADD of the same documents."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from contextlib import closing

from bench.lives import claim_root, submit
from bench.measure import Report, alternate
from swarm.agent.entries import Assistant, encode_entry
from swarm.models import Usage
from swarm.store.values import Counters
from tests.fleet import Fleet

APPENDS = 2_000
ROUNDS = 5


def run(report: Report, chosen: Namespace) -> None:
    """One client, one connection, one round trip each; the server keeps its append-only file."""
    entry = Assistant(
        content=[{"type": "text", "text": "word " * 60}],
        stop_reason="end_turn",
        usage=Usage(input_tokens=1200, output_tokens=80),
        cost_usd=0.01,
        model="claude-sonnet-4-5",
        request_id="req_bench",
        duration_seconds=1.0,
    )
    with closing(Fleet()) as fleet:
        store = fleet.swarm.store

        def append(counters: Counters | None) -> float:
            claim = claim_root(fleet, submit(fleet, "http://127.0.0.1:9", "append"))
            began = time.monotonic()
            for number in range(1, APPENDS + 1):
                store.journals.append(claim, number, [entry], activity="answering", counters=counters)
            return APPENDS / (time.monotonic() - began)

        def raw() -> float:
            document = encode_entry(entry)
            store.keyspace.client.delete("bench:raw")
            began = time.monotonic()
            for number in range(1, APPENDS + 1):
                store.keyspace.client.xadd("bench:raw", {"e": document}, id=f"{number}-0")
            return APPENDS / (time.monotonic() - began)

        plain, counted, raws = alternate(
            ROUNDS, lambda: append(None), lambda: append(Counters(turns=1, input=1200, output=80, cost=5)), raw
        )
        ours, reply, theirs = statistics.median(plain), statistics.median(counted), statistics.median(raws)
        report.note(f"append {ours:,.0f}/s; with a reply's counters and event {reply:,.0f}/s; XADD {theirs:,.0f}/s")
        report.note(f"XADD is {theirs / ours:.2f}× and {theirs / reply:.2f}× as fast")
