"""What a job can be ordered with. An option is written here once, and every surface takes it from here.

Surfaces are Python (`Swarm.submit`, `swarm.client.aio`, `swarm.signature`, `Swarm.map`), the commands `run` and `map`, HTTP, MCP and the
page. `tests/unit/test_order.py` holds each of them to all options, but for those that it names with a reason.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate, NamedTuple, ParamSpec, TypeVar, get_type_hints

from pydantic import ConfigDict, Field, InstanceOf, SkipValidation, ValidationError
from pydantic.dataclasses import dataclass

from swarm.core.errors import InvalidOption
from swarm.core.records import Limits
from swarm.definitions.model import Isolation, PermissionMode

MAX_RETRIES = 10
"""Of a line of a map."""
TaskSignature = Annotated[Mapping[str, Any], InstanceOf()]
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Flag(NamedTuple):
    """How the command line spells an option, where its name alone does not say it: its names, and the word for its value."""

    names: tuple[str, ...] = ()
    metavar: str = ""


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class JobOptions:
    """The options of every job: of one by itself, of a line of a map, of a step of a canvas."""

    agent: Annotated[
        str | None,
        Field(description="Type of the first agent. Default: `build`, or `answer` for a patient job."),
        Flag(("--agent", "-a"), "TYPE"),
    ] = None
    title: Annotated[str | None, Field(description="Name in lists. Default: the prompt."), Flag(metavar="TEXT")] = None
    workspace: Annotated[
        str | Path, Field(description="The folder the agents work in."), Flag(("--workspace", "-w"), "FOLDER")
    ] = "."
    model: Annotated[
        str | None,
        Field(
            description="Model of the first agent: haiku, sonnet, opus or a full id. Default: SWARM_MODEL, else sonnet."
        ),
        Flag(metavar="MODEL"),
    ] = None
    base_url: Annotated[
        str | None, Field(description="A rehearsal server on this host, to ask instead of the model.")
    ] = None
    limits: Annotated[Limits | None, Field(strict=False, description="Limits of the whole job.")] = None
    mode: Annotated[
        PermissionMode | None,
        Field(
            description="The most that agents may do without asking. Default: the settings files', else acceptEdits."
        ),
    ] = None
    allow: Annotated[
        Sequence[str],
        Field(description="Rules that allow calls: `Bash(git push:*)`, `Edit(/docs/**)`, `Bash(make:*)`."),
        Flag(metavar="RULE"),
    ] = ()
    ask: Annotated[
        Sequence[str], Field(description="Rules for calls that a person is asked about."), Flag(metavar="RULE")
    ] = ()
    deny: Annotated[Sequence[str], Field(description="Rules that deny calls in every mode."), Flag(metavar="RULE")] = ()
    network: Annotated[bool, Field(description="Let the agents' processes use the network.")] = False
    ask_seconds: Annotated[
        float | None,
        Field(
            ge=0,
            description="How long a question to a person can be answered; 0: it is denied. Default: an hour; 0 for a map, and for a command without a terminal.",
        ),
        Flag(("--ask-timeout",)),
    ] = None
    result_schema: Annotated[
        dict[str, Any] | None,
        Field(description="A JSON schema: the answer is JSON that is valid for it."),
        Flag(("--schema",), "FILE"),
    ] = None
    check: Annotated[
        str | None,
        Field(description="A shell command that must succeed before the answer is accepted: `pytest -q`."),
        Flag(metavar="COMMAND"),
    ] = None
    rubric: Annotated[
        str | None,
        Field(max_length=20_000, description="Criteria that an independent grader must find met."),
        Flag(metavar="FILE"),
    ] = None
    tries: Annotated[
        int | None,
        Field(ge=1, le=20, description="How often the work may be handed in to the check and the rubric. Default: 3."),
    ] = None
    check_seconds: Annotated[
        float | None,
        Field(gt=0, le=3_600, description="Time limit of the check, an hour at most. Default: ten minutes."),
        Flag(("--check-timeout",)),
    ] = None
    summaries: Annotated[
        bool, Field(description="Have a small model say what agents do, name the job, and sum up its end.")
    ] = False
    priority: Annotated[
        int, Field(ge=1, le=100, description="Weight on the fleet: 3 gets three turns for each one of another job.")
    ] = 1
    home_workspace: Annotated[bool, Field(description="Let the workspace be a home, or a folder that holds one.")] = (
        False
    )
    instruction_files: Annotated[bool, Field(description="Give agents what CLAUDE.md, AGENTS.md and rules say.")] = True
    snapshots: Annotated[
        bool | None,
        Field(description="Keep the workspace's files after each call that may change them. Default: SWARM_SNAPSHOTS."),
    ] = None
    isolation: Annotated[
        Isolation | None,
        Field(
            description="worktree: work on a copy of the workspace, to be taken over later; none: in the workspace itself. "
            "Default: the type's, else none."
        ),
    ] = None
    patient: Annotated[
        bool,
        Field(
            description="Send requests by the batch API: half the price, within an hour mostly. For agents without tools."
        ),
    ] = False
    commands: Annotated[
        bool, Field(description="Let a prompt that begins with `/name` call that command or skill.")
    ] = False


@dataclass(frozen=True, config=_STRICT)
class StepOrder(JobOptions):
    """A job as a step of a canvas."""

    prompt: Annotated[str, Field(description="What is to be done.")]
    _: KW_ONLY
    webhook: Annotated[
        str | None,
        Field(
            description="Address to notify when the job ends, when a question waits, and when four fifths of its budget are used "
            "(SWARM_JOB_WEBHOOKS, SWARM_WEBHOOK_SECRET).",
        ),
        Flag(metavar="URL"),
    ] = None


@dataclass(frozen=True, config=_STRICT)
class Order(StepOrder):
    """A job by itself."""

    _: KW_ONLY
    idempotency_key: Annotated[
        str | None, Field(description="Sent again with the same key, an order starts no second job.")
    ] = None
    on_end: Annotated[
        TaskSignature | None,
        Field(
            description="Signature of a Celery task of your application, published when the job has ended. It is given "
            '`{"id", "state", "text", "data", "reason"}` before its own arguments, if it is not immutable.',
        ),
    ] = None
    broker: Annotated[
        str | None,
        Field(description="Name of the broker for `on_end`, one of the workers' SWARM_BROKERS."),
    ] = None

    @property
    def digest(self) -> str:
        """Tells whether two orders with one idempotency key ask for the same."""
        asked: tuple[str | None, ...]
        asked = (self.prompt, str(self.workspace), self.agent, self.model, self.mode, self.base_url)
        if self.check or self.rubric:
            asked += (self.check, self.rubric)
        return hashlib.sha256(repr(asked).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, config=_STRICT)
class MapOrder(JobOptions):
    """The same for each line of a list, as a job for each; `limits` are those of one line."""

    prompt: Annotated[
        str,
        Field(
            description="What is to be done with each line: {path} (any name) stands for it, or for that field of it."
        ),
    ]
    over: Annotated[
        Iterable[str | Mapping[str, Any]],
        SkipValidation,
        Field(description="The lines: texts, or objects with fields."),
    ]
    _: KW_ONLY
    max_running: Annotated[
        int | None,
        Field(ge=1, le=100_000, description="Lines at work at once. Default: 20, or 10,000 of a patient map."),
    ] = None
    retries: Annotated[int, Field(ge=0, le=MAX_RETRIES, description="How often a line that failed is tried again.")] = 0
    budget_usd: Annotated[float | None, Field(gt=0, description="Once so much is spent, no further line begins.")] = (
        None
    )

    def line(self, prompt: str) -> Order:
        """The order for one line."""
        return Order(prompt, **{each.name: getattr(self, each.name) for each in fields(JobOptions)})


REMOTE_LEAVES_OUT = {
    "base_url": "only programs on a worker's own host may choose whom it asks",
    "broker": "only an operator's programs may publish to brokers",
    "commands": "commands may run shell commands before any rule holds",
    "home_workspace": "only its owner may open a home to agents",
    "idempotency_key": "callers have keys of their own: HTTP takes a header, MCP a field",
    "on_end": "only an operator's programs may publish to brokers",
    "webhook": "no ceiling bounds the addresses that a caller may name",
}
"""Options that HTTP, MCP and the page do not take, and why."""

Given = ParamSpec("Given")
OrderT = TypeVar("OrderT")
Subject = TypeVar("Subject")
Returned = TypeVar("Returned")


def takes(
    shape: Callable[Given, OrderT],
) -> Callable[[Callable[[Subject, OrderT], Returned]], Callable[Concatenate[Subject, Given], Returned]]:
    """Let a method that takes an order be called with the order's options. Raises `InvalidOption`."""

    def decorate(run: Callable[[Subject, OrderT], Returned]) -> Callable[Concatenate[Subject, Given], Returned]:
        @wraps(run)
        def call(subject: Subject, /, *args: Given.args, **options: Given.kwargs) -> Returned:
            return run(subject, read_order(shape, *args, **options))

        call.__signature__ = _sign(run, shape)  # type: ignore[attr-defined]
        return call

    return decorate


