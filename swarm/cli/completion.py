"""Shell completion of ids, types, models and scenarios.

Guarantee: completion waits at most half a second for Redis, starts nothing, and shows no errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swarm.client.swarm import Swarm

_PATIENCE_SECONDS = 0.5
_MOST = 50
Completions = list[tuple[str, str]]
"""Completed words, each with a description."""


def complete_job(incomplete: str) -> Completions:
    """Ids of jobs, newest first."""
    return _ask(incomplete, _jobs)


def complete_agent(incomplete: str) -> Completions:
    """Ids of jobs, and of agents in the newest jobs."""
    return _ask(incomplete, lambda swarm: [*_jobs(swarm), *_agents(swarm)])


def complete_question(incomplete: str) -> Completions:
    """Ids of open questions."""
    return _ask(incomplete, _questions)


def complete_type(incomplete: str) -> Completions:
    """Agent types that can start a job here."""

    def find() -> Completions:
        from swarm.definitions.catalogue import load_catalogue

        found = load_catalogue(Path.cwd()).definitions
        return [(name, one.description) for name, one in sorted(found.items()) if one.may_be_first]

    return _choose(incomplete, find)


def complete_model(incomplete: str) -> Completions:
    """Model aliases."""
    return _choose(incomplete, lambda: [(alias, "") for alias in ("haiku", "opus", "sonnet")])


def complete_scenario(incomplete: str) -> Completions:
    """Names of the shipped scenarios."""

    def find() -> Completions:
        from swarm.rehearsal.scenario import SHIPPED

        return [(file.stem, "") for file in sorted(SHIPPED.glob("*.yaml"))]

    return _choose(incomplete, find)


# -- from Redis ------------------------------------------------------------------------------------------


def _jobs(swarm: Swarm) -> Completions:
    return [(view.id, f"{view.state.replace('_', ' ')}: {view.title}") for view in swarm.jobs(_MOST)]


def _agents(swarm: Swarm) -> Completions:
    newest = [view.id for view in swarm.jobs(3)]
    return [(agent.id, f"{agent.state}: {agent.label}") for each in newest for agent in swarm.store.agents.of(each)]


def _questions(swarm: Swarm) -> Completions:
    return [(question.id, f"{question.kind}: {question.title}") for question in swarm.questions.open()]


def _ask(incomplete: str, find: Callable[[Swarm], Completions]) -> Completions:
    def look() -> Completions:
        with _open() as swarm:
            return [] if swarm is None else find(swarm)

    return _choose(incomplete, look)


@contextmanager
def _open() -> Iterator[Swarm | None]:
    """Open a client that neither waits nor retries; None if the local Redis does not run."""
    from swarm.client.swarm import Swarm
    from swarm.core.settings import load_settings
    from swarm.store.connection import connect, socket_path
    from swarm.store.store import Store

    settings = load_settings()
    if settings.redis_url is None and not socket_path(settings).exists():
        yield None
        return
    swarm = Swarm(settings)
    swarm.store = Store(connect(settings, timeout_seconds=_PATIENCE_SECONDS, retries=0), settings.key_prefix)
    yield swarm


def _choose(incomplete: str, find: Callable[[], Completions]) -> Completions:
    """Choose the words with the typed prefix, with or without their kind (`job-`); none after an error."""
    try:
        found: Sequence[tuple[str, str]] = find()
    except Exception:
        # An error during completion is never shown.
        return []
    from swarm.cli.output import one_line

    return [(word, one_line(told, 60)) for word, told in found if word.startswith(incomplete)][:_MOST]
