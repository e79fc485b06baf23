"""The scenario format: replies to requests, their latency, and faults.

A scenario is read once from YAML into frozen models; `scenarios/README.md` documents the format. An invalid file is refused with its
name, the place in it, and the broken rule.
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
    """Turns that a rule applies to; `last` None means no end."""

    first: int
    last: int | None

    def holds(self, turn: int) -> bool:
        """Whether the range contains `turn`."""
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
        # Prompts are surrounded by other text, so ^ and $ must match at line boundaries.
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
"""Range of seconds; a single number is both ends."""

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
    """Base of every part of a scenario, which refuses unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class When(ReplyPart):
    """Conditions of a rule or fault. All given ones must hold; without any, every request matches."""

    definition: Pattern | None = None
    """Must match the whole name of the agent type from the system prompt."""
    model: Pattern | None = None
    """Searched for in the model id."""
    prompt: Pattern | None = None
    """Searched for in the text of the first user message."""
    turn: Turns | None = None
    """Number of replies in the conversation."""
    last_result: Pattern | None = None
    """Searched for in each tool result since the last reply."""
    last_text: Pattern | None = None
    """Searched for in the user's text since the last reply (on turn 0: the prompt)."""
    tools_allowed: bool | None = None
    """False matches only requests with `tool_choice: none`."""
    summarizing: bool | None = None
    """True matches only requests for a summary; rules without this condition never match those."""


class ScriptedCall(ReplyPart):
    """One `tool_use` block of a reply."""

    name: str = Field(min_length=1)
    input: dict[str, Any] = {}
    id: str | None = None
    """Id of the call, instead of a unique one, because some servers reuse ids."""


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
    """The model's reply. Strings may hold placeholders: {prompt}, {last_result}, {turn}, named groups …"""

    text: str | None = None
    thinking: str | None = None
    tools: tuple[ScriptedCall, ...] = ()
    found: tuple[FoundPage, ...] | None = None
    """Results of the server's own search, if the request has that tool."""
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
    """A rule: its `reply` answers requests that match `when`. The first matching rule wins."""

    name: str | None = None
    when: When = When()
    uses: int | None = Field(default=None, ge=1)
    """Maximum number of uses while the server runs; then the rule no longer matches."""
    reply: ScriptedReply

    @model_validator(mode="before")
    @classmethod
    def _lift_uses(cls, data: Any) -> Any:
        """Accept `uses` among the conditions, too."""
        if isinstance(data, dict) and isinstance(data.get("when"), dict) and "uses" in data["when"]:
            when = dict(data["when"])
            return {"uses": when.pop("uses"), **data, "when": when}
        return data


class Fault(ReplyPart):
    """A fault for some of the requests that match `when`."""

    kind: Annotated[FaultKind, BeforeValidator(_read_kind)]
    when: When = When()
    after: int = Field(default=0, ge=0)
    """Spare the first N matching requests."""
    every: int | None = Field(default=None, ge=1)
    """Strike each Nth of the following requests."""
    times: int | None = Field(default=None, ge=1)
    """Strike at most N times."""
    between: tuple[float, float] | None = None
    """Strike only in this period, in seconds since the server's first request."""
    probability: float | None = Field(default=None, ge=0, le=1)
    """Strike with this probability, drawn from the scenario's seed."""
    retry_after: float | None = Field(default=None, ge=0)
    """Seconds in the `retry-after` header."""
    seconds: float | None = Field(default=None, ge=0)
    """Duration of a `hang` (default 600) or of a `slow` stream (default 5)."""
    message: str | None = None
    """Text of the error, instead of the default."""
    abrupt: bool = False
    """For `cut` only: break the connection, instead of ending the stream cleanly before `message_stop`."""


class Scenario(ReplyPart):
    """A whole scenario. `script` names a part written in Python, used if no rule matches."""

    name: str = Field(min_length=1)
    description: str = ""
    latency_seconds: Latency = (0.0, 0.0)
    models: tuple[str, ...] | None = None
    """Existing models; others get 404. Unset: every model exists."""
    seed: int = 0
    context_windows: dict[str, int] = {}
    """Maximum tokens of a request and its reply, per model; the price table has the defaults."""
    summarizes: bool = True
    """Whether models make summaries on demand, as only Anthropic's API does."""
    obeys_tool_choice: bool = True
    """False: call tools despite `tool_choice: none`, as some gateways do."""
    script: Literal["tree"] | None = None
    faults: tuple[Fault, ...] = ()
    rules: tuple[ScenarioRule, ...] = ()

    @model_validator(mode="after")
    def _can_answer(self) -> Scenario:
        if not self.rules and self.script is None:
            raise ValueError("a scenario needs rules (or a script) to answer requests")
        return self

    @property
    def pauses(self) -> bool:
        """Whether a reply may stop with `pause_turn`, after which a conversation may end with an assistant message."""
        return any(rule.reply.stop_reason == "pause_turn" for rule in self.rules)


def load_scenario(name_or_path: str | Path, kind: type[Scenario] = Scenario) -> Scenario:
    """Load the shipped scenario of that name, the one in that file, or that folder's recording, as this kind of scenario."""
    return parse_scenario(read_scenario(name_or_path), _path_of(name_or_path).name, kind)


def _path_of(name_or_path: str | Path) -> Path:
    given = str(name_or_path)
    shipped = SHIPPED / f"{given}.yaml"
    return shipped if re.fullmatch(r"[A-Za-z0-9_-]+", given) and shipped.is_file() else Path(given).expanduser()


def read_scenario(name_or_path: str | Path) -> str:
    """Return the YAML of the shipped scenario of that name, of that file, or of that folder's recording."""
    path = _path_of(name_or_path)
    try:
        if path.is_dir():
            # Its reader knows the server's formats, which know scenarios.
            from swarm.rehearsal.recorded import write_recorded

            return write_recorded(path)
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        shipped = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.yaml")))
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ScenarioError(
            f"scenario {str(name_or_path)!r} cannot be read ({reason}); give a YAML file, a folder of SWARM_RECORD "
            f"or a shipped one: {shipped}"
        ) from error


def parse_scenario(text: str, source: str = "scenario", kind: type[Scenario] = Scenario) -> Scenario:
    """Parse a scenario from YAML; `source` names it in errors, and is its default name."""
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
