"""Output for people and programs: consoles, JSON, and readable values.

Text from models, files and tools passes through `plain` before it reaches a terminal. The lines and consoles of this module, and the
tables of `tables`, ensure that. Rich's `Text` must be made from plain text.
"""

from __future__ import annotations

import json
import re
import sys
import time
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_UNBROKEN_WIDTH = 4_000
"""Output width without a terminal, because programs and `grep` want whole lines."""
_SPACES = {0x09: "    ", 0x0D: ""}
_HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Co", "Cn", "Cs"})
"""Categories of characters that control a terminal, are invisible, or change how others are shown."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
"""Invisible characters of other categories."""
_TAGS = range(0xE0100, 0xE01F0)


def output_console() -> Console:
    """Make the console for results, on stdout."""
    return _console(stderr=False)


def message_console() -> Console:
    """Make the console for everything but the result, on stderr."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    from swarm.cli.consoles import PlainConsole

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _UNBROKEN_WIDTH
    return PlainConsole(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


def print_result(text: str) -> None:
    """Write an agent's answer to stdout, made harmless on a terminal."""
    sys.stdout.write(plain(text) if sys.stdout.isatty() else text)
    if not text.endswith("\n"):
        sys.stdout.write("\n")
    sys.stdout.flush()


def print_bytes(content: bytes) -> None:
    """Write file contents to stdout byte for byte, made harmless on a terminal."""
    if sys.stdout.isatty():
        sys.stdout.write(plain(content.decode("utf-8", "backslashreplace")))
    else:
        sys.stdout.buffer.write(content)
    sys.stdout.flush()


def print_line(text: str = "") -> None:
    """Write a line to stdout."""
    sys.stdout.write(plain(text) + "\n")
    sys.stdout.flush()


def print_json(document: Any, *, indent: int | None = 2) -> None:
    """Write a document as JSON to stdout."""
    print_json_text(json.dumps(document, indent=indent, ensure_ascii=False))


def print_json_text(text: str) -> None:
    """Write a JSON text to stdout."""
    sys.stdout.write(plain_json(text) + "\n")
    sys.stdout.flush()


def print_note(text: str) -> None:
    """Write a note for the person to stderr."""
    print(plain(text), file=sys.stderr, flush=True)


# -- values ------------------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """Escape every character that controls a terminal or is invisible.

    The text can move no cursor, set no title and trigger no reply from a terminal. Line breaks are kept.
    """
    text = text.translate(_SPACES)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(each) if is_hidden(each) and each != "\n" else each for each in text)


def plain_json(text: str) -> str:
    """Prepare a JSON document for stdout; on a terminal, escape hidden characters in JSON's notation."""
    if not sys.stdout.isatty():
        return text
    return "".join(_json_escape(each) if is_hidden(each) and each != "\n" else each for each in text)


def is_hidden(character: str) -> bool:
    """Whether a terminal would obey this character, or show nothing for it."""
    return unicodedata.category(character) in _HIDDEN or character in _BLANK or ord(character) in _TAGS


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"


def one_line(text: str, length: int = 100) -> str:
    """Shorten text to one line of at most `length` characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def show_number(number: int, what: str) -> str:
    """Format a number with its noun: 1 turn, 2 turns."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def show_count(number: int) -> str:
    """Format a count briefly: 950, 12.3k, 4.1M."""
    for limit, divisor, unit in ((1_000, 1, ""), (999_950, 1_000, "k"), (999_950_000, 1_000_000, "M")):
        if number < limit:
            return f"{number / divisor:.1f}{unit}" if unit else str(number)
    return f"{number / 1_000_000_000:.1f}G"


def show_cost(dollars: float | None, unpriced: int = 0, estimated: float = 0.0) -> str:
    """Format an amount in dollars, with enough digits to be non-zero; `?` stands for `unpriced` tokens.

    With an `estimated` part it says so: `$1.20 (~$0.1000 estimated)`.
    """
    if dollars is None:
        return "?"
    told = "$0" if dollars == 0 else f"${dollars:.2f}" if dollars >= 0.995 else f"${dollars:.4f}"
    if estimated:
        told += " (estimated)" if estimated >= dollars else f" (~{show_cost(estimated)} estimated)"
    return f"{told} + ?" if unpriced else told


def show_ago(seconds: float) -> str:
    """Format an age: now, 42s ago, 3m ago, 2h ago, 5d ago."""
    for divisor, limit, unit in ((1, 60, "s"), (60, 60, "m"), (3_600, 24, "h")):
        if seconds < divisor * limit:
            return f"{int(seconds / divisor)}{unit} ago" if seconds >= 1 else "now"
    return f"{int(seconds / 86_400)}d ago"


def show_since(at: float) -> str:
    """Format the time since a moment."""
    return show_ago(time.time() - at)


def show_moment(at: float) -> str:
    """Format a moment in local time, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def show_duration(seconds: float) -> str:
    """Format a duration: 4.2s, 1m05s, 2h03m, 3d04h."""
    seconds = max(0.0, seconds)
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3_600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3_600}h{whole % 3_600 // 60:02d}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3_600:02d}h"


def show_time(seconds: float) -> str:
    """Format a chosen, mostly round, time: 30s, 5m, 1h30m."""
    return re.sub(r"(?<=[mhd])00[smh]$|\.0(?=s$)", "", show_duration(seconds))
