"""Every error the project raises, as one tree.

`SwarmError` is the root. The class names the fact, its fields carry the ids, and the message says what happened, to which one, and what
to do. `TransientError` marks errors that can pass by themselves; all others are permanent, so callers never parse messages.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Literal


def install_command(*extras: str) -> str:
    """Return the command that installs extras of the package, for the remedy of an error."""
    return f"pip install 'celery-swarm[{','.join(extras)}]'"


class SwarmError(Exception):
    """The root of the project's errors; `str(error)` is fit to be shown to a person."""


class TransientError(SwarmError):
    """An error that can pass: trying again may help."""


# -- configuration and the machine -----------------------------------------------------------------------


class ConfigurationError(SwarmError):
    """A setting, file or argument cannot be used; the message names it and the remedy."""


class InvalidOption(ConfigurationError):
    """An option of an order that is unknown, missing, or has an invalid value."""

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        super().__init__(message)


class RedisFull(TransientError):
    """Redis' memory is nearly used up: nothing new starts until some of it is free."""

    def __init__(self, used: int | None = None, most: int | None = None) -> None:
        room = f"{used / 2**20:,.0f} of {most / 2**20:,.0f} MiB" if used and most else "all of its memory"
        super().__init__(
            f"Redis uses {room}, so nothing new can start. Work that runs goes on, and its end or `swarm cancel` is always "
            "possible. Raise maxmemory, or remove ended jobs: `swarm forget --older-than 7d`."
        )


class RedisUnavailable(TransientError):
    """Redis cannot be reached or refuses the connection."""


GitTrouble = Literal["refused", "away", "denied", "missing", "full", "disk", "failed"]


class GitFailed(SwarmError):
    """A git command of the runtime failed; `trouble` classifies the failure.

    `refused`: the ref exists and is another commit. `away`: the hub, or something it needs, is unavailable for now. `denied`: the token
    is not accepted. `missing`: no such commit or ref. `full`: the job's space on the hub is used up. `disk`: this host's own disk is
    full. `failed`: anything else (a broken git folder).
    """

    def __init__(self, message: str, trouble: GitTrouble) -> None:
        self.trouble = trouble
        super().__init__(message)


class GitBusy(GitFailed):
    """Another process has a git folder of the runtime, and still works."""

    def __init__(self, git_dir: object) -> None:
        super().__init__(f"{git_dir} has been in use by another process for a minute", "away")


class NoSuchRef(GitFailed):
    """A repository has no such branch, tag or commit."""

    def __init__(self, url: str, ref: str) -> None:
        super().__init__(f"{url} has no branch, tag or full commit id {ref}; name one that exists after @", "missing")


class HubAway(TransientError):
    """The hub cannot be reached for now. Everything that a journal names is kept."""


class ObjectsAway(TransientError):
    """The store of objects cannot be reached, or has no room, for now."""


class ObjectRefused(SwarmError):
    """The store of objects does not accept an object, or these credentials."""


class ObjectMissing(SwarmError):
    """A job's object cannot be read: it was not written to this store, was deleted, or is damaged."""

    def __init__(self, owner: str, digest: str, why: str) -> None:
        self.owner, self.digest = owner, digest
        super().__init__(
            f"the object {digest[:12]} of {owner} {why}; set SWARM_OBJECTS to one store for all hosts if there are several"
        )


class NoWork(SwarmError):
    """An agent's file changes cannot be distinguished from others'."""


# -- definitions ------------------------------------------------------------------------------------------


class DefinitionError(SwarmError):
    """A definition file cannot be used."""


class UnknownDefinition(SwarmError):
    """No definition has that name; the message lists the known ones, or similar ones of many."""

    MANY = 30

    def __init__(self, name: str, known: list[str]) -> None:
        self.name, self.known = name, known
        told = f"the known types are: {', '.join(sorted(known)) or 'none'}"
        if len(known) > self.MANY:
            near = [other for other in sorted(known) if name.lower() in other.lower()]
            near += difflib.get_close_matches(name, known, n=10, cutoff=0.5)
            told = f"the closest of {len(known)} types are: {', '.join(list(dict.fromkeys(near))[:10]) or 'none'}"
        super().__init__(f"unknown agent type {name[:80]!r}; {told}")


# -- jobs and agents --------------------------------------------------------------------------------------


