"""`swarm doctor`: check this machine, and say how to get missing parts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from swarm.agent.hosts import compare_hosts, most_common
from swarm.agent.needs import Has, Needs, find_differing, find_files_lack
from swarm.cli.options import JsonOption
from swarm.cli.output import output_console, print_json, show_number
from swarm.cli.tables import Column, Listing
from swarm.client.swarm import Swarm
from swarm.client.upgrade import check_upgrade
from swarm.core.capabilities import capabilities, load
from swarm.core.errors import ConfigurationError, SwarmError
from swarm.core.release import FORMAT, VERSION
from swarm.core.settings import Settings, load_settings
from swarm.definitions.mcp.lacks import find_lack
from swarm.definitions.mcp.reader import load_servers
from swarm.definitions.tools import all_rows
from swarm.hub.probe import find_trouble
from swarm.local.exposure import find_exposures
from swarm.local.redis_server import read_redis_status
from swarm.local.server_binary import find_server
from swarm.local.stack import has_worker
from swarm.models.catalogue import context_tokens, price_of, resolve_model
from swarm.models.connection import find_credentials
from swarm.models.facts import ModelFacts
from swarm.permissions.sandbox import Backend, choose_backend
from swarm.store.callbacks import NAME_BROKER, Callbacks, explain_stranded
from swarm.store.connection import hide_password, ping_server
from swarm.store.outage import RedisError
from swarm.store.server import find_faults
from swarm.store.spending import REHEARSAL, ModelStore
from swarm.tools.outside import find_outside_tools
from swarm.tools.ripgrep import find_ripgrep

_OLDEST_PYTHON = (3, 11)
_SHOWN_LACKS = 20
_LATE_SECONDS = 900.0
"""Time that workers have for a job that is due for the archive."""
_TROUBLE = (SwarmError, RedisError, OSError)


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
    needed: bool = True
    """Whether everything depends on it, or only some uses do."""


def doctor(
    as_json: JsonOption = False,
    fleet: Annotated[bool, typer.Option("--fleet", help="Compare the fleet's hosts and this machine.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Examine the model's server, for a few cents.")] = False,
    model: Annotated[str | None, typer.Option("--model", help="With --live: examine this model.")] = None,
) -> None:
    """Check this machine's requirements; exit code 1 if a needed one is missing."""
    settings = load_settings()
    if live:
        from swarm.cli.examination import examine_server

        examine_server(settings, model or settings.small_model, as_json=as_json)
        return
    checks = check_fleet(settings, Swarm(settings).workers()) if fleet else run_checks(settings)
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        print_checks(checks)
    if any(check.needed and not check.ok for check in checks):
        raise typer.Exit(1)


def run_checks(settings: Settings) -> list[Check]:
    """Run all checks. Nothing is changed; only a test command in the sandbox is started."""
    checks: list[Callable[[Settings], Check]] = [
        _check_release,
        _check_python,
        _check_sdk,
        _check_key,
        _check_git,
        _check_ripgrep,
        _check_sandbox,
        _check_state_folder,
        _check_server if settings.redis_url is None else _check_redis,
        *([_check_hub] if settings.hub else []),
        _check_worker,
        _check_hosts,
        _check_served,
        _check_models,
        load("swarm.cli.local_models:check_local_models"),
        _check_callbacks,
        check_archive,
        _check_tools,
        *(load(f"swarm.cli.{one.check}") for one in capabilities().values() if one.check),
        _check_servers,
    ]
    return [*(check(settings) for check in checks), *_check_exposures(settings)]


def check_fleet(settings: Settings, workers: list[Has]) -> list[Check]:
    """Compare the hosts of these workers with each other, and their files' places with this machine's."""
    if not workers:
        return [
            Check("workers", False, "none", "`swarm worker` starts one, `swarm join` configures a host", needed=False)
        ]
    checks = [Check("hosts", True, ", ".join(sorted({has.host for has in workers})))]
    checks += [Check(one.name, not one.remedy, one.found, one.remedy, needed=False) for one in compare_hosts(workers)]
    if settings.hub is not None:
        here = Needs(hub=settings.hub, checkouts=str(settings.checkouts_folder()))
        lack = next((found for has in workers if (found := find_files_lack(here, has))), "")
        checks.append(Check("jobs from here", not lack, lack or "their files reach all workers", lack, needed=False))
    elif hub := most_common(has.hub for has in workers if has.hub):
        found, place = "their files do not go through the workers' hub", most_common(has.checkouts for has in workers)
        remedy = f"set SWARM_HUB={hub} and SWARM_CHECKOUTS={place} here"
        checks.append(Check("jobs from here", False, found, remedy, needed=False))
    return checks


