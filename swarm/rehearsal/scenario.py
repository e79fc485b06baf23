"""What a scenario is: who is answered with what, after how long, and what goes wrong on the way.

Read once from YAML into frozen models. The format is documented in `scenarios/README.md`; a file that breaks it is
refused with its name, the place in it, and the rule it breaks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from swarm.core.errors import ConfigurationError

SHIPPED = Path(__file__).parent / "scenarios"


class ScenarioError(ConfigurationError):
    """A scenario that does not exist or cannot be used."""


class TurnRange(NamedTuple):
    """Which turns a rule is for; `last` None means without end."""

    first: int
    last: int | None

    def holds(self, turn: int) -> bool:
        """Whether `turn` is one of them."""
        return turn >= self.first and (self.last is None or turn <= self.last)


def _read_turns(value: Any) -> Any:
    if isinstance(value, TurnRange):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return TurnRange(value, value)
    found = re.fullmatch(r"\s*(\d+)\s*(\+|-\s*(\d+))?\s*", value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("a turn is a number (0 is the first reply), an open range '3+' or a closed one '1-4'")
    first, tail, last = int(found[1]), found[2], found[3]
    if last is not None and int(last) < first:
        raise ValueError(f"the range {value!r} ends before it begins")
    return TurnRange(first, None if tail == "+" else int(last) if last else first)


def _read_pattern(value: Any) -> Any:
    if isinstance(value, re.Pattern):
        return value
    if not isinstance(value, str):
        raise ValueError("a regular expression must be a string; put it in quotes")
    try:
        # Prompts arrive surrounded by other text, so ^ and $ must be able to mean a line of it.
        return re.compile(value, re.MULTILINE)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error


def _read_kind(value: Any) -> Any:
    return str(value) if isinstance(value, int) else value  # YAML reads `429` as a number


def _read_latency(value: Any) -> Any:
    ends = list(value) if isinstance(value, list | tuple) else [value, value]
    if (
        len(ends) != 2
        or not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
        or not 0 <= ends[0] <= ends[1]
    ):
        raise ValueError("a latency is seconds (0.2) or a range of them ([0.1, 0.5])")
    return (float(ends[0]), float(ends[1]))


Turns = Annotated[TurnRange, BeforeValidator(_read_turns)]
Pattern = Annotated[re.Pattern[str], BeforeValidator(_read_pattern)]
Latency = Annotated[tuple[float, float], BeforeValidator(_read_latency)]
"""Seconds from … to …; a single number means both."""

StopReason = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"
]
FaultKind = Literal[
    "400",
    "401",
    "403",
    "429",
    "500",
    "529",
    "spend_limit",
    "compaction_unavailable",
    "cut",
    "stream_error",
    "hang",
    "slow",
]


class ReplyPart(BaseModel):
    """What every part of a scenario has in common: a name that is unknown is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class When(ReplyPart):
    """Which requests a rule or a fault is for. Every condition given must hold; none given means every request."""

    definition: Pattern | None = None
    """Matches the whole name of the agent type, as the system prompt states it."""
    model: Pattern | None = None
    """Found in the model id."""
    prompt: Pattern | None = None
    """Found in the text of the first user message."""
    turn: Turns | None = None
    """How many replies the conversation already holds."""
    last_result: Pattern | None = None
    """Found in the text of one of the tool results that arrived since the last reply."""
    last_text: Pattern | None = None
    """Found in the user's text since the last reply (on turn 0: the prompt)."""
    tools_allowed: bool | None = None
    """False matches only requests with `tool_choice: none`."""
    summarizing: bool | None = None
    """True matches only requests for a summary of the conversation, of which rules that do not say it hear nothing."""


class ScriptedCall(ReplyPart):
    """One `tool_use` block of a reply."""

    name: str = Field(min_length=1)
    input: dict[str, Any] = {}
    id: str | None = None
    """Its id, instead of one that no other call has: some servers give an id twice."""


class FoundPage(ReplyPart):
    """One result of a search."""

    url: str = Field(min_length=1)
    title: str = ""


class UsageOverride(ReplyPart):
    """Token counts to report instead of the simulated ones."""

    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    cache_creation_input_tokens: int | None = Field(default=None, ge=0)
    cache_read_input_tokens: int | None = Field(default=None, ge=0)


class ScriptedReply(ReplyPart):
    """What the model says. Strings may hold placeholders: {prompt}, {last_result}, {turn}, named groups …"""

    text: str | None = None
    thinking: str | None = None
    tools: tuple[ScriptedCall, ...] = ()
    found: tuple[FoundPage, ...] | None = None
    """What the server's own search finds, where the request has that tool."""
    stop_reason: StopReason | None = None
    """Default: `tool_use` with tools, else `end_turn`."""
    usage: UsageOverride | None = None
    latency_seconds: Latency | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ScriptedReply:
        if not self.model_fields_set & {"text", "thinking", "tools", "stop_reason"}:
            raise ValueError("a reply needs a text, thinking, tools or a stop_reason")
        return self


