"""Questions in Redis: durable, each closed exactly once; the asking agent is woken in the same step.

An agent asks by parking (`Journal.park`); people read and answer here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from swarm.core.errors import ConfigurationError, QuestionClosed, UnknownQuestion
from swarm.definitions.model import PermissionMode
from swarm.permissions.rules import Rule
from swarm.store.keyspace import Keyspace
from swarm.store.values import Signals

MAX_DETAIL_CHARACTERS = 20_000
QuestionKind = Literal["permission", "plan", "question", "event"]
EVENT = "event:"
"""Prefix of `to` for a wait on an external event; its key follows."""
_NAMES = {"job": "job_id", "agent": "agent_id", "asked": "asked_at", "expires": "expires_at"}
"""Fields whose names differ in the record."""


class Ask(BaseModel):
    """A question to ask."""

    model_config = ConfigDict(frozen=True)

    kind: QuestionKind
    """`event`: a wait for an external event, without a question to anyone; the title is its key."""
    tool: str
    title: str
    """The subject, in one line."""
    detail: str
    """The call's input as JSON, the plan, or the choices: everything needed to decide."""
    seconds: float = 0.0
    """Time for an answer."""
    to: str | None = None
    """The asked agent, or `event:KEY`; None: the person."""
    always: str = ""
    """The rule added by a lasting approval, as JSON."""


class Question(BaseModel):
    """One question in its current state."""

    model_config = ConfigDict(frozen=True)

    id: str
    job_id: str
    agent_id: str
    label: str
    """The readable name of the asking agent."""
    kind: QuestionKind
    tool: str
    title: str
    detail: str
    to: str
    state: Literal["open", "answered", "expired", "void"]
    answer: str = ""
    """`allow` or `deny`; for a question in words, the person's text."""
    reason: str = ""
    mode: str = ""
    """The permission mode for an approved plan."""
    by: str = ""
    always: str = ""
    asked_at: float
    expires_at: float

    @property
    def options(self) -> list[str]:
        """The choices of a question in words."""
        options: list[str] = []
        if self.kind == "question" and not self.detail.endswith("\n"):
            for line in reversed(self.detail.split("\n")[1:]):
                if not line.startswith("- "):
                    break
                options.insert(0, line.removeprefix("- "))
        return options

    @property
    def call(self) -> tuple[str, Any]:
        """The reasons for asking about a call, and its input; None if that is cut off."""
        reasons, _, document = self.detail.rpartition("\n\n")  # JSON has no empty line
        try:
            return reasons, json.loads(document)
        except ValueError:
            return reasons, None

    @property
    def lasting_rule(self) -> str:
        """The full scope of a lasting approval, in words; empty if there is none."""
        return Rule.model_validate_json(self.always).promise if self.always else ""


class Questions:
    """The questions of all jobs."""

    def __init__(self, keyspace: Keyspace, recall: Callable[[str], bool]) -> None:
        """`recall` brings the job of an archived question back."""
        self._keyspace, self._recall = keyspace, recall

    def find(self, question_id: str) -> Question | None:
        """The question, if it exists and has not expired with its job."""
        found = self._load([question_id]) or (self._recall(question_id) and self._load([question_id]))
        return found[0] if found else None

    def open(self, job_id: str | None = None) -> list[Question]:
        """Open questions of one job or of all, oldest first."""
        return self.load_open(self._keyspace.client.zrange(self._keyspace.key("questions"), 0, -1), job_id)

    def load_open(self, ids: Sequence[str], job_id: str | None = None) -> list[Question]:
        """The open questions among these ids, in their order; of one job or of all."""
        found = self._load(ids)
        return [question for question in found if question.state == "open" and job_id in (None, question.job_id)]

    def of_job(self, job_id: str) -> list[Question]:
        """All questions of a job, oldest first, including closed ones."""
        found = self._load(self.ids([job_id]))
        return sorted(found, key=lambda question: question.asked_at)

    def ids(self, job_ids: Sequence[str]) -> list[str]:
        """The ids of all questions of these jobs."""
        found = self._keyspace.each("smembers", (self._keyspace.key("job", job, "questions") for job in job_ids))
        return [question_id for part in found for question_id in part]

    def _load(self, ids: Iterable[str]) -> list[Question]:
        """The existing questions among these ids, in their order, in one round trip."""
        ids = list(ids)
        records = self._keyspace.each("hgetall", (self._keyspace.key("question", question_id) for question_id in ids))
        return [
            Question(id=question_id, **{_NAMES.get(name, name): value for name, value in record.items()})
            for question_id, record in zip(ids, records, strict=True)
            if record
        ]

    def answer(
        self, question_id: str, answer: str, *, reason: str = "", mode: str = "", by: str, always: bool = False
    ) -> Signals:
        """Answer an open question; `always` also allows calls plainly of the same kind, for the rest of the job.

        Raises `UnknownQuestion`, and `QuestionClosed` for a question that was answered or has expired, or whose agent has ended;
        `ConfigurationError` for a mode that does not exist.
        """
        if mode and mode not in get_args(PermissionMode):
            raise ConfigurationError(
                f"{mode!r} is no permission mode; choose from {', '.join(get_args(PermissionMode))}"
            )
        return self._close(question_id, "answered", answer, reason, mode, by, "1" if always else "")

    def lasting(self, job_id: str) -> list[Rule]:
        """The rules of lasting approvals in a job, oldest first."""
        return [
            Rule.model_validate_json(rule)
            for rule in self._keyspace.client.lrange(self._keyspace.key("job", job_id, "rules"), 0, -1)
        ]

    def withdraw(self, job_id: str, rule: Rule) -> bool:
        """Withdraw a lasting approval; False if there is none. An agent of the job obeys from its next segment on."""
        answer: list[str] = self._keyspace.run("withdraw_rule", job_id, rule.model_dump_json())
        return answer == ["ok"]

    def expire(self, question_id: str) -> None:
        """Close a question that was not answered in time, if there is one; a question closed meanwhile stays unchanged."""
        try:
            self._close(question_id, "expired", "", "", "", "", "")
        except (QuestionClosed, UnknownQuestion):
            pass

    def _close(self, question_id: str, *words: str) -> Signals:
        answer = self._keyspace.run("close_question", question_id, *words)
        if answer[0] == "unknown" and self._recall(question_id):
            answer = self._keyspace.run("close_question", question_id, *words)
        match answer[0]:
            case "unknown":
                raise UnknownQuestion(question_id)
            case "closed":
                raise QuestionClosed(question_id, answer[1])
            case "event":
                raise ConfigurationError(
                    f"{question_id} waits for the event {answer[1]!r}, and nothing else answers it: swarm event {answer[1]} DATA"
                )
        return Signals(publish=answer[1])
