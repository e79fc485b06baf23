"""A life of 600 turns in a window of 200 000 tokens: what a turn and a reload cost after the fifth cut, against after the first."""

from __future__ import annotations

import statistics
import tempfile
import time
from argparse import Namespace
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import anthropic
import httpx2

from bench.lives import WIDE, claim_root, run_segment
from bench.measure import Report
from bench.served import serve
from swarm.agent.entries import Compacted
from swarm.models import ModelRequest, Reply
from swarm.models.anthropic import AnthropicModel
from swarm.store.store import Store
from tests.fleet import Fleet

TURNS = 600
MODEL = "claude-opus-4-5"
"""The table of prices, and so the rehearsal server, gives it 200 000 tokens."""
STRETCH = range(20, 70)
"""The turns after a cut that are looked at."""
LOADS = 7

SCENARIO = f"""
name: long
rules:
  - when: {{turn: '0-{TURNS - 2}'}}
    reply: {{thinking: 'thinking of {{turn}}', text: 'on with {{turn}}', tools: [{{name: Read, input: {{file_path: page.txt}}}}]}}
  - reply: {{text: all read}}
"""


class Watched(AnthropicModel):
    """A model that notes what lies between its requests, by the number of the cut before them."""

    def __init__(self, fleet: Fleet, url: str, agent_id: str) -> None:
        self._store: Store = fleet.swarm.store
        self._agent_id = agent_id
        http = anthropic.DefaultHttpxClient(
            transport=httpx2.HTTPTransport(), trust_env=False, event_hooks={"request": [self._note]}
        )
        client = anthropic.Anthropic(base_url=url, api_key="rehearsal", max_retries=0, http_client=http)
        super().__init__(fleet.settings, client=client)
        self.cuts = self._since = 0
        self.cpu: dict[int, list[float]] = defaultdict(list)
        self.redis: dict[int, list[int]] = defaultdict(list)
        self.body: dict[int, list[int]] = defaultdict(list)
        self.loading: dict[int, tuple[float, int]] = {}
        self._ended, self._moved = time.process_time(), 0

    def complete(self, request: ModelRequest, *hearers: Any, **named: Any) -> Reply:
        """Make the request with the real model."""
        began, looked = time.process_time(), self._since in STRETCH
        if looked:
            self.cpu[self.cuts].append(began - self._ended)
            self.redis[self.cuts].append(self._traffic() - self._moved)
        if self._since == STRETCH.stop and self.cuts not in self.loading:
            self.loading[self.cuts] = self._load()
        self.cuts, self._since = (self.cuts + 1, 0) if request.summarize else (self.cuts, self._since + 1)
        reply = super().complete(request, *hearers, **named)
        self._moved, self._ended = self._traffic(), time.process_time()
        return reply

    def _note(self, request: httpx2.Request) -> None:
        if self._since in STRETCH:
            self.body[self.cuts].append(len(request.content))

    def _traffic(self) -> int:
        stats: Any = self._store.keyspace.client.info("stats")
        return int(stats["total_net_input_bytes"]) + int(stats["total_net_output_bytes"])

    def _load(self) -> tuple[float, int]:
        """What loading the agent costs now: CPU seconds, and bytes from Redis."""
        took, before = [], self._traffic()
        for _ in range(LOADS):
            began = time.process_time()
            self._store.journals.history(self._agent_id)
            took.append(time.process_time() - began)
        return statistics.median(took), (self._traffic() - before) // LOADS


def run(report: Report, chosen: Namespace) -> None:
    """One life; the stretch after each cut is compared with the one after the first."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "long.yaml"
        scenario.write_text(SCENARIO)
        with serve(str(scenario)) as url, closing(Fleet()) as fleet:
            _live(report, fleet, url)


def _live(report: Report, fleet: Fleet, url: str) -> None:
    (fleet.workspace / "page.txt").write_text("".join(f"line {n} of a page that is read again\n" for n in range(150)))
    job = fleet.swarm.submit(
        "Read the page, again and again.",
        agent="general-purpose",
        workspace=fleet.workspace,
        base_url=url,
        model=MODEL,
        limits=WIDE,
    )
    claim = claim_root(fleet, job)
    watched = Watched(fleet, url, claim.agent_id)
    began = time.monotonic()
    _, history = run_segment(fleet, claim, watched)
    assert history.turns == TURNS, history.turns
    cuts = [entry for entry in fleet.swarm.journal(claim.agent_id) if isinstance(entry, Compacted)]
    usage, paid = history.usage, history.paid
    whole = usage.total_tokens - usage.output_tokens
    report.note(
        f"{history.turns} turns and {len(cuts)} cuts in {time.monotonic() - began:.0f} s; {whole:,} tokens of input"
    )
    report.note(f"each cut from about {statistics.median(cut.tokens_before for cut in cuts):,.0f} tokens")
    entry = max(len(cut.model_dump_json()) for cut in cuts)
    report.note(
        f"the entry of a cut: at most {entry / 1000:.0f} kB; summaries cost ${sum(c.cost_usd for c in cuts):.2f} of ${paid.cost_usd:.2f}"
    )
    report.figure("compaction, cuts that are missing of five", max(0, 5 - len(cuts)), "", target=0)
    report.figure(
        "compaction, input not read from the cache", 1 - usage.cache_read_input_tokens / whole, "", target=0.05
    )
    read = sum(cut.usage.cache_read_input_tokens for cut in cuts)
    made = sum(cut.usage.total_tokens - cut.usage.output_tokens for cut in cuts)
    report.figure("compaction, input of summaries not read from it", 1 - read / made, "", target=0.01)
    for what, found, unit, scale in (
        ("CPU between requests", watched.cpu, "ms", 1e3),
        ("bytes to and from Redis", watched.redis, "kB", 1e-3),
        ("bytes of a request", watched.body, "kB", 1e-3),
    ):
        first, fifth = (statistics.median(found[cut]) * scale for cut in (1, 5))
        report.note(f"{what}, a turn: {first:.2f} {unit} after the first cut, {fifth:.2f} after the fifth")
        report.figure(f"compaction, {what}", fifth / first, "×", target=1.2)
    for at, what, unit, scale in ((0, "CPU", "ms", 1e3), (1, "bytes", "kB", 1e-3)):
        first, fifth = (watched.loading[cut][at] * scale for cut in (1, 5))
        report.note(f"loading, {what}: {first:.1f} {unit} after the first cut, {fifth:.1f} after the fifth")
        report.figure(f"compaction, loading, {what}", fifth / first, "×", target=1.2)
