"""Every error the project raises, as one tree.

`SwarmError` is the root. The class names the fact, its fields carry the ids, and the message says what
happened, to which one, and what to do. `TransientError` marks what may go away by itself; everything else is
permanent, so no caller ever reads a message to decide whether to try again.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Literal


class SwarmError(Exception):
    """The root of the project's errors; `str(error)` is fit to be shown to a person."""


class TransientError(SwarmError):
    """Something that may work when it is tried again."""


# -- configuration and the machine -----------------------------------------------------------------------


class ConfigurationError(SwarmError):
    """A setting, file or argument that cannot be used; the message names it and the remedy."""


class InvalidOption(ConfigurationError):
    """An option of an order that is unknown, missing, or has a value that cannot be used."""

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        super().__init__(message)


class RedisUnavailable(TransientError):
    """Redis cannot be reached, or refuses us."""


GitTrouble = Literal["refused", "away", "denied", "missing", "full", "failed"]


class GitFailed(SwarmError):
    """A git command of the runtime's did not do what it was asked for; `trouble` says what to make of it.

    `refused`: the ref exists and is another commit. `away`: the hub, or what it needs, may be there later. `denied`: it wants another
    token. `missing`: there is no such commit or ref. `full`: the hub takes no more of this job. `failed`: anything else (the disk, a
    broken git folder).
    """

    def __init__(self, message: str, trouble: GitTrouble) -> None:
        self.trouble = trouble
        super().__init__(message)


class HubAway(TransientError):
    """The hub cannot be reached, and it is not waited for any longer just now. Nothing is lost that a journal names."""


class NoWork(SwarmError):
    """An agent has done nothing to files that could be told apart from what others did."""


# -- definitions ------------------------------------------------------------------------------------------


class DefinitionError(SwarmError):
    """A definition file that cannot be used."""


class UnknownDefinition(SwarmError):
    """No definition of that name; the message lists those that exist, or, of very many, those with a like name."""

    MANY = 30

    def __init__(self, name: str, known: list[str]) -> None:
        self.name, self.known = name, known
        told = f"the known types are: {', '.join(sorted(known)) or 'none'}"
        if len(known) > self.MANY:
            near = [other for other in sorted(known) if name.lower() in other.lower()]
            near += difflib.get_close_matches(name, known, n=10, cutoff=0.5)
            told = f"of {len(known)} types these are near it: {', '.join(list(dict.fromkeys(near))[:10]) or 'none'}"
        super().__init__(f"unknown agent type {name[:80]!r}; {told}")


# -- jobs and agents --------------------------------------------------------------------------------------


class PayloadRefused(SwarmError):
    """A Celery message that is not a valid wake-up for an agent we know."""


class UnknownAgent(SwarmError):
    """No agent (or job) has that id."""


class UnknownMap(UnknownAgent):
    """No map has that id."""

    def __init__(self, map_id: str) -> None:
        self.map_id = map_id
        super().__init__(f"no map {map_id}; `swarm maps list` lists those that exist")


class IdempotencyConflict(SwarmError):
    """An idempotency key came again with another order; nothing was submitted."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"{job_id} was submitted with this idempotency key, but asks for something else; use a new key"
        )


class BeyondCeiling(SwarmError):
    """An order asks for more than its caller may, or a caller reaches for a job that has more; nothing was done."""

    def __init__(self, field: str, asked: str, most: str, remedy: str) -> None:
        self.field = field
        super().__init__(
            f"{field}: {asked} goes beyond this caller's ceiling ({most}). An operator gives more with {remedy}"
        )


class UnknownBroker(ConfigurationError):
    """What is to follow a job's end is to be published on a broker that no worker knows."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name, self.known = name, known
        super().__init__(
            f"no worker of the swarm knows a broker {name!r} (known: {', '.join(known) or 'none'}); name it with its URL in the workers' "
            f'SWARM_BROKERS: {{"{name}": "redis://…"}}'
        )


class WebhookRefused(ConfigurationError):
    """A job brings an address to be told at, and no worker delivers to such."""

    def __init__(self) -> None:
        super().__init__(
            "no worker of the swarm delivers to addresses that jobs bring; allow it with SWARM_JOB_WEBHOOKS=public (or private) where "
            "workers run, or leave the webhook away"
        )


class JobFailed(SwarmError):
    """A job that a step of a canvas waited for has ended, but has not completed."""

    def __init__(self, job_id: str, state: str, reason: str) -> None:
        self.job_id, self.state, self.reason = job_id, state, reason
        # Celery makes it anew from its arguments, wherever its result is read.
        super().__init__(job_id, state, reason)

    def __str__(self) -> str:
        return f"{self.job_id} {self.state}: {self.reason}" if self.reason else f"{self.job_id} {self.state}"


