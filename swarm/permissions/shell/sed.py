"""Scripts for `sed`: which do no more than print, delete and replace, and which may run a command."""

from __future__ import annotations

import re

from swarm.permissions.shell.words import UNKNOWN, literal

_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)"
_SED_COMMAND = re.compile(
    rf"(?:{_SED_ADDRESS}(?:,\s*{_SED_ADDRESS})?)?\s*!?\s*"
    r"(?:[pdqD=]|s(?P<by>[/|#,@:_])(?:(?!(?P=by))[^\\\n]|\\[^\n])*(?P=by)(?:(?!(?P=by))[^\\\n]|\\[^\n])*(?P=by)[gpiI\d]*)"
    r"\s*(?:;\s*|$)"
)
_EXECUTES = re.compile(r"(^|[;{}\n\d$!/|#,@:_~+gpiImM])\s*e")
"""Where an `e` may be the command, or the flag, that runs something."""


def is_plain_script(script: str) -> bool:
    """Whether a script for `sed` does no more than print, delete and replace: it writes and runs nothing."""
    text, place = literal(script).strip(), 0
    while place < len(text):
        match = _SED_COMMAND.match(text, place)
        if match is None or UNKNOWN in text:
            return False
        place = match.end()
    return bool(text)


def may_execute(words: tuple[str, ...]) -> bool:
    """Whether a script among the words of a call may run a command; files of scripts are programs of their own."""
    scripts = [word for before, word in zip(words, words[1:], strict=False) if before in ("-e", "--expression")]
    attached = [re.sub(r"^(-e|--expression=)", "", word) for word in words[1:] if re.match("-e.|--expression=", word)]
    operands = [word for word in words[1:] if not word.startswith("-")]
    return any(
        not is_plain_script(script) and (UNKNOWN in script or _EXECUTES.search(literal(script)) is not None)
        for script in [*scripts, *attached] or operands[:1]
    )
