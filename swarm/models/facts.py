"""Facts that a server told about one of its models, beside the table: sizes, and refused parts of requests. Pure.

Servers that speak the Messages API differ. A refusal that names a size or a part of the request teaches both, so that the next request is
fit. Wordings are those of Anthropic, Bedrock, Vertex, vLLM, llama.cpp, LM Studio, Ollama and LiteLLM.
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel

from swarm.core.errors import PermanentModelError

Part = Literal["cache_control", "effort", "thinking", "tool_choice"]
"""A part of requests without which they are still of use."""


class ModelFacts(BaseModel, frozen=True):
    """Facts about one model of one server. Unknown ones are None or empty: the table of models counts."""

    window: int | None = None
    """The most tokens that a request and its reply may have together."""
    max_output: int | None = None
    """The most tokens that one reply may have."""
    lacks: tuple[Part, ...] = ()
    """The refused parts, sorted."""

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
    rf"(?:prompt is too long|context (?:limit|window)).*?> *{_NUMBER}",
    rf"maximum context length (?:is|of)(?: only)? {_NUMBER}",  # vLLM, and most others in front of one
    rf"context (?:size|length) (?:of (?:only )?)?\(?{_NUMBER}",  # llama.cpp, LM Studio
    rf"maximum number of tokens allowed \({_NUMBER}",  # Vertex
)
_OUTPUTS = (
    rf"max_tokens:? .*?> *{_NUMBER}, which is the maximum allowed number of output tokens",  # Anthropic
    rf"exceeds the model limit of {_NUMBER}",  # Bedrock
    rf"supports at most {_NUMBER} (?:completion|output) tokens",
)
_UNSUPPORTED = re.compile(
    r"not (?:yet )?(?:supported|permitted|allowed|recogni[sz]ed|available|implemented)|unsupported|unknown|unexpected|unrecogni[sz]ed"
    r"|extra (?:inputs|fields)|n[o']t support|input should be",
    re.I,
)
_PARTS: dict[Part, re.Pattern[str]] = {
    "cache_control": re.compile(r"cache_control", re.I),
    "effort": re.compile(r"output_config|\beffort\b", re.I),
    "thinking": re.compile(r"\bthinking\b", re.I),
    "tool_choice": re.compile(r"tool_choice", re.I),
}


def name_at(model: str, server: str | None) -> str:
    """Name a model of a server; None is the provider's own."""
    return f"{model} at {server}" if server else model


def read_refusal(error: BaseException) -> ModelFacts:
    """Return the facts that a refusal of the model's server tells; most tell none."""
    if not isinstance(error, PermanentModelError) or error.kind not in ("too_large", "bad_request"):
        return NO_FACTS
    told = str(error)
    parts = _PARTS if error.kind == "bad_request" and _UNSUPPORTED.search(told) else {}
    return ModelFacts(
        window=_first(_WINDOWS, told),
        max_output=_first(_OUTPUTS, told),
        lacks=tuple(part for part, pattern in parts.items() if pattern.search(told)),
    )


def _first(patterns: tuple[str, ...], text: str) -> int | None:
    found = next((found for pattern in patterns if (found := re.search(pattern, text, re.I | re.DOTALL))), None)
    return int(found[1].replace(",", "")) if found else None


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((size for size in (one, other) if size is not None), default=None)
