"""`swarm run --notify COMMAND`: notify a local command of open questions and of the job's end.

Guarantee: only the end of `swarm run` waits for the command, for some seconds; its failures change neither the job nor the exit code.
The command is split into words as in a shell, but no shell runs it. Text from agents is never part of it.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any

from swarm.cli.output import one_line, print_note
from swarm.client.swarm import Job
from swarm.core.errors import ConfigurationError
from swarm.core.notices import WebhookNotice, to_cloud_event
from swarm.core.records import Event, JobView
from swarm.store.questions import Question, Questions

LONGEST_SECONDS = 30.0
"""Seconds after which the command is ended."""
LAST_WAIT_SECONDS = 10.0
"""Seconds that `swarm run` waits at its end for unfinished notifications."""


def read_command(given: str) -> list[str]:
    """Split the command into words. Raises `ConfigurationError` if that fails or there are none."""
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise ConfigurationError(f"--notify: {given!r} cannot be split into words: {error}") from None
    if not words:
        raise ConfigurationError("--notify is empty; give a command that reads the event on stdin")
    return words


def describe_end(view: JobView, event: Event) -> WebhookNotice:
    """The notice of a job's end."""
    about: dict[str, Any] = {"state": view.state, "reason": view.reason, "stopped_at": view.stopped_at}
    return _notice(view, event, about)


def describe_open(view: JobView, event: Event, question: Question) -> WebhookNotice:
    """The notice of an open question."""
    about: dict[str, Any] = {
        "question": question.id,
        "sort": question.kind,
        "title": question.title,
        "expires_at": question.expires_at,
    }
    return _notice(view, event, about)


def _notice(view: JobView, event: Event, about: dict[str, Any]) -> WebhookNotice:
    return WebhookNotice(
        type=event.kind,
        job_id=view.id,
        agent_id=event.agent_id,
        seq=event.seq,
        at=event.at,
        title=view.title,
        rehearsed=view.rehearsed,
        about=about,
    )


class Notifier:
    """Runs the command for each notice, on another thread."""

    def __init__(self, job: Job, questions: Questions, words: list[str], source: str) -> None:
        self._job, self._questions = job, questions
        self._words, self._source = words, source
        self._threads: list[threading.Thread] = []

    def hear(self, events: Sequence[Event]) -> None:
        """Notify the command of events that concern a person."""
        for event in events:
            if event.kind == "job_ended":
                self._tell(describe_end(self._job.view(), event))
            elif event.kind == "question":
                question = self._questions.find(event.fields["question"])
                if question is not None and not question.to and question.state == "open":
                    self._tell(describe_open(self._job.view(), event, question))

    def _tell(self, notice: WebhookNotice) -> None:
        document = json.dumps(to_cloud_event(notice, self._source), ensure_ascii=False)
        thread = threading.Thread(target=self._run, args=(document,), name="swarm-notify", daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Wait briefly for unfinished notifications."""
        until = time.monotonic() + LAST_WAIT_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self, document: str) -> None:
        try:
            ran = subprocess.run(
                self._words,
                input=document,
                encoding="utf-8",
                errors="replace",
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=LONGEST_SECONDS,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            print_note(f"note: --notify {self._words[0]}: {error}")
            return
        if ran.returncode:
            print_note(f"note: --notify {self._words[0]} exited with {ran.returncode}: {one_line(ran.stderr, 200)}")