class PayloadRefused(SwarmError):
    """A Celery message is not a valid wake-up for a known agent."""


class UnknownAgent(SwarmError):
    """No agent (or job) has that id."""


class UnknownMap(UnknownAgent):
    """No map has that id."""

    def __init__(self, map_id: str) -> None:
        self.map_id = map_id
        super().__init__(f"no map {map_id}; `swarm maps list` lists all maps")


class UnknownEvaluation(UnknownAgent):
    """No evaluation has that id."""

    def __init__(self, evaluation_id: str) -> None:
        self.evaluation_id = evaluation_id
        super().__init__(f"no evaluation {evaluation_id}; `swarm evals list` lists all")


class UnknownTrigger(UnknownAgent):
    """No trigger has that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"no trigger {name[:80]!r}; `swarm triggers` lists all")


class JobOpen(SwarmError):
    """The job has not ended, so it can be neither archived nor forgotten."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"{job_id} has not ended, so it stays as it is; `swarm cancel {job_id}` ends it")


class IdempotencyConflict(SwarmError):
    """An idempotency key was reused with another order; nothing was submitted."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"{job_id} was submitted with this idempotency key, but its order differs; use a new key")


class BeyondCeiling(SwarmError):
    """An order, or the addressed job, exceeds the caller's ceiling; nothing was done."""

    def __init__(self, field: str, asked: str, most: str, remedy: str) -> None:
        self.field = field
        super().__init__(
            f"{field}: {asked} goes beyond this caller's ceiling ({most}). An operator gives more with {remedy}"
        )


class UnknownBroker(ConfigurationError):
    """A callback names a broker that no worker knows."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name, self.known = name, known
        super().__init__(
            f"no worker of the swarm knows a broker {name!r} (known: {', '.join(known) or 'none'}); name it with its URL in the workers' "
            f'SWARM_BROKERS: {{"{name}": "redis://…"}}'
        )


class WebhookRefused(ConfigurationError):
    """A job names a webhook address, and no worker delivers to such addresses."""

    def __init__(self) -> None:
        super().__init__(
            "no worker of the swarm delivers to webhook addresses of jobs; allow it with SWARM_JOB_WEBHOOKS=public (or private) for the "
            "workers, or omit the webhook"
        )


class JobFailed(SwarmError):
    """A job that a canvas step waited for ended without completing."""

    def __init__(self, job_id: str, state: str, reason: str) -> None:
        self.job_id, self.state, self.reason = job_id, state, reason
        # Celery rebuilds the error from its arguments wherever its result is read.
        super().__init__(job_id, state, reason)

    def __str__(self) -> str:
        return f"{self.job_id} {self.state}: {self.reason}" if self.reason else f"{self.job_id} {self.state}"


class JobLost(SwarmError):
    """A job disappeared before its end: Redis lost it."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"{job_id} is lost: Redis was away and came back without it, and the job does not continue. "
            "Run it again; a Redis with `appendonly yes` keeps jobs over a restart"
        )


class UnreadableRecord(SwarmError):
    """A newer version wrote a record that this one cannot read. Its agent is left to others."""


class JournalError(UnreadableRecord):
    """A journal cannot be read: an entry of an unknown kind or version, or a broken sequence."""


class NotOwner(SwarmError):
    """A segment wrote to an agent that another worker has claimed. The segment must stop."""

    def __init__(self, agent_id: str, generation: int) -> None:
        self.agent_id, self.generation = agent_id, generation
        super().__init__(f"agent {agent_id}: generation {generation} no longer owns it")


class AgentCancelled(SwarmError):
    """A segment wrote to a cancelled agent and must stop."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        super().__init__(f"agent {agent_id} was cancelled")


class StepRefused(SwarmError):
    """A requested step was refused; the message gives the requester the reason."""


# -- messages ----------------------------------------------------------------------------------------------


class MessageRefused(StepRefused):
    """A message was not delivered; the error's text is for the sender."""


class UnknownReceiver(MessageRefused):
    """No agent or person in the job has that name or id."""


class ReceiverEnded(MessageRefused):
    """The receiver was cancelled, or its job has ended: it reads no more messages.

    `receiver` is empty if the job has ended.
    """

    def __init__(self, message: str, receiver: str = "") -> None:
        self.receiver = receiver
        super().__init__(message)


