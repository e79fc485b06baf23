"""The options of a job's order. Each option is defined here once, and every surface takes it from here.

Surfaces are Python (`Swarm.submit`, `swarm.client.aio`, `swarm.signature`, `Swarm.map`), the commands `run` and `map`, HTTP, MCP and the
page. `tests/unit/test_job_options.py` holds each of them to all options, except those named with a reason.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, fields
from functools import update_wrapper
from pathlib import Path
from typing import Annotated, Any, Concatenate, NamedTuple, ParamSpec, TypeVar, get_type_hints

from pydantic import ConfigDict, Field, InstanceOf, SkipValidation, ValidationError
from pydantic.dataclasses import dataclass

from swarm.core.errors import InvalidOption
from swarm.core.records import Limits
from swarm.definitions.model import Isolation, PermissionMode

TaskSignature = Annotated[Mapping[str, Any], InstanceOf()]
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)


class Flag(NamedTuple):
    """Command-line spelling of an option whose name is not enough: its names, and the word for its value."""

    names: tuple[str, ...] = ()
    metavar: str = ""


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class JobOptions:
    """The options of every job: a single one, a line of a map, a step of a canvas."""

    agent: Annotated[str | None, Flag(("--agent", "-a"), "TYPE")] = None
    """Type of the first agent. Default: `build`, or `answer` for a batch job."""
    title: Annotated[str | None, Flag(metavar="TEXT")] = None
    """Name in lists. Default: the prompt."""
    workspace: Annotated[str | Path, Flag(("--workspace", "-w"), "FOLDER")] = "."
    """The folder the agents work in."""
    model: Annotated[str | None, Flag(metavar="MODEL")] = None
    """Model of the first agent: haiku, sonnet, opus or a full id. Default: SWARM_MODEL, else sonnet."""
    base_url: str | None = None
    """A rehearsal server on this host to use instead of the model."""
    limits: Annotated[Limits | None, Field(strict=False)] = None
    """Limits of the whole job."""
    mode: PermissionMode | None = None
    """The most that agents may do without asking. Default: the settings files' mode, else acceptEdits."""
    allow: Annotated[Sequence[str], Flag(metavar="RULE")] = ()
    """Rules that allow calls: `Bash(git push:*)`, `Edit(/docs/**)`, `Bash(make:*)`."""
    ask: Annotated[Sequence[str], Flag(metavar="RULE")] = ()
    """Rules for calls that need a person's decision."""
    deny: Annotated[Sequence[str], Flag(metavar="RULE")] = ()
    """Rules that deny calls in every mode."""
    network: bool = False
    """Let the agents' processes use the network."""
    ask_seconds: Annotated[float | None, Field(ge=0), Flag(("--ask-timeout",))] = None
    """Time to answer a question to a person; 0: deny it. Default: an hour; 0 for a map, and without a terminal."""
    result_schema: Annotated[dict[str, Any] | None, Flag(("--schema",), "FILE")] = None
    """A JSON schema that the answer, as JSON, must match."""
    check: Annotated[str | None, Flag(metavar="COMMAND")] = None
    """A shell command that must succeed before the answer is accepted: `pytest -q`."""
    rubric: Annotated[str | None, Field(max_length=20_000), Flag(metavar="FILE")] = None
    """Criteria that an independent grader must confirm."""
    tries: Annotated[int | None, Field(ge=1, le=20)] = None
    """How often the work may be submitted to the check and the rubric. Default: 3."""
    check_seconds: Annotated[float | None, Field(gt=0, le=3_600), Flag(("--check-timeout",))] = None
    """Time limit of the check, an hour at most. Default: ten minutes."""
    summaries: bool = False
    """Have a small model summarize agents' work, name the job, and sum up its end."""
    priority: Annotated[int, Field(ge=1, le=100)] = 1
    """Weight on the fleet: 3 gets three turns for each one of a normal job."""
    home_workspace: bool = False
    """Allow a home, or a folder that holds one, as workspace."""
    instruction_files: bool = True
    """Give agents the contents of CLAUDE.md, AGENTS.md and rules."""
    snapshots: bool | None = None
    """Keep the workspace's files after each call that may change them. Default: SWARM_SNAPSHOTS."""
    isolation: Isolation | None = None
    """worktree: work on a copy of the workspace, to take over later; none: in the workspace. Default: the type's, else none."""
    batch: bool = False
    """Send requests by the batch API: half the price, mostly within an hour. For agents without tools."""
    commands: bool = False
    """Let a prompt that begins with `/name` call that command or skill."""


@dataclass(frozen=True, config=_STRICT)
class StepOrder(JobOptions):
    """A job as a step of a canvas."""

    prompt: str
    """The task."""
    _: KW_ONLY
    repo: Annotated[str | None, Flag(metavar="REPO")] = None
    """Work on this repository, not in a folder: owner/name of GitHub, a URL or a path, with @REF if wanted."""
    branch: Annotated[str | None, Flag(metavar="NAME")] = None
    """Name of the branch that the work is pushed to. Default: swarm/JOB."""
    pr: bool = False
    """Open a pull request for the branch, at GitHub, GitLab, Gitea or Forgejo."""
    issue: Annotated[int | None, Field(ge=1), Flag(metavar="NUMBER")] = None
    """Comment on this issue of the repository at the job's end, with the answer and the pull request."""
    commit_status: bool = False
    """Show the job as a check of REF and of the pushed commits, with a link to its page (SWARM_PAGE)."""
    webhook: Annotated[str | None, Flag(metavar="URL")] = None
    """Address to notify of the end, of questions and of four fifths of the budget (SWARM_JOB_WEBHOOKS, SWARM_WEBHOOK_SECRET)."""


