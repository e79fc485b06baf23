"""Read the lines of a map, and fill its template with one of them. Pure.

A line is text, or an object of fields (a line of JSON). `{name}` in the template stands for that field of an object. If lines are text, the
template's only name stands for the line. `{{name}}` is `{name}`; other braces are literal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from swarm.core.errors import ConfigurationError
from swarm.core.plain import clean, find_unfit

Line = str | dict[str, Any]
Format = Literal["auto", "text", "json"]
MAX_LINES = 100_000
_PLACE = re.compile(r"\{(\{[A-Za-z_][\w.-]*\}|\{\})\}|\{([A-Za-z_][\w.-]*)?\}")


def read_lines(text: str, form: Format = "auto", *, source: str = "the input") -> list[Line]:
    """Split a text into its non-empty lines; JSON if the first is an object, unless `form` decides.

    Raises `ConfigurationError` for a line of another kind.
    """
    # Other breaks, such as U+2028, may stand within a line of JSON.
    numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if form == "auto":
        form = "json" if numbered and _is_object(numbered[0][1]) else "text"
    if form == "text":
        return [line.rstrip("\r\n") for _, line in numbered]
    return [_read_object(line, f"{source}, line {number}") for number, line in numbered]


def check_lines(given: Iterable[object]) -> list[Line]:
    """Check a program's lines.

    Raises `ConfigurationError` for a line that is neither text nor an object, for no lines, and for too many.
    """
    lines: list[Line] = []
    for number, line in enumerate(given, 1):
        if number > MAX_LINES:
            raise ConfigurationError(f"there are more than {MAX_LINES:,} lines; split them into several maps")
        if isinstance(line, Mapping):
            line = {str(name): value for name, value in line.items()}
            if unfit := find_unfit(line):
                raise ConfigurationError(f"line {number} cannot be stored: {unfit}")
        elif not isinstance(line, str):
            raise ConfigurationError(f"line {number} is neither text nor a mapping: {line!r:.80}")
        lines.append(clean(line))
    if not lines:
        raise ConfigurationError(
            "there are no lines, so there is nothing to do; they come from a pipe, --over COMMAND or --from FILE"
        )
    return lines


def find_places(template: str) -> list[str]:
    """The placeholders of the template, each once; `` for `{}`."""
    return list(dict.fromkeys(found[2] or "" for found in _PLACE.finditer(template) if not found[1]))


def fill(template: str, line: Line, number: int) -> str:
    """Fill the template for one line. Raises `ConfigurationError` for a field that the line lacks."""
    values = _values(template, line, number)
    return _PLACE.sub(lambda found: found[1] or values[found[2] or ""], template)


def fill_all(template: str, lines: Iterable[Line]) -> Iterator[str]:
    """Fill the template for each line, in order. Raises `ConfigurationError`, also for a template without placeholders."""
    if not find_places(template):
        raise ConfigurationError(
            "the prompt is the same for every line: write {path} (any name will do, or a field of JSON lines) where the line belongs"
        )
    return (fill(template, line, number) for number, line in enumerate(lines, 1))


def _values(template: str, line: Line, number: int) -> dict[str, str]:
    places = find_places(template)
    if isinstance(line, str):
        if len(places) > 1:
            named = ", ".join(f"{{{place}}}" for place in places)
            raise ConfigurationError(
                f"line {number} is text and can stand for one name only, but the prompt has {named}"
            )
        return dict.fromkeys(places, line)
    values = {}
    for place in places:
        if place == "":
            values[place] = json.dumps(line, ensure_ascii=False)
        elif place in line:
            value = line[place]
            values[place] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        else:
            raise ConfigurationError(f"line {number} has no field {place!r}; it has {', '.join(line) or 'none'}")
    return values


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _read_object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ConfigurationError(f"{where} is not JSON: {error}; --lines text takes lines as they are") from None
    if not isinstance(found, dict):
        raise ConfigurationError(f"{where} is not a JSON object; --lines text takes lines as they are")
    return found
