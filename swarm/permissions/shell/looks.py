"""Commands that only look, where no sandbox can keep them to it: programs without a shell, each with a fixed grammar of its arguments.

The same programs may stand beside a command that a rule allows, as in `make test | tail -5`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swarm.permissions.shell.parse import ShellCommand, SimpleCommand
from swarm.permissions.shell.words import GLOB_MARKS, UNKNOWN

MayRead = Callable[[str], bool]
"""Whether a file of this name may be read without a question."""


@dataclass(frozen=True)
class Grammar:
    """The options of a program, as `getopt` has them: a colon, or `=`, follows one that takes a value."""

    letters: str = ""
    long: str = ""
    operands: int | None = None
    """The most words that are no options."""

    def operands_of(self, words: tuple[str, ...], *, values: bool = True) -> list[str] | None:
        """What is left beside options that are all known, with their `values`; None where one is not."""
        found: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                found += rest
                break
            if word == "-" or not word.startswith("-"):
                found.append(word)
            elif not (re.fullmatch(r"-\d+", word) and "#" in self.letters):
                taken = self._read_long(word[2:]) if word.startswith("--") else self._read_letters(word, rest)
                if taken is None:
                    return None
                found += taken if values else []
        return found if self.operands is None or len(found) <= self.operands else None

    def _read_long(self, word: str) -> list[str] | None:
        """The value of a long option; None for one that is not known."""
        name, equals, value = word.partition("=")
        return ([value] if equals else []) if name + equals in self.long.split() else None

    def _read_letters(self, word: str, rest: list[str]) -> list[str] | None:
        """The value of the last of some short options, which may be the first of `rest`; None if one is not known."""
        for place, outgoing in enumerate(word[1:], 2):
            if outgoing not in self.letters or not outgoing.isalnum():
                return None
            if f"{outgoing}:" in self.letters:
                if place == len(word) and not rest:
                    return None
                return [word[place:] or rest.pop(0)]
        return []


_GREP = Grammar("nilLvwxcoqsEFPhHrIaA:B:C:e:m:", "include= exclude= exclude-dir= color= line-number ignore-case count")
LOOKS: dict[str, Grammar] = {
    **dict.fromkeys(("cat", "nl", "tac", "rev"), Grammar("AbeEnstTuv")),
    **dict.fromkeys(("head", "tail"), Grammar("#qvn:c:", "lines= bytes=")),
    **dict.fromkeys(("grep", "egrep", "fgrep"), _GREP),
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha256sum", "basename", "dirname", "realpath", "true", "false", "pwd"), Grammar()
    ),
    "wc": Grammar("lwcmL"),
    "ls": Grammar(
        "aAbBcCdfFgGhiklmnNopqQrRsStTuUvxXZ1", "all almost-all directory human-readable recursive reverse color="
    ),
    "cut": Grammar("b:c:d:f:s"),
    "tr": Grammar("cCds"),
    "sort": Grammar("bcCdfghiMmnrRsuVzk:t:", "reverse numeric-sort unique"),
    "uniq": Grammar("cdDiuz", operands=1),
    "stat": Grammar("c:t"),
    "file": Grammar("bi"),
    "du": Grammar("0abchkmsxd:", "max-depth= summarize"),
    "cmp": Grammar("bls"),
    "echo": Grammar("neE"),
    "seq": Grammar("w"),
    "date": Grammar("u", operands=0),
    "rg": Grammar(
        "nilvwxcoqsFA:B:C:e:g:t:m:", "files hidden line-number ignore-case files-with-matches count glob= type="
    ),
}
"""Closed. No option of these starts a program, writes a file, or reads the names of files out of one."""
_GIT = {
    **dict.fromkeys(
        ("log", "show"),
        Grammar(
            "#ppsn:S:",
            "oneline stat shortstat numstat name-only name-status graph all cached staged no-merges merges patch follow reverse"
            " decorate author= since= until= grep= date= max-count=",
        ),
    ),
    "branch": Grammar("arv", "all show-current list", operands=0),
    "rev-parse": Grammar("", "abbrev-ref short show-toplevel verify"),
    "ls-files": Grammar("co", "cached others exclude-standard"),
}
_GIT_LOOKS = ("git", "--no-pager", "-c", "core.fsmonitor=", "-c", "log.showSignature=false", "--no-optional-locks")
_CONVERTS = frozenset(("log", "show"))
_SPEAKS = frozenset(("echo", "true", "false", "seq", "date", "pwd"))
_RECURSIVE = re.compile(r"-[a-zA-Z]*[rR]")


def is_harmless_part(part: SimpleCommand) -> bool:
    """Whether a simple command does nothing but look, or only goes to a folder: fit to stand beside one that a rule allows."""
    if part.assigned or not part.words or any(map(_is_unsettled, part.words)):
        return False
    return part.words[0] in ("cd", ":") or _grammar(part.words) is not None


def plain_look(command: ShellCommand, workspace: Path, may_read: MayRead, *, guarded: bool) -> list[str] | None:
    """The program and its words, if the command is one simple command that only looks at what may be read; else None.

    `guarded`: files below may not all be read, so what looks through folders is not taken.
    """
    if command.doubt or command.writes or command.reads or len(command.parts) != 1:
        return None
    [part] = command.parts
    if part.assigned or any(map(_is_unsettled, part.words)):
        return None
    words = part.words
    operands = _grammar(words)
    if operands is None:
        return None
    folders = guarded and (words[0] in ("rg", "git") or any(map(_RECURSIVE.match, words[1:])))
    if folders or (words[0] not in _SPEAKS and not all(map(may_read, operands))):
        return None
    return _git_look(words, workspace) if words[0] == "git" else list(words)


def _git_look(words: tuple[str, ...], workspace: Path) -> list[str] | None:
    if (workspace / "HEAD").exists() and not (workspace / ".git").exists():
        return None  # files of the project are the settings of that repository
    converts = ("--no-ext-diff", "--no-textconv") if words[1] in _CONVERTS else ()
    return [*_GIT_LOOKS, words[1], *converts, *words[2:]]


def _grammar(words: tuple[str, ...]) -> list[str] | None:
    """The operands of a program that looks; None if it is none."""
    if words[0] == "git" and len(words) > 1:
        return _GIT[words[1]].operands_of(words[2:]) if words[1] in _GIT else None
    grammar = LOOKS.get(words[0])
    return None if grammar is None else grammar.operands_of(words[1:])


def _is_unsettled(word: str) -> bool:
    return UNKNOWN in word or any(mark in word for mark in GLOB_MARKS.values()) or word.startswith("~")