@dataclass(frozen=True, config=_STRICT)
class Order(StepOrder):
    """A single job."""

    _: KW_ONLY
    workflow: bool = False
    """Have a planner write a workflow for the task, and ask before it runs unless the mode is bypassPermissions."""
    idempotency_key: str | None = None
    """Key for repeats: an order sent again with it starts no second job."""
    on_end: TaskSignature | None = None
    """Signature of a Celery task of your application, published when the job has ended. Unless it is immutable, it gets `{"id", "state",
    "text", "data", "reason"}` before its own arguments."""
    broker: str | None = None
    """Name of the broker for `on_end`, one of the workers' SWARM_BROKERS."""

    @property
    def digest(self) -> str:
        """A hash that shows whether two orders with one idempotency key are equal."""
        asked = [self.prompt, str(self.workspace), self.agent, self.model, self.mode, self.base_url]
        asked += [self.check, self.rubric] if self.check or self.rubric else []
        asked += [self.repo, self.branch, str(self.pr)] if self.repo else []
        asked += [str(self.issue)] if self.issue else []
        asked += ["commit_status"] if self.commit_status else []
        return hashlib.sha256(repr(asked).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, config=_STRICT)
class MapOrder(JobOptions):
    """A job for each line of a list; `limits` are those of one line."""

    prompt: str
    """The task for each line: {path} (any name) stands for the line, or for that field of it."""
    over: Annotated[Iterable[str | Mapping[str, Any]], SkipValidation]
    """The lines: texts, or objects with fields."""
    _: KW_ONLY
    max_running: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Lines at work at once. Default: 20, or 10,000 in a batch map."""
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    """How often a failed line is tried again."""
    budget_usd: Annotated[float | None, Field(gt=0)] = None
    """Amount spent after which no further line starts."""

    def line(self, prompt: str) -> Order:
        """The order for one line."""
        return Order(prompt, **{each.name: getattr(self, each.name) for each in fields(JobOptions)})


REMOTE_LEAVES_OUT = {
    "base_url": "only programs on a worker's own host may choose the server to ask",
    "broker": "only an operator's programs may publish to brokers",
    "commands": "commands may run shell commands before any rule applies",
    "home_workspace": "only its owner may open a home to agents",
    "on_end": "only an operator's programs may publish to brokers",
    "webhook": "no ceiling bounds the addresses that a caller may name",
}
"""Options that HTTP, MCP and the page do not take, and why."""

Given = ParamSpec("Given")
OrderT = TypeVar("OrderT")
Subject = TypeVar("Subject")
Returned = TypeVar("Returned")
CallT = TypeVar("CallT", bound=Callable[..., Any])


def takes(
    shape: Callable[Given, OrderT],
) -> Callable[[Callable[[Subject, OrderT], Returned]], Callable[Concatenate[Subject, Given], Returned]]:
    """Let a method that takes an order be called with the order's options. Raises `InvalidOption`."""

    def decorate(run: Callable[[Subject, OrderT], Returned]) -> Callable[Concatenate[Subject, Given], Returned]:
        def call(subject: Subject, /, *args: Given.args, **options: Given.kwargs) -> Returned:
            return run(subject, read_order(shape, *args, **options))

        return _sign(call, run, shape)

    return decorate


def ordered(shape: Callable[Given, OrderT]) -> Callable[[Callable[[OrderT], Returned]], Callable[Given, Returned]]:
    """Let a function that takes an order be called with the order's options. Raises `InvalidOption`."""

    def decorate(run: Callable[[OrderT], Returned]) -> Callable[Given, Returned]:
        def call(*args: Given.args, **options: Given.kwargs) -> Returned:
            return run(read_order(shape, *args, **options))

        return _sign(call, run, shape)

    return decorate


def _sign(call: CallT, run: Callable[..., Any], shape: Callable[..., Any]) -> CallT:
    """Give `call` the name of `run`, and show people the options in place of the order."""
    own, hints = inspect.signature(run), get_type_hints(shape)
    options = [each.replace(annotation=hints[each.name]) for each in inspect.signature(shape).parameters.values()]
    signed: Any = update_wrapper(call, run)
    signed.__signature__ = own.replace(parameters=[*list(own.parameters.values())[:-1], *options])
    return call


def read_order(shape: Callable[Given, OrderT], *args: Given.args, **options: Given.kwargs) -> OrderT:
    """Make the order from these options. Raises `InvalidOption`."""
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
            hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}"
            return InvalidOption(name, f"there is no option {name}; {hint}")
        case "missing" | "missing_argument":
            return InvalidOption(name, f"{name} is missing")
        case "unexpected_positional_argument":
            return InvalidOption(name, f"give each option by its name; {name} has none")
    told = first["msg"].replace("Input should be", "it must be")
    return InvalidOption(name, f"{name} cannot be {given}: {told[0].lower()}{told[1:]}")


def options_of(shape: type, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """The options of an order as arguments for `pydantic.create_model`, without those in `leave_out`."""
    hints = get_type_hints(shape, include_extras=True)
    # Pydantic does not inherit descriptions.
    told = {
        name: field.description
        for each in reversed(shape.__mro__)
        for name, field in each.__dict__.get("__pydantic_fields__", {}).items()
        if field.description
    }
    return {
        each.name: (
            Annotated[hints[each.name], Field(description=told[each.name])],
            ... if each.default is MISSING else each.default,
        )
        for each in fields(shape)
        if each.name not in leave_out
    }


def options_given(order: JobOptions) -> dict[str, Any]:
    """The options that differ from their defaults."""
    found = {each.name: (getattr(order, each.name), each.default) for each in fields(order)}
    return {name: value for name, (value, default) in found.items() if value != default}