class MailboxFull(MessageRefused):
    """The receiver has too many unread messages, or its mailbox or all of its job's hold too many bytes."""

    def __init__(self, receiver: str, why: str) -> None:
        self.receiver = receiver
        super().__init__(f"the mailbox of {receiver} is full: {why}")


class MessageTooLong(MessageRefused):
    """The message body exceeds the limit."""


class StaleRequest(MessageRefused):
    """The answered request does not exist, has ended, or belongs to another agent."""


class BadMessageId(SwarmError):
    """An invalid message id."""


class BadName(StepRefused):
    """A name is reserved, malformed or taken."""


# -- what a job's agents share ------------------------------------------------------------------------------


class BoardRefused(StepRefused):
    """A board step was refused: the task is blocked, another agent's or role's, or missing."""


class PadRefused(StepRefused):
    """A scratchpad page is missing, or its name, size or version is wrong."""


class MemoryRefused(StepRefused):
    """A memory change was refused; `code` says why, `about` holds the values for its message."""

    def __init__(self, message: str, code: str, about: Sequence[Any] = ()) -> None:
        self.code, self.about = code, about
        super().__init__(message)


class TeamRefused(StepRefused):
    """A team cannot be founded or dissolved now."""


class UnknownQuestion(SwarmError):
    """A question does not exist, or has expired with its job."""

    def __init__(self, question_id: str) -> None:
        self.question_id = question_id
        super().__init__(f"no question {question_id}; `swarm questions` lists the open ones")


class QuestionClosed(SwarmError):
    """A question can no longer be answered."""

    def __init__(self, question_id: str, state: str) -> None:
        self.question_id, self.state = question_id, state
        why = {"answered": "was answered already", "expired": "has expired", "void": "is void: its agent has ended"}
        super().__init__(f"question {question_id} {why.get(state, state)}")


# -- the model --------------------------------------------------------------------------------------------


class ModelError(SwarmError):
    """The model could not answer. `retry_after_seconds` is the server's requested wait, if any."""

    told: Any = None
    """A `swarm.models.Told`, if a reply had begun: it is paid for."""

    def __init__(self, message: str, *, kind: str, retry_after_seconds: float | None = None) -> None:
        self.kind, self.retry_after_seconds = kind, retry_after_seconds
        super().__init__(message)


class TransientModelError(ModelError, TransientError):
    """Overload, rate limit, a cut stream, a time-out: worth another try."""


class PermanentModelError(ModelError):
    """A wrong key, a bad request, a spend limit: trying again cannot help."""


class UnfitWorker(SwarmError):
    """This worker cannot use the model: its key, provider or settings are at fault, not the agent.

    `model` is the unusable one; `*` stands for all.
    """

    def __init__(self, message: str, model: str) -> None:
        self.model = model
        super().__init__(message)


# -- tools ------------------------------------------------------------------------------------------------


class ToolError(SwarmError):
    """A tool refused or failed. The model gets this as the tool's result."""


class ToolStopped(BaseException):
    """Raised inside a tool's function: its agent was cancelled, or its time has run out.

    A `BaseException`, so that the function does not mistake it for its own failure.
    """


# -- workflows --------------------------------------------------------------------------------------------


class WorkflowChanged(SwarmError):
    """A workflow's program asks for something else than its journal holds."""

    def __init__(self, before: str, after: str) -> None:
        self.before, self.after = before, after
        super().__init__(
            f"the program asked for {before}, and now it asks for {after}: it changed, or it depends on something outside. "
            "`swarm resume JOB` starts it again and reuses its results"
        )


class NotRepeatable(SwarmError):
    """A workflow's program reaches for something that a replay could not repeat."""

    def __init__(self, what: str, remedy: str) -> None:
        self.what = what
        super().__init__(f"a workflow cannot use {what}, because it is repeated after each wait; {remedy}")


class CallFailed(SwarmError):
    """A call of a workflow failed: an agent that did not complete, or a refused or failed tool."""


# -- control flow -----------------------------------------------------------------------------------------


class Interrupted(BaseException):
    """Raised inside a running segment to stop it at once (a cancel, a cold shutdown).

    A `BaseException`, so that no tool and no library swallows it with `except Exception`.
    """

    told: Any = None
    """What a failed reply has cost, as told so far; see `ModelError`."""
