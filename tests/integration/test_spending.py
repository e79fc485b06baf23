"""The ledger of money, and its comparison with the provider's own count.

Tests of swarm/cli/cost.py, swarm/client/spending.py, swarm/models/usage_report.py, swarm/store/spending.py.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from swarm.cli.app import app
from swarm.client.spending import day_of, reconcile
from swarm.core.errors import ConfigurationError
from swarm.core.usage import Counters, Usage
from swarm.models.catalogue import charge_for
from swarm.models.usage_report import fetch_report, read_report
from swarm.store.spending import ModelStore, subtract_pages
from swarm.store.store import Store
from tests.fleet import Fleet
from tests.integration.test_money import _append
from tests.job_world import JobWorld

MODEL, SMALL = "claude-opus-5-5", "claude-haiku-5-5"
USED = Usage(input_tokens=1_000, output_tokens=2_000, cache_creation_input_tokens=3_000, cache_read_input_tokens=4_000)


def _bucket(day: date, *rows: tuple[str, Usage]) -> dict[str, Any]:
    """A bucket as the Admin API writes it."""
    results = [
        {
            "uncached_input_tokens": usage.input_tokens,
            "cache_creation": {
                "ephemeral_1h_input_tokens": 0,
                "ephemeral_5m_input_tokens": usage.cache_creation_input_tokens,
            },
            "cache_read_input_tokens": usage.cache_read_input_tokens,
            "output_tokens": usage.output_tokens,
            "server_tool_use": {"web_search_requests": 0},
            **{"api_key_id": None, "workspace_id": None, "model": model, "service_tier": None, "context_window": None},
        }
        for model, usage in rows
    ]
    return {"starting_at": f"{day}T00:00:00Z", "ending_at": f"{day + timedelta(days=1)}T00:00:00Z", "results": results}


@contextmanager
def _admin_api(buckets: list[dict[str, Any]]) -> Iterator[str]:
    """A server of the Admin API, which answers a bucket a page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place, asked = urlsplit(self.path), parse_qs(urlsplit(self.path).query)
            right = place.path == "/v1/organizations/usage_report/messages" and asked["group_by[]"] == ["model"]
            status, page = 200 if right else 404, int(asked.get("page", ["0"])[0])
            if self.headers["x-api-key"] != "sk-ant-admin-1" or not self.headers["anthropic-version"]:
                status = 401
            more = page + 1 < len(buckets)
            answer = {"data": buckets[page : page + 1], "has_more": more, "next_page": str(page + 1) if more else None}
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer if status == 200 else {"error": {"message": "no"}}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def test_the_ledger_counts_each_model_and_agrees_with_the_providers_report(
    unmanned: Fleet, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = day_of(store.now())
    before = ModelStore(store.keyspace).spending().get(today, {})
    world = JobWorld(store, unmanned, team=False)
    world.start("a", teammate=False)
    _append(world, "a", charge_for(MODEL, USED, estimated=Usage(output_tokens=500)))
    _append(world, "a", charge_for(SMALL, USED))
    _append(world, "a", charge_for("claude-nova-9", Usage(output_tokens=70)))
    after = ModelStore(store.keyspace).spending()[today]
    used = {model: _less(after[model], before.get(model, Counters())) for model in (MODEL, SMALL, "claude-nova-9")}
    assert used[MODEL].usage == used[SMALL].usage == USED
    assert used[MODEL].cost > used[SMALL].cost > 0 < used[MODEL].estimated
    assert (used["claude-nova-9"].cost, used["claude-nova-9"].unpriced) == (0, 70)
    view = store.jobs.get(world.job_id)
    assert view.sums.cost == sum(one.cost for one in used.values())

    for name, value in unmanned.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SWARM_REDIS_URL", unmanned.url)
    monkeypatch.setenv("SWARM_KEY_PREFIX", store.keyspace.prefix)

    def ask(*words: str, code: int = 0) -> str:
        ran = CliRunner().invoke(app, ["cost", *words])
        assert ran.exit_code == code, (ran.output, ran.exception)
        return ran.output

    assert "estimated" in ask("--by", "model") and "?" in ask("--by", "model")
    assert json.loads(ask("--by", "job", "--json"))["rows"] and str(unmanned.workspace)[:12] in ask("--by", "workspace")

    rows = [(model, one.usage) for model, one in after.items() if model != "rehearsal"]
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"data": [_bucket(today, *rows)], "has_more": False, "next_page": None}))
    assert "both counts agree" in ask("--reconcile", str(report))
    lines = ["usage_date_utc,model_version,usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,"]
    lines[0] += "usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens"
    figures = "{0.input_tokens},{0.cache_creation_input_tokens},0,{0.cache_read_input_tokens},{0.output_tokens}"
    table = tmp_path / "report.csv"
    table.write_text("\n".join([*lines, *(f"{today},{model},{figures.format(usage)}" for model, usage in rows)]))
    assert read_report(table) == read_report(report)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigurationError, match="no column usage_date_utc"):
        read_report(tmp_path / "other.csv")
    table.write_text(
        "\n".join([*lines, *(f"{today},{model},{figures.format(usage + usage)}" for model, usage in rows)])
    )
    assert "the fleet counted 50.0% less" in ask("--reconcile", str(table), code=1)