class JobLost(SwarmError):
    """A job that was there is not any more, though it had not ended: Redis has lost it."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"{job_id} is lost: Redis was away and came back without it, so what it kept is gone and nothing of the job goes on. "
            "Run it again; a Redis with `appendonly yes` keeps jobs over a restart"
        )


class UnreadableRecord(SwarmError):
    """What a newer version stored and this one cannot read. The agent it belongs to is left to others."""


class JournalError(UnreadableRecord):
    """A journal that cannot be read: an entry of an unknown kind or version, or a broken sequence."""


class NotOwner(SwarmError):
    """A write by a segment that no longer owns its agent: someone else claimed it. The segment must stop."""

    def __init__(self, agent_id: str, generation: int) -> None:
        self.agent_id, self.generation = agent_id, generation
        super().__init__(f"agent {agent_id}: generation {generation} no longer owns it")


class AgentCancelled(SwarmError):
    """A write to an agent that has been cancelled. The segment must stop."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        super().__init__(f"agent {agent_id} was cancelled")


class StepRefused(SwarmError):
    """A step that somebody asked for and that was not made; the message says why, and is for whoever asked."""


# -- messages ----------------------------------------------------------------------------------------------


class MessageRefused(StepRefused):
    """A message that was not delivered to anybody; the message of the error is for the sender."""


class UnknownReceiver(MessageRefused):
    """Nobody in the job has that name or id."""


class ReceiverEnded(MessageRefused):
    """The receiver was cancelled, or its job is over: it will never read again. `receiver` is empty for a job that is over."""

    def __init__(self, message: str, receiver: str = "") -> None:
        self.receiver = receiver
        super().__init__(message)


class MailboxFull(MessageRefused):
    """The receiver has too many unread messages."""

    def __init__(self, receiver: str, limit: int) -> None:
        self.receiver = receiver
        super().__init__(f"the mailbox of {receiver} is full ({limit:,} unread messages); try again later")


class MessageTooLong(MessageRefused):
    """The body exceeds the limit."""


class StaleRequest(MessageRefused):
    """The request that is answered does not exist, is over, or is not the sender's to answer."""


class BadMessageId(SwarmError):
    """What was given as the id of a message cannot be one."""


class BadName(StepRefused):
    """A name that no agent may bear, or that another agent bears."""


# -- what a job's agents share ------------------------------------------------------------------------------


class BoardRefused(StepRefused):
    """A step on the board that was not made: a task that is blocked, somebody else's, for another role, or not there."""


class PadRefused(StepRefused):
    """A page of the scratchpad that cannot be read or changed: its name, its size, its version, or that it is not there."""


class MemoryRefused(StepRefused):
    """A change of memory that was not made; `code` says why, and `about` what the words for it need."""

    def __init__(self, message: str, code: str, about: Sequence[Any] = ()) -> None:
        self.code, self.about = code, about
        super().__init__(message)


class TeamRefused(StepRefused):
    """A team that cannot be founded or dissolved now."""


class UnknownQuestion(SwarmError):
    """A question that does not exist, or has expired with its job."""

    def __init__(self, question_id: str) -> None:
        self.question_id = question_id
        super().__init__(f"no question {question_id}; `swarm questions` lists those that wait for an answer")


class QuestionClosed(SwarmError):
    """A question that can no longer be answered."""

    def __init__(self, question_id: str, state: str) -> None:
        self.question_id, self.state = question_id, state
        why = {"answered": "was answered already", "expired": "has expired", "void": "is void: its agent has ended"}
        super().__init__(f"question {question_id} {why.get(state, state)}")


# -- the model --------------------------------------------------------------------------------------------


class ModelError(SwarmError):
    """The model could not answer. `retry_after_seconds` is the server's own wish, if it stated one."""

    def __init__(self, message: str, *, kind: str, retry_after_seconds: float | None = None) -> None:
        self.kind, self.retry_after_seconds = kind, retry_after_seconds
        super().__init__(message)


class TransientModelError(ModelError, TransientError):
    """Overload, rate limit, a cut stream, a time-out: worth another try."""


class PermanentModelError(ModelError):
    """A wrong key, a bad request, a spend limit: trying again cannot help."""


class UnfitWorker(SwarmError):
    """This worker cannot use the model: its key, its provider or its settings are at fault, not the agent.

    `model` is the one that it cannot use; `*` stands for all.
    """

    def __init__(self, message: str, model: str) -> None:
        self.model = model
        super().__init__(message)


# -- tools ------------------------------------------------------------------------------------------------


class ToolError(SwarmError):
    """A tool's refusal or failure. It is returned to the model as the tool's result, never raised past the loop."""


class ToolStopped(BaseException):
    """Raised inside a tool's function whose call must end: its agent was cancelled, or its time is over.

    A `BaseException`, so that the function does not take it for a failure of what it does.
    """


# -- control flow -----------------------------------------------------------------------------------------


class Interrupted(BaseException):
    """Raised inside a running segment to stop it where it is (a cancel, a cold shutdown).

    A `BaseException`, so that no tool and no library swallows it with `except Exception`.
    """