def print_checks(checks: list[Check]) -> None:
    """Print checks as a table, and the remedies below it."""
    Listing[Check](
        Column("", lambda check: "ok" if check.ok else "MISSING" if check.needed else "note"),
        Column("what", lambda check: check.name),
        Column("found", lambda check: check.found),
        style=lambda check: "" if check.ok else "bold red" if check.needed else "yellow",
    ).show(checks)
    console = output_console()
    for check in checks:
        if not check.ok and check.remedy:
            console.print(f"{check.name}: {check.remedy}", soft_wrap=True)


# -- the checks --------------------------------------------------------------------------------------------


def _check_python(settings: Settings) -> Check:
    found = ".".join(str(part) for part in sys.version_info[:3])
    return Check(
        "Python", sys.version_info >= _OLDEST_PYTHON, f"{found} ({sys.executable})", "install Python 3.11 or newer"
    )


def _check_release(settings: Settings) -> Check:
    """Check this release, and whether all workers have it."""
    here = f"{VERSION}, format {FORMAT}"
    try:
        upgrade = check_upgrade(Swarm(settings)) if read_redis_status(settings).running else None
    except (SwarmError, RedisError, OSError) as error:
        return Check("swarm", False, f"{here}; the workers' are unknown", str(error), needed=False)
    others = Counter(one.version for one in upgrade.workers if one.version != VERSION) if upgrade else Counter[str]()
    told = [f"{show_number(count, 'worker')} of {version}" for version, count in others.items()]
    return Check("swarm", not told, "; ".join([here, *told]), "`swarm upgrade` shows the order", needed=False)


def _check_sdk(settings: Settings) -> Check:
    try:
        return Check("Anthropic SDK", True, version("anthropic"))
    except PackageNotFoundError:
        return Check("Anthropic SDK", False, "not installed", "install it: pip install anthropic")


def _check_key(settings: Settings) -> Check:
    found = find_credentials(settings)
    remedy = "set ANTHROPIC_API_KEY where the workers run; `swarm demo` works without"
    return Check("key for the model", found is not None, found or "none", remedy, needed=False)


def _check_git(settings: Settings) -> Check:
    path = shutil.which("git")
    remedy = "install git; without it agents cannot read a repository's history"
    if path is None:
        return Check("git", False, "not on the PATH", remedy, needed=False)
    return Check("git", True, _first_line([path, "--version"]) or path, remedy, needed=False)


def _check_ripgrep(settings: Settings) -> Check:
    try:
        path = find_ripgrep()
    except SwarmError as error:
        return Check("ripgrep", False, "not found", str(error))
    found = _first_line([path, "--version"])
    return Check("ripgrep", found is not None, f"{found or 'does not run'} ({path})", "install ripgrep (`rg`)")


def _check_sandbox(settings: Settings) -> Check:
    found = choose_backend(settings.sandbox)
    if not isinstance(found, Backend):
        consequence = "read-only agents get no shell, and the shell of a writing agent can do what this user can"
        remedy = f"{consequence}; {found.remedy}" if found.remedy else consequence
        return Check("sandbox", False, f"none: {found.reason}", remedy, needed=False)
    promised = ", ".join(sorted(found.promises))
    told = f"{found.name}, for {promised}"
    if found.note or found.missing:
        lacking = f"not held: {'; '.join(found.missing)}" if found.missing else ""
        better = f"bubblewrap is better: {found.note}" if found.note else ""
        return Check("sandbox", not found.note, told, ". ".join(filter(None, (lacking, better))), needed=False)
    return Check("sandbox", True, told)


