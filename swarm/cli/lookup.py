"""Open a client, and find jobs, agents and questions by the beginning of an id."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from swarm.cli.interrupts import Interrupts
from swarm.cli.output import print_note, show_number
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import ConfigurationError, UnknownAgent, UnknownQuestion
from swarm.core.settings import load_settings
from swarm.local.redis_server import read_redis_status
from swarm.local.stack import temporary_stack, up
from swarm.store.questions import Question

_SHOWN_MATCHES = 4


@contextlib.contextmanager
def open_swarm() -> Iterator[Swarm]:
    """Open a client. A local Redis that does not run is started for that time, so past jobs can be read."""
    settings = load_settings()
    with contextlib.ExitStack() as cleanup:
        interrupts = cleanup.enter_context(Interrupts())
        if settings.redis_url is None and not read_redis_status(settings).running:
            cleanup.enter_context(temporary_stack(settings, workers=0))
            cleanup.callback(interrupts.disarm)
        swarm = Swarm(settings, tell=print_note)
        swarm.store.ping()
        yield swarm


def see_to_workers(swarm: Swarm) -> None:
    """Start a worker if the swarm is local and has none."""
    if swarm.settings.redis_url is None and not swarm.workers():
        up(swarm.settings, workers=1)


def find_job(swarm: Swarm, text: str | None, *, archived: bool = False) -> Job:
    """Find the job with this id or unique prefix of it, or of its root agent's id; it may stay in the archive if `archived`.

    Nothing or `@last` means the newest job, `@2` the one before it, and so on. Raises `UnknownAgent` if there is none, and
    `ConfigurationError` if the text is ambiguous.
    """
    if text is None or text.startswith("@"):
        found = _count_back(swarm, text or "@last")
    elif text.startswith("agent-"):
        found = swarm.agent(find_agent(swarm, text)).job_id
    else:
        matches = [job_id for job_id in swarm.store.jobs.ids() if _begins(job_id, text)]
        found = _only(matches, text, "job", "`swarm jobs` lists them")
    return Job(swarm, found) if archived else swarm.job(found)


def find_agent(swarm: Swarm, text: str | None) -> str:
    """Find the agent with this id or unique prefix; for a job (nothing: the newest), its root agent.

    Raises `UnknownAgent` if there is none, `ConfigurationError` if the text is ambiguous.
    """
    if text is None or text.startswith(("job-", "@")):
        return find_job(swarm, text).view().root_id
    jobs = swarm.store.jobs.ids()
    matches = [] if text.startswith("agent-") else [job_id for job_id in jobs if _begins(job_id, text)]
    known = {*swarm.store.agents.ids(jobs), *swarm.store.archive.agent_ids()}
    matches += sorted(agent_id for agent_id in known if _begins(agent_id, text))
    found = _only(matches, text, "job or agent", "`swarm jobs` and `swarm tree JOB` list them")
    return swarm.job(found).view().root_id if found.startswith("job-") else found


def find_question(swarm: Swarm, text: str) -> Question:
    """Find the question with this id or unique prefix, open ones first.

    Raises `UnknownAgent` or `UnknownQuestion` if there is none, `ConfigurationError` if the text is ambiguous.
    """
    matches = [question.id for question in swarm.questions.open() if _begins(question.id, text)]
    if not matches:
        matches = [
            question_id for question_id in swarm.questions.ids(swarm.store.jobs.ids()) if _begins(question_id, text)
        ]
    question_id = _only(matches, text, "question", "`swarm questions` lists the open ones")
    question = swarm.questions.find(question_id)
    if question is None:
        raise UnknownQuestion(question_id)
    return question


def _count_back(swarm: Swarm, text: str) -> str:
    number = 1 if text == "@last" else int(text[1:]) if text[1:].isdecimal() else 0
    if number < 1:
        raise ConfigurationError(f"{text!r} names no job; @last is the newest one, @2 the one before it, and so on")
    newest = swarm.jobs(number)
    if len(newest) < number:
        there = f"the swarm has only {show_number(len(newest), 'job')}" if newest else "there is no job yet"
        raise UnknownAgent(f"{there}; start one with `swarm run PROMPT`")
    return newest[-1].id


def _begins(known: str, text: str) -> bool:
    return known.startswith(text) if "-" in text else known.partition("-")[2].startswith(text)


def _only(matches: Sequence[str], text: str, what: str, where: str) -> str:
    if text in matches or len(matches) == 1:
        return text if text in matches else matches[0]
    if not matches or not text:
        raise UnknownAgent(f"no {what} {text!r}; {where}")
    shown = ", ".join(matches[:_SHOWN_MATCHES]) + (", …" if len(matches) > _SHOWN_MATCHES else "")
    raise ConfigurationError(f"{text!r} is the beginning of {len(matches)} ids ({shown}); give more of it")
