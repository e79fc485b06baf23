"""`swarm up`, `down`, `status`, `worker` and `flower`: processes that run agents and show them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swarm.cli.options import JsonOption
from swarm.cli.output import print_json, print_line, print_note, show_duration, show_number
from swarm.core.errors import ConfigurationError
from swarm.core.settings import LOOPBACK, load_settings

if TYPE_CHECKING:
    from swarm.agent.needs import Has
    from swarm.local.stack import StackStatus

_SHOWN_LACKS = 20


def bring_up(
    workers: Annotated[int, typer.Option(min=0, help="Number of workers.")] = 1,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Agents at once on each worker.", show_default="4 a processor, 8 to 20")
    ] = None,
    flower: Annotated[bool, typer.Option("--flower", help="Run the Flower dashboard, too.")] = False,
    flower_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, help="Port of Flower (implies --flower); 0 takes a free one.", show_default="5555"
        ),
    ] = None,
) -> None:
    """Start the local stack: Redis, workers and, if asked for, Flower. Running processes are kept.

    If SWARM_HUB is an address of this machine, the hub is started, too.
    """
    from swarm.cli.interrupts import Interrupts
    from swarm.cli.patience import said
    from swarm.local.page_token import find_token
    from swarm.local.stack import up
    from swarm.models.connection import find_credentials

    settings = load_settings()
    port = flower_port if flower_port is not None else 5555 if flower else None
    with Interrupts(), said("starting: getting Redis and workers ready"):
        status = up(settings, workers=workers, concurrency=concurrency, flower_port=port)
    _print_status(status, find_token(settings))
    if find_credentials(settings) is None:
        print_note("note: there is no key for the model; set ANTHROPIC_API_KEY and restart (`swarm down`, `swarm up`)")


def take_down() -> None:
    """Stop the local stack. Agents stop at their next turn; their jobs continue after `swarm up`."""
    from swarm.cli.interrupts import Interrupts
    from swarm.cli.patience import said
    from swarm.local.stack import down, status
    from swarm.runtime.scratch import remove_scratch

    settings = load_settings()
    before = status(settings)
    with Interrupts() as interrupts, interrupts.held(), said("stopping: agents finish their turn"):
        down(settings)
    remove_scratch(settings)
    ours = before.redis.running and before.redis.origin != "external"
    print_line("stopped" if before.workers or before.flower or before.hub or ours else "nothing was running")


def show_status(as_json: JsonOption = False) -> None:
    """Show the processes of the local stack."""
    from swarm.cli.questions import count_open
    from swarm.client.swarm import Swarm
    from swarm.local.page_token import find_token
    from swarm.local.stack import status
    from swarm.store.callbacks import NAME_BROKER, Callbacks, explain_stranded

    settings = load_settings()
    found = status(settings)
    asking, fleet, lacks, stranded, full = 0, {}, {}, {}, ""
    if found.redis.running:
        swarm = Swarm(settings)
        asking, fleet, lacks = count_open(swarm).total(), swarm.fleet(), swarm.find_lacks()
        stranded, full = Callbacks(swarm.store.keyspace).stranded(), swarm.store.fleet.full()
    if as_json:
        offers = {worker: dict(has.offers) for worker, has in fleet.items() if has.offers}
        broken = {worker: list(has.broken) for worker, has in fleet.items() if has.broken}
        waiting = {"questions": asking, "unserved": lacks, "stranded": stranded, "full": full}
        had = {"fleet": list(fleet), "offers": offers, "broken_tools": broken}
        print_json({**found.model_dump(mode="json"), **had, **waiting})
        return
    _print_status(found, find_token(settings))
    if settings.hub is not None:
        print_line(
            f"files   new jobs carry theirs through {settings.hub}; checkouts below {settings.checkouts_folder()}"
        )
    elif settings.snapshots:
        print_line("files   new jobs keep snapshots of their workspace")
    _print_fleet(fleet)
    if asking:
        print_line(f"asks    {show_number(asking, 'question')} for you; `swarm questions` lists them")
    for job_id, lack in islice(lacks.items(), _SHOWN_LACKS):
        print_line(f"waits   {job_id}: no worker can run it: {lack}")
    if (more := len(lacks) - _SHOWN_LACKS) > 0:
        print_line(f"waits   {show_number(more, 'more job')} that no worker can run; --json has all")
    if full:
        print_line(f"full    {full}")
    for broker, jobs in stranded.items():
        print_line(f"waits   {explain_stranded(broker, jobs)}; {NAME_BROKER}")


def _print_fleet(fleet: Mapping[str, Has]) -> None:
    if fleet:
        print_line(f"fleet   {show_number(len(fleet), 'worker')} on this Redis: {', '.join(fleet)}")
    for worker, has in fleet.items():
        if has.sick:
            print_line(f"sick    {has.host} takes no agents: {has.sick}")
        if has.special:
            print_line(f"has     {worker}: {', '.join(name.replace(':', ' ') for name in has.special)}")
        for fault in has.broken:
            print_line(f"tools   {worker} continues without: {fault}")


def _print_status(status: StackStatus, token: str | None) -> None:
    from datetime import UTC, datetime

    from swarm.local.page_token import page_url

    redis = status.redis
    about = f"{redis.version or 'unknown version'}, {redis.origin}" if redis.running else "does not answer"
    if not redis.running and redis.origin != "external":
        about = "stopped"
    print_line(f"redis   {about}  {redis.url}")
    for worker in status.workers:
        age = show_duration((datetime.now(UTC) - worker.started_at).total_seconds())
        state = "ready" if worker.ready else "starting"
        where = f", model at {worker.base_url}" if worker.base_url else ""
        print_line(
            f"worker  {state}, process {worker.pid}, {worker.concurrency} agents at once, since {age}{where}  {worker.log}"
        )
    if not status.workers:
        print_line("worker  none here; `swarm up` starts one")
    if status.hub is not None:
        print_line(f"hub     {status.hub.url}, process {status.hub.pid}  {status.hub.log}")
    if status.flower is not None:
        print_line(f"flower  {status.flower.url}, process {status.flower.pid}")
        print_line(f"page    {page_url(status.flower.url, token)}")


def run_worker(ctx: typer.Context) -> None:
    """Run a worker in the foreground: `celery -A swarm.tasks worker`, with sensible defaults.

    Arguments are Celery's own, e.g. `swarm worker -c 16 --hostname agents@%h`.
    """
    from swarm.local.workers import default_concurrency

    given = list(ctx.args)
    arguments = ["worker", *given]
    if not _has_option(given, "-c", "--concurrency", "--autoscale"):
        arguments += ["-c", str(default_concurrency())]
    if not _has_option(given, "-l", "--loglevel"):
        arguments += ["--loglevel", "INFO"]
    _become_celery(arguments)


def run_flower(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to serve on.")] = 5555,
    address: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
) -> None:
    """Run the Flower dashboard in the foreground; further arguments are Flower's own.

    FLOWER_BASIC_AUTH=USER:PASSWORD in its environment gives it a login.
    """
    from swarm.local.workers import flower_arguments

    given = list(ctx.args)
    if _has_option(given, "--basic-auth", "--basic_auth"):
        raise ConfigurationError(
            "a password on the command line is read by every user of this machine; set FLOWER_BASIC_AUTH=USER:PASSWORD "
            "in Flower's environment instead"
        )
    if address not in LOOPBACK and not os.environ.get("FLOWER_BASIC_AUTH") and not _has_option(given, "--auth"):
        print_note(
            f"note: everyone who reaches {address}:{port} sees every job; set FLOWER_BASIC_AUTH=USER:PASSWORD in its environment"
        )
    _become_celery([*flower_arguments(address, port), *given])


def _has_option(given: list[str], *names: str) -> bool:
    for argument in given:
        for name in names:
            if argument == name or argument.startswith(f"{name}="):
                return True
            if not name.startswith("--") and argument.startswith(name) and not argument.startswith("--"):
                return True  # -c16
    return False


def _become_celery(arguments: list[str]) -> None:
    """Replace this process by Celery, so that signals and process ids stay correct."""
    from swarm.store.connection import ping_server

    settings = load_settings()
    if settings.redis_url is None:
        _prepare_local_redis()
    else:
        ping_server(settings)
    environment = dict(os.environ)
    root = str(Path(__file__).resolve().parents[2])
    if root not in (str(Path(entry).resolve()) for entry in sys.path[1:] if entry):
        # If the package is not installed, only the working folder leads to it, and -P drops that folder.
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH"))))
    sys.stdout.flush()
    # -P: the checkout's top-level folders must not hide modules of the standard library.
    os.execve(sys.executable, [sys.executable, "-P", "-m", "celery", "-A", "swarm.tasks", *arguments], environment)


def _prepare_local_redis() -> None:
    """Start the local Redis if no other is set; it runs until `swarm down`."""
    from swarm.local.redis_server import find_redis
    from swarm.local.stack import up

    settings = load_settings()
    before = find_redis(settings)
    up(settings, workers=0)
    if before is None:
        print_note("note: the local Redis was started, and runs until `swarm down`")