def _less(after: Counters, before: Counters) -> Counters:
    return Counters(**{name: value - getattr(before, name) for name, value in vars(after).items()})


def test_the_admin_api_is_read_page_by_page_and_its_refusal_is_told() -> None:
    first, last = date(2026, 11, 1), date(2026, 11, 2)
    snapshot = f"{MODEL}-20261101"
    with _admin_api([_bucket(first, (MODEL, USED)), _bucket(last, (snapshot, USED), (MODEL, USED))]) as url:
        report = fetch_report(url, "sk-ant-admin-1", first, last)
        assert report == {first: {MODEL: USED}, last: {snapshot: USED, MODEL: USED}}
        with pytest.raises(Exception, match=r"refuses the usage report \(401\).*ANTHROPIC_ADMIN_API_KEY"):
            fetch_report(url, "sk-ant-other", first, last)
    ours = {last: {MODEL: Counters(input=2_000, output=4_000, cache_write=6_000, cache_read=8_000)}}
    *rows, whole = reconcile(ours, report)
    assert [(row.day, row.model, row.difference) for row in rows] == [(first, MODEL, 1.0), (last, MODEL, 0.0)]
    assert whole.difference == pytest.approx(1 / 3) and whole.theirs_usd


def test_a_day_is_what_the_ledger_gained_until_the_next_one_began() -> None:
    pages = {
        100: {},
        101: {"first": "101", "m|input": "5"},
        102: {},
        103: {"first": "101", "m|input": "9", "n|cost": "1"},
    }
    now = {"first": "101", "m|input": "10", "n|cost": "1"}
    found = {(day - date(1970, 1, 1)).days: models for day, models in subtract_pages(pages, now, 103).items()}
    assert found == {
        100: {"m": Counters(input=5)},
        101: {"m": Counters(input=4), "n": Counters(cost=1)},
        103: {"m": Counters(input=1)},
    }
    assert subtract_pages({103: {}}, {"m|input": "2"}, 103) == {
        date(1970, 1, 1) + timedelta(103): {"m": Counters(input=2)}
    }
    assert subtract_pages({}, {}, 103) == {}


def test_a_sweep_on_a_new_day_begins_a_page(unmanned: Fleet, store: Store) -> None:
    key, client = store.keyspace.key, store.keyspace.client
    client.hincrby(key("spent"), "claude-x|input", 3)
    today = int(store.now() // 86_400)
    client.delete(key("spent", str(today)))
    client.set(key("pulse"), str((today - 1) * 86_400.0))
    client.delete(*client.keys(key("rescue-lock:*")) or ["none"])
    store.keyspace.run("begin_sweep", "w", 0.1, 1e9, 1.0, 0.9)
    assert (
        int(client.hget(key("spent", str(today)), "claude-x|input")) >= 3 and client.ttl(key("spent", str(today))) > 0
    )


def test_a_summary_that_dies_with_its_worker_is_charged_as_an_estimate(unmanned: Fleet, store: Store) -> None:
    world = JobWorld(store, unmanned, team=False)
    estimate = charge_for(SMALL, USED, estimated=USED)
    store.events.begin_summary(world.root, 2, 0.0, estimate)
    assert store.jobs.get(world.job_id).sums.cost == 0
    store.leases.rescue(max_deaths=5, outbox_age_seconds=60, batch=0, dead=[(world.root, "worker-root")])
    sums = store.jobs.get(world.job_id).sums
    assert (sums.usage, sums.cost) == (USED, sums.estimated) and sums.cost > 0
    store.leases.rescue(max_deaths=5, outbox_age_seconds=60, batch=0, dead=[(world.root, "worker-root")])
    assert store.jobs.get(world.job_id).sums == sums, "once"