def _check_state_folder(settings: Settings) -> Check:
    folder = settings.state_folder()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    remedy = "make it writable, or set SWARM_STATE_DIR to a folder that is"
    try:
        if not existing.is_dir():
            return Check("state folder", False, f"{existing} is not a folder", remedy)
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return Check("state folder", False, f"{folder}: {error.strerror}", remedy)
    return Check("state folder", True, str(folder))


def _check_server(settings: Settings) -> Check:
    status = read_redis_status(settings)
    if status.running:
        return Check("Redis", True, f"{status.version} ({status.origin}), running at {status.url}")
    try:
        server = find_server()
    except SwarmError as error:
        return Check("Redis", False, "no server to start", str(error))
    return Check("Redis", True, f"{server.version} ({server.origin}) at {server.path}, not running")


def _check_redis(settings: Settings) -> Check:
    assert settings.redis_url is not None
    try:
        info = ping_server(settings)
        full = Swarm(settings).store.fleet.full()
    except ConfigurationError as error:
        return Check("Redis", False, "cannot be used", str(error))
    except (SwarmError, RedisError) as error:
        return Check("Redis", False, "does not answer", str(error))
    faults = find_faults(info, replicated=settings.redis_url.startswith("sentinel:"))
    found = f"{info.get('redis_version', 'a version unknown')} at {hide_password(settings.redis_url)}"
    worries = [full] if full else []
    worries += [f"{fault.found}: {fault.remedy}" for fault in faults]
    return Check("Redis", not worries, found, "; ".join(worries), needed=False)


def _check_hub(settings: Settings) -> Check:
    trouble, remedy = find_trouble(settings)
    if trouble:
        return Check("hub", False, f"{settings.hub} cannot be used: {trouble}", remedy)
    return Check("hub", True, f"{settings.hub}; checkouts in {settings.checkouts_folder()}")


def _check_exposures(settings: Settings) -> list[Check]:
    """Exposures as a worker reports them at startup, except those of the sandbox and Redis checks."""
    found = [each for each in find_exposures(settings) if each.name not in ("no sandbox", "no bubblewrap", "Redis")]
    return [Check(each.name, False, each.found, each.remedy, needed=False) for each in found]


def _check_worker(settings: Settings) -> Check:
    remedy = "`swarm run` starts one for its job; `swarm up` or `swarm worker` keeps one running"
    try:
        alive = has_worker(settings)
    except _TROUBLE as error:
        return Check("worker", False, "unknown", str(error), needed=False)
    return Check("worker", alive, "running" if alive else "none", remedy, needed=False)


def _check_hosts(settings: Settings) -> Check:
    try:
        workers = Swarm(settings).workers() if read_redis_status(settings).running else []
    except (SwarmError, OSError) as error:
        return Check("hosts", False, "unknown", str(error), needed=False)
    faults = [one for one in compare_hosts(workers) if one.remedy]
    sick = "; ".join({f"{has.host}: {has.sick}": None for has in workers if has.sick})
    if sick:
        return Check("hosts", False, sick, "these hosts take no agents until the fault is mended", needed=False)
    if faults:
        return Check("hosts", False, f"{len(faults)} differences", "`swarm doctor --fleet` names them", needed=False)
    return Check("hosts", True, ", ".join(sorted({has.host for has in workers})) or "none")


def _check_served(settings: Settings) -> Check:
    try:
        lacks = Swarm(settings).find_lacks() if read_redis_status(settings).running else {}
    except _TROUBLE as error:
        return Check("waiting jobs", False, "unknown", str(error), needed=False)
    if not lacks:
        return Check("waiting jobs", True, "none without a worker")
    shown = [f"{job_id}: {lack}" for job_id, lack in islice(lacks.items(), _SHOWN_LACKS)]
    found = "; ".join(shown) + (f"; and {len(lacks) - len(shown)} more" if len(lacks) > len(shown) else "")
    return Check(
        "waiting jobs", False, f"no worker can run {found}", "start a worker that has the missing parts", needed=False
    )


