"""`swarm doctor --live`: examine the model's server, and remember its differences."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict

import typer

from swarm.cli.output import message_console, output_console, print_json, show_cost, show_duration
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError, SwarmError
from swarm.core.settings import Settings
from swarm.local.redis_server import read_redis_status
from swarm.models.assumptions import ASSUMPTIONS
from swarm.models.catalogue import resolve_model
from swarm.models.connection import explain_missing
from swarm.models.examination import Examination, ServerFinding
from swarm.models.facts import NO_FACTS, ModelFacts, name_at
from swarm.models.profiles import profile_of
from swarm.store.outage import RedisError
from swarm.store.spending import ModelStore

_NAME_WIDTH = 20


def examine_server(settings: Settings, model: str, *, as_json: bool) -> None:
    """Print what the server does of all that requests assume. Raises `ConfigurationError`, `Exit`."""
    if missing := explain_missing(settings):
        raise ConfigurationError(missing)
    full = resolve_model(model, default=model, parent=None, prices_file=settings.prices_file)
    began, findings = time.monotonic(), list[ServerFinding]()
    with closing(Examination(settings, full)) as examination:
        if not as_json:
            message_console().print(f"asking {name_at(full, settings.base_url)} …")
            if (profile := profile_of(settings)) is not None:
                message_console().print(f"{profile.title}{f': {profile.differs}' if profile.differs else ''}")
        for finding in examination.run(ASSUMPTIONS):
            findings.append(finding)
            if not as_json:
                _print_finding(finding)
    kept = _remember(settings, full, examination.facts) if len(findings) == len(ASSUMPTIONS) else ""
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        cost = show_cost(examination.charge.cost_usd, examination.charge.unpriced_tokens)
        message_console().print(f"{cost}, {show_duration(time.monotonic() - began)}. {kept}".rstrip())
    if any(finding.needed and not finding.ok for finding in findings):
        raise typer.Exit(1)


def _print_finding(finding: ServerFinding) -> None:
    mark = "ok" if finding.ok else "FAILED" if finding.needed else "differs"
    style = "" if finding.ok else "bold red" if finding.needed else "yellow"
    console = output_console()
    console.print(f"{mark:8}{finding.name:{_NAME_WIDTH}}{finding.seen}", style=style, soft_wrap=True)
    if finding.follows:
        console.print(f"{'':{8 + _NAME_WIDTH}}{finding.follows}", soft_wrap=True)


def _remember(settings: Settings, model: str, facts: ModelFacts) -> str:
    """Replace what refusals told, because a refusal may have been odd. Returns a sentence about it."""
    try:
        if not read_redis_status(settings).running:
            return "Not remembered, because no Redis runs: agents learn differences from refusals."
        name = name_at(model, settings.base_url)
        ModelStore(Swarm(settings).store.keyspace).set_facts(name, facts)
    except (SwarmError, RedisError, OSError) as error:
        return f"Not remembered: {error}"
    if facts == NO_FACTS:
        return "The fleet knows of no differences."
    return "The fleet remembers the differences for 30 days."
