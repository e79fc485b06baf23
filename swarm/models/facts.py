"""Facts that a server told about one of its models, beside the table: sizes, and refused parts of requests. Pure.

Servers that speak the Messages API differ. A refusal that names a size or a part of the request teaches both, so that the next request is
fit. Wordings are those of Anthropic, Bedrock, Vertex, vLLM, llama.cpp, LM Studio, Ollama and LiteLLM.
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, field_validator

from swarm.core.errors import PermanentModelError

Part = Literal["cache_control", "effort", "summary", "thinking", "tool_choice"]
"""A part of requests without which they are still of use: marks and names for a prompt cache, the effort, the model's account of its
reasoning, the reasoning itself, the choice of tools."""


_SMALLEST_TOKENS = 2_000
"""A smaller window or reply is a slip of the server's words: no agent could work in it."""


class ModelFacts(BaseModel, frozen=True):
    """Facts about one model of one server. Unknown ones are None or empty: the table of models counts."""

    window: int | None = None
    """The most tokens that a request and its reply may have together."""
    max_output: int | None = None
    """The most tokens that one reply may have."""
    lacks: tuple[Part, ...] = ()
    """The refused parts, sorted."""

    @field_validator("window", "max_output")
    @classmethod
    def _drop_slip(cls, size: int | None) -> int | None:
        return None if size is None or size < _SMALLEST_TOKENS else size

    def __add__(self, other: ModelFacts) -> ModelFacts:
        """Both together; of two sizes the smaller one."""
        return ModelFacts(
            window=_smaller(self.window, other.window),
            max_output=_smaller(self.max_output, other.max_output),
            lacks=tuple(sorted({*self.lacks, *other.lacks})),
        )


NO_FACTS = ModelFacts()

_NUMBER = r"(\d[\d,]*)"
_WINDOWS = (
    # Anthropic: `prompt is too long: 210000 tokens > 200000 maximum`, `input length and max_tokens exceed context limit: … > 200000`
    rf"(?:prompt is too long|context (?:limit|window)).{{0,60}}?> *{_NUMBER}",
    rf"maximum context length (?:is|of)(?: only)? {_NUMBER}",  # vLLM, and most others in front of one
    rf"context (?:size|length) (?:of (?:only )?)?\(?{_NUMBER}",  # llama.cpp, LM Studio
    rf"maximum number of tokens allowed \({_NUMBER}",  # Vertex
)
_OUTPUTS = (
    rf"max_tokens:? .{{0,40}}?> *{_NUMBER}, which is the maximum allowed number of output tokens",  # Anthropic
    rf"exceeds the model limit of {_NUMBER}",  # Bedrock
    rf"supports at most {_NUMBER} (?:completion|output) tokens",
)
_REFUSED = (
    r"(?:not (?:yet )?(?:supported|permitted|allowed|recogni[sz]ed|available|implemented)|unsupported|unknown|unexpected|unrecogni[sz]ed"
    r"|extra (?:inputs|fields)|n[o']t support)"
)
# A refused level of effort says nothing about other levels.
_NAMES: dict[Part, str] = {
    "cache_control": r"\b(?:cache_control|prompt_cache_key)\b",
    "effort": r"\b(?:thinking[ _]?level\b|output_config\b(?!\.effort)|(?:reasoning_)?effort\b(?!:? (?:levels?\b|values?\b|['\"`])))",
    "summary": r"\b(?:reasoning(?:\.summary|_summary)|include_?thoughts)\b",
    "thinking": r"\b(?:thinking(?![ _]?level)|encrypted[ _]content)\b",
    "tool_choice": r"\btool_choice\b",
}
_NEAR = r"[^{}]{0,40}?"
"""Between a part and the words that refuse it. Words farther off may be a quotation of the request."""
_PARTS: dict[Part, re.Pattern[str]] = {
    part: re.compile(rf"{name}{_NEAR}{_REFUSED}|{_REFUSED}{_NEAR}{name}", re.I) for part, name in _NAMES.items()
}
_VALUES = re.compile(rf"\btool_choice\b{_NEAR}input should be", re.I)
"""A refusal of the one value that requests give the part."""
_VERIFIED = re.compile(r"must be verified to (?:generate|stream) reasoning summar", re.I)
"""OpenAI's refusal of an account of the reasoning."""
_TOOLS_OWN = re.compile(r"input_schema|\bproperties\b|\bproperty\b", re.I)
"""The refusal is about names that a tool's author chose."""


def name_at(model: str, server: str | None) -> str:
    """Name a model of a server; None is the provider's own."""
    return f"{model} at {server}" if server else model


def read_refusal(error: BaseException) -> ModelFacts:
    """Return the facts that a refusal of the model's server tells; most tell none."""
    if not isinstance(error, PermanentModelError) or error.kind not in ("too_large", "bad_request"):
        return NO_FACTS
    told = str(error)
    return ModelFacts(
        window=_first(_WINDOWS, told) if error.kind == "too_large" else None,
        max_output=_first(_OUTPUTS, told),
        lacks=_lacks(told) if error.kind == "bad_request" else (),
    )


def _lacks(told: str) -> tuple[Part, ...]:
    if _TOOLS_OWN.search(told):
        return ()
    return tuple(
        part
        for part, pattern in _PARTS.items()
        if pattern.search(told)
        or (part == "tool_choice" and _VALUES.search(told))
        or (part == "summary" and _VERIFIED.search(told))
    )


def _first(patterns: tuple[str, ...], text: str) -> int | None:
    found = next((found for pattern in patterns if (found := re.search(pattern, text, re.I | re.DOTALL))), None)
    return int(found[1].replace(",", "")) if found else None


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((size for size in (one, other) if size is not None), default=None)