def _check_models(settings: Settings) -> Check:
    """Check whether the models in use have a price, and the context window of the table."""
    file = settings.prices_file
    try:
        used = {settings.model, settings.small_model}
        models = {resolve_model(name, default=name, parent=None, prices_file=file) for name in used}
        told: dict[str, ModelFacts] = {}
        if read_redis_status(settings).running:
            swarm = Swarm(settings)
            models |= {
                model for used_then in ModelStore(swarm.store.keyspace).spending().values() for model in used_then
            } - {REHEARSAL}
            told = ModelStore(swarm.store.keyspace).all_facts()
    except _TROUBLE as error:
        return Check("models", False, "unknown", str(error), needed=False)
    faults = [f"{model} has no price" for model in sorted(models) if price_of(model, prices_file=file) is None]
    for name, facts in sorted(told.items()):
        known = context_tokens(name.partition(" at ")[0], prices_file=file)
        if facts.window is not None and facts.window < known:
            faults.append(f"{name} holds {facts.window:,} tokens, by its server, and {known:,} by the table")
    remedy = "give their `models:` rows the true values in the file of SWARM_PRICES_FILE"
    return Check("models", not faults, "; ".join(faults) or ", ".join(sorted(models)), remedy, needed=False)


def _check_callbacks(settings: Settings) -> Check:
    try:
        stranded = Callbacks(Swarm(settings).store.keyspace).stranded() if read_redis_status(settings).running else {}
    except _TROUBLE as error:
        return Check("other brokers", False, "unknown", str(error), needed=False)
    found = "; ".join(explain_stranded(broker, jobs) for broker, jobs in stranded.items())
    return Check("other brokers", not found, found or "nothing is left there", NAME_BROKER, needed=False)


def check_archive(settings: Settings) -> Check:
    """Check whether jobs that are due reach the archive. What does not stays in Redis."""
    try:
        archive = Swarm(settings).store.archive if read_redis_status(settings).running else None
        trouble = archive.trouble() if archive else ""
        late = archive.count_due(_LATE_SECONDS) if archive else 0
    except _TROUBLE as error:
        return Check("archive", False, "unknown", str(error), needed=False)
    if not trouble and not late:
        return Check("archive", True, "no job waits for it")
    found = f"{show_number(late, 'job')} should have been archived: " if late else ""
    remedy = "these jobs stay in Redis, whole, until a worker can archive them; `swarm archive --due` tries it here"
    return Check("archive", False, found + (trouble or "no worker does it"), remedy, needed=False)


def _check_tools(settings: Settings) -> Check:
    """Check custom tools on this machine and on the workers."""
    faults = [f"here: {fault}" for fault in find_outside_tools(settings.tools)]
    own = [row.name for row in all_rows() if row.origin]
    differing: list[str] = []
    try:
        if read_redis_status(settings).running:
            fleet = Swarm(settings).fleet()
            faults += [f"{worker}: {fault}" for worker, has in fleet.items() for fault in has.broken]
            differing = find_differing(fleet.values())
    except _TROUBLE as error:
        faults.append(f"unknown: {error}")
    if not faults and not differing:
        return Check("own tools", True, ", ".join(own) or "none")
    differ = [f"{name} has several versions on the fleet" for name in differing]
    remedy = "correct these tools, or install one package version on all workers"
    return Check("own tools", False, "; ".join([*faults, *differ]), remedy, needed=False)


def _check_servers(settings: Settings) -> Check:
    """Check whether a worker of this machine could run the MCP servers of this folder and its person."""
    servers = load_servers(Path.cwd(), Path.home(), trusted=True).servers
    lacks: dict[str, list[str]] = {}
    for server in servers:
        lacks.setdefault(find_lack(server), []).append(server.name)
    ready = f"{len(lacks.pop('', []))} of {len(servers)} can run here" if servers else "none configured"
    remedy = "; ".join(f"{', '.join(names)}: {lack}" for lack, names in lacks.items())
    return Check("MCP servers", not lacks, ready, remedy, needed=False)


def _first_line(command: list[str]) -> str | None:
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL, env=os.environ
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.splitlines()[0] if ran.returncode == 0 and ran.stdout else None