class ScenarioRule(ReplyPart):
    """`when` this, `reply` that. The first rule of a scenario that matches is taken."""

    name: str | None = None
    when: When = When()
    uses: int | None = Field(default=None, ge=1)
    """How many times, over the server's life, the rule may be taken; after that it no longer matches."""
    reply: ScriptedReply

    @model_validator(mode="before")
    @classmethod
    def _lift_uses(cls, data: Any) -> Any:
        """Read `uses` also where people put it first: among the conditions."""
        if isinstance(data, dict) and isinstance(data.get("when"), dict) and "uses" in data["when"]:
            when = dict(data["when"])
            return {"uses": when.pop("uses"), **data, "when": when}
        return data


class Fault(ReplyPart):
    """Something that goes wrong with some of the requests that match `when`."""

    kind: Annotated[FaultKind, BeforeValidator(_read_kind)]
    when: When = When()
    after: int = Field(default=0, ge=0)
    """Spare the first N matching requests."""
    every: int | None = Field(default=None, ge=1)
    """Of those that follow, strike each Nth."""
    times: int | None = Field(default=None, ge=1)
    """Strike at most N times."""
    between: tuple[float, float] | None = None
    """A storm: strike only from … to …, in seconds since the server's first request."""
    probability: float | None = Field(default=None, ge=0, le=1)
    """Strike by chance, drawn from the scenario's seed."""
    retry_after: float | None = Field(default=None, ge=0)
    """Seconds in the `retry-after` header."""
    seconds: float | None = Field(default=None, ge=0)
    """How long a `hang` holds (default 600), over how long a `slow` stream is spread (default 5)."""
    message: str | None = None
    """The error's text, instead of the usual one."""
    abrupt: bool = False
    """`cut` only: break the connection as well, instead of ending the stream politely before `message_stop`."""


class Scenario(ReplyPart):
    """A whole scenario; `script` names a part of it that is written in Python and asked when no rule matches."""

    name: str = Field(min_length=1)
    description: str = ""
    latency_seconds: Latency = (0.0, 0.0)
    models: tuple[str, ...] | None = None
    """The models that exist; others get 404. Unset: every model exists."""
    seed: int = 0
    context_windows: dict[str, int] = {}
    """By model, how many tokens a request and its reply may have; of others it is what the table of prices says."""
    summarizes: bool = True
    """Whether the models make summaries on demand, as Anthropic's API does and others do not."""
    obeys_tool_choice: bool = True
    """False: calls tools also where `tool_choice` is none, as some gateways do."""
    script: Literal["tree"] | None = None
    faults: tuple[Fault, ...] = ()
    rules: tuple[ScenarioRule, ...] = ()

    @model_validator(mode="after")
    def _can_answer(self) -> Scenario:
        if not self.rules and self.script is None:
            raise ValueError("a scenario needs rules (or a script), else it can answer nothing")
        return self

    @property
    def pauses(self) -> bool:
        """Whether a reply may stop with `pause_turn`, after which a conversation may end with an assistant message."""
        return any(rule.reply.stop_reason == "pause_turn" for rule in self.rules)


def load_scenario(name_or_path: str | Path, kind: type[Scenario] = Scenario) -> Scenario:
    """The shipped scenario of that name, or the one in that file, read as this kind of scenario."""
    given = str(name_or_path)
    if re.fullmatch(r"[A-Za-z0-9_-]+", given) and (SHIPPED / f"{given}.yaml").is_file():
        path = SHIPPED / f"{given}.yaml"
    else:
        path = Path(given).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        shipped = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.yaml")))
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ScenarioError(
            f"scenario {given!r} cannot be read ({reason}); give a YAML file or one of the shipped: {shipped}"
        ) from error
    return parse_scenario(text, path.name, kind)


def parse_scenario(text: str, source: str = "scenario", kind: type[Scenario] = Scenario) -> Scenario:
    """Read a scenario from YAML; `source` names it in errors, and is its name if it states none."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ScenarioError(f"{source}: not YAML: {error}") from error
    if not isinstance(data, dict):
        raise ScenarioError(f"{source}: a scenario is a mapping with `name` and `rules`, not {type(data).__name__}")
    try:
        return kind.model_validate({"name": Path(source).stem, **data})
    except ValidationError as error:
        problems = "; ".join(_describe(problem["loc"], problem["msg"], data) for problem in error.errors())
        raise ScenarioError(f"{source}: {problems}") from error


def _describe(location: tuple[int | str, ...], message: str, data: dict[str, Any]) -> str:
    place = ""
    for part in location:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    named = ""
    if len(location) > 1 and location[0] == "rules" and isinstance(location[1], int):
        rule = data["rules"][location[1]]
        label = rule.get("name") if isinstance(rule, dict) else None
        named = f" (rule {location[1] + 1}{f', {label!r}' if label else ''})"
    return f"{place or 'scenario'}{named}: {message.removeprefix('Value error, ')}"