def ordered(
    shape: Callable[Given, OrderT],
) -> Callable[[Callable[[OrderT], Returned]], Callable[Given, Returned]]:
    """The same for a function."""

    def decorate(run: Callable[[OrderT], Returned]) -> Callable[Given, Returned]:
        @wraps(run)
        def call(*args: Given.args, **options: Given.kwargs) -> Returned:
            return run(read_order(shape, *args, **options))

        call.__signature__ = _sign(run, shape)  # type: ignore[attr-defined]
        return call

    return decorate


def _sign(run: Callable[..., Any], shape: Callable[..., Any]) -> inspect.Signature:
    """The signature for people: the function's, with the options in place of the order."""
    own, hints = inspect.signature(run), get_type_hints(shape)
    options = [each.replace(annotation=hints[each.name]) for each in inspect.signature(shape).parameters.values()]
    return own.replace(parameters=[*list(own.parameters.values())[:-1], *options])


def read_order(shape: Callable[Given, OrderT], *args: Given.args, **options: Given.kwargs) -> OrderT:
    """The order with these options. Raises `InvalidOption`."""
    try:
        return shape(*args, **options)
    except ValidationError as error:
        raise _explain(error, [each.name for each in fields(shape)]) from None  # type: ignore[arg-type]


def _explain(error: ValidationError, known: list[str]) -> InvalidOption:
    first = error.errors()[0]
    place, kind, given = first["loc"], first["type"], reprlib.repr(first["input"])
    name = str(place[0])
    if isinstance(place[0], int):  # given without a name
        name = ("prompt", "over")[place[0]] if kind != "unexpected_positional_argument" else given
    elif name == "limits" and len(place) > 1:
        name, known = f"limits.{place[1]}", [f"limits.{each}" for each in Limits.model_fields]
    match kind:
        case "unexpected_keyword_argument" | "extra_forbidden":
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            return InvalidOption(name, f"there is no option {name}; {hint}")
        case "missing" | "missing_argument":
            return InvalidOption(name, f"{name} is missing")
        case "unexpected_positional_argument":
            return InvalidOption(name, f"give each option by its name; {name} comes without one")
    told = first["msg"].replace("Input should be", "it must be")
    return InvalidOption(name, f"{name} cannot be {given}: {told[0].lower()}{told[1:]}")


def options_of(shape: type, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """The options of an order as `pydantic.create_model` takes them, but for some."""
    hints = get_type_hints(shape, include_extras=True)
    return {
        each.name: (hints[each.name], ... if each.default is MISSING else each.default)
        for each in fields(shape)
        if each.name not in leave_out
    }


def options_given(order: JobOptions) -> dict[str, Any]:
    """The options that are not as they are by default."""
    found = {each.name: (getattr(order, each.name), each.default) for each in fields(order)}
    return {name: value for name, (value, default) in found.items() if value != default}
