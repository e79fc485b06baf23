"""Read-only commands for hosts without a sandbox: programs without a shell, each with a fixed grammar of arguments.

The same programs are allowed beside a command that a rule allows, as in `make test | tail -5`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swarm.permissions.shell.parse import ShellCommand, SimpleCommand
from swarm.permissions.shell.words import GLOB_MARKS, UNKNOWN

MayRead = Callable[[str], bool]
"""Reports whether a file of this name may be read without a question."""


@dataclass(frozen=True)
class Grammar:
    """The options of a program, in the form of `getopt`: a colon or `=` follows an option with a value."""

    letters: str = ""
    long: str = ""
    operands: int | None = None
    """Maximum number of operands; None: no limit."""

    def operands_of(self, words: tuple[str, ...], *, values: bool = True) -> list[str] | None:
        """Return the operands, with the options' `values`; None if an option is not known."""
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
        """Return the value of a long option; None if the option is not known."""
        name, equals, value = word.partition("=")
        return ([value] if equals else []) if name + equals in self.long.split() else None

    def _read_letters(self, word: str, rest: list[str]) -> list[str] | None:
        """Return the last short option's value, which can be the first of `rest`; None if an option is not known."""
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
"""A closed list. None of these options starts a program, writes a file, or reads file names from a file."""
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
    """Report whether a simple command only reads or changes the folder, so that it can stand beside an allowed one."""
    if part.assigned or not part.words or any(map(_is_unsettled, part.words)):
        return False
    return part.words[0] in ("cd", ":") or _grammar(part.words) is not None


def plain_look(command: ShellCommand, workspace: Path, may_read: MayRead, *, guarded: bool) -> list[str] | None:
    """Return the words of a command that is one simple command and only reads readable files; else None.

    `guarded`: some files must not be read, so programs that search folders are refused.
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
        return None  # the project's files are settings of a bare repository
    converts = ("--no-ext-diff", "--no-textconv") if words[1] in _CONVERTS else ()
    return [*_GIT_LOOKS, words[1], *converts, *words[2:]]


def _grammar(words: tuple[str, ...]) -> list[str] | None:
    """Return the operands of a read-only program; None for other programs."""
    if words[0] == "git" and len(words) > 1:
        return _GIT[words[1]].operands_of(words[2:]) if words[1] in _GIT else None
    grammar = LOOKS.get(words[0])
    return None if grammar is None else grammar.operands_of(words[1:])


def _is_unsettled(word: str) -> bool:
    return UNKNOWN in word or any(mark in word for mark in GLOB_MARKS.values()) or word.startswith("~")
