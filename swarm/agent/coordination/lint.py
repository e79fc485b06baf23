"""Whether a prompt can stand alone: a worker has nothing but it. Pure, and made of plain patterns, so that its refusals can be foreseen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LEAST_CHARACTERS = 40
LEAST_TO_IMPLEMENT = 120

_ELSEWHERE = (
    r"\bbased on (?:your|the|their|its|these|those) (?:\w+ )?(?:findings?|research|reports?|results?|analys[ei]s|investigation)\b",
    r"\bas (?:we |you |already |was |were )*(?:discussed|agreed|decided|mentioned|described|explained|noted)\b(?! in| by| at)",
    r"\b(?:the|see|as|from|listed|mentioned|described|shown) above\b",
    r"\b(?:the|that|this) (?:\w+ )?(?:bugs?|issues?|problems?|errors?|causes?|files?|functions?|places?) (?:that |which )?"
    r"(?:we|you|they|it|the \w+) (?:\w+ )?(?:found|identified|discussed|discovered|saw|located|reported)\b",
    r"\b(?:your|the|our) (?:previous|earlier|prior|last) "
    r"(?:findings?|reports?|analys[ei]s|conversation|discussion|message|investigation)\b",
    r"\b(?:fix|implement|change|do|handle|address) (?:it|this|that|them|everything) "
    r"(?:accordingly|as (?:needed|appropriate|necessary|you see fit))\b",
    r"\byou (?:already )?know (?:what|how|where)\b",
    r"\bthe (?:other|previous) (?:agent|worker)'?s? (?:found|said|findings?|reports?|results?)\b",
)
"""Words that point at what the reader cannot see, or leave the understanding to it."""
_POINTING = re.compile("|".join(f"(?:{pattern})" for pattern in _ELSEWHERE), re.IGNORECASE)
_PLACE = re.compile(
    r"""[\w.-]+/[\w./-]+            # a path
      | \b[\w-]+\.[A-Za-z]\w{0,5}\b  # a file
      | `[^`\n]+`                    # anything marked as code
      | \b\w+\(\)                    # a function
      | \b[A-Za-z]+_\w+\b            # snake_case
      | \b[A-Z][a-z0-9]+[A-Z]\w*\b   # CamelCase""",
    re.VERBOSE,
)


def find_gap(given: Mapping[str, Any]) -> str:
    """Why the prompt of an `Agent` call cannot stand alone, in a sentence; empty if nothing speaks against it."""
    prompt, phase = str(given.get("prompt", "")), given.get("phase")
    if found := _POINTING.search(prompt):
        what = " ".join(found[0].split())
        return f"{what!r} points at something that the worker cannot see: say what it is, with paths and lines"
    implements = phase == "implementation"
    least = LEAST_TO_IMPLEMENT if implements else LEAST_CHARACTERS
    if len(prompt.strip()) < least:
        return (
            f"it has {len(prompt.strip())} characters, and a worker knows nothing else: give at least {least}, "
            "with goal, facts and what to report"
        )
    if implements and not _PLACE.search(prompt):
        return "it names no file and no symbol: say where the change is to be made"
    if implements and not str(given.get("done_when") or "").strip():
        return "`done_when` is missing: say how it will be seen that this part is done"
    return ""
