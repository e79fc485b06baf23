"""Reads the words of a shell command: quotes, plain variables, substitutions, file patterns.

A word has the value that Bash would pass to the program: `r\\m`, `"rm"` and `'r'm` are all `rm`. A part that only a running shell knows
is one `UNKNOWN` character. An unquoted pattern for file names has marks of its own.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

UNKNOWN = "\ue000"
"""Any text: a variable, a substitution, a brace expansion."""
GLOB_MARKS = {"*": "\ue003", "?": "\ue004", "[": "\ue005"}
"""Unquoted characters that the shell replaces by file names."""

_LITERAL_GLOBS = str.maketrans({mark: character for character, mark in GLOB_MARKS.items()})
META = frozenset(" \t\n;&|<>()")
NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = re.compile(
    rf"\$({NAME}|[0-9@*#?$!-])|\$\{{#?{NAME}\}}|\$\{{{NAME}(:?[-+?]|##?|%%?|//?)[\w./, *?@:%+=-]*\}}"
)
"""An expansion that runs nothing: it contains no code, arithmetic or other expansion."""
_CALCULATION = re.compile(r"\$\(\(((?!\+\+|--)(?:[\w +*/%()-]|\$(?=[A-Za-z_])))*?\)\)")
"""Arithmetic that sets nothing. Variables in it are evaluated in turn, so their values must be known before the command runs."""
_VISITED = re.compile(r"~[-+0-9]")
"""A tilde prefix for a folder that the shell visited before."""


class Doubt(Exception):
    """The command uses unsupported syntax; the message names it."""


def literal(word: str) -> str:
    """Return the word with the marks of file patterns as their original characters."""
    return word.translate(_LITERAL_GLOBS)


def is_plain_name(text: str) -> bool:
    """Report whether the text is only a variable's name, without an index or an expansion."""
    return re.fullmatch(NAME, text) is not None


@dataclass
class Word:
    """A word while it is read."""

    pieces: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    """The pieces with quoted and replaced ones as blanks, for the grammar."""
    splits: bool = False

    def add(self, piece: str, *, bare: bool = False) -> None:
        self.pieces.append(piece)
        self.bare.append(piece if bare else " ")

    @property
    def value(self) -> str:
        if self.expands or _VISITED.match(self.unquoted):
            return UNKNOWN
        return "[" if self.pieces == [GLOB_MARKS["["]] else "".join(self.pieces)

    @property
    def expands(self) -> bool:
        """Braces expand the word to several."""
        first, last = self.unquoted.find("{"), self.unquoted.rfind("}")
        inner = self.unquoted[first:last] if 0 <= first < last else ""
        return "," in inner or ".." in inner

    @property
    def unquoted(self) -> str:
        return "".join(self.bare)


class WordReader:
    """Reads the words of one text from its beginning."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.braces = self.calculates = False
        self.foreign = "[" in text
        """A part of the text comes from a program or from file names, or could be an index."""

    @abstractmethod
    def read_list(self, closing: str) -> None:
        """Read commands, to the end of the text or past the closing character."""

    @abstractmethod
    def read_substituted(self, text: str) -> None:
        """Read commands in a separate text."""

    def read_word(self) -> Word:
        word, begin = Word(), self.at
        while (character := self.peek()) != "":
            if character in "<>" and self.text.startswith("(", self.at + 1):
                self.at += 2
                self.read_list(")")
                word.add(UNKNOWN)
                continue
            if character in META:
                break
            self.at += 1
            if special := self._SPECIAL.get(character):
                special(self, word)
            else:
                word.add(GLOB_MARKS.get(character, character), bare=True)
            if character in "*?":
                word.splits = self.foreign = True
        if self.at == begin:
            raise Doubt("its syntax is not understood")
        word.splits = word.splits or (GLOB_MARKS["["] in word.pieces and len(word.pieces) > 1)
        if word.expands:
            word.splits = self.braces = True
        return word

    def _read_escaped(self, word: Word) -> None:
        if self.peek() == "":
            raise Doubt("it ends with a backslash")
        escaped = self._next()
        if escaped != "\n":
            word.add(escaped)

    def _read_text(self, word: Word) -> None:
        word.add(self._until("'"))

    def _read_quoted(self, word: Word) -> None:
        word.add("")
        while (character := self._next()) != '"':
            if character == "\\" and self.peek() in ("$", "`", '"', "\\", "\n"):
                escaped = self._next()
                word.add(escaped if escaped != "\n" else "")
            elif character == "`":
                self._read_backquoted(word, quoted=True)
            elif character == "$":
                self._read_dollar(word, quoted=True)
            else:
                word.add(character)

    def _read_dollar(self, word: Word, *, quoted: bool = False) -> None:
        """Read an expansion after a dollar sign; the shell can split its value unless it is quoted."""
        start = self.at - 1
        calculation = _CALCULATION.match(self.text, start)
        following = self.peek()
        if found := calculation or _VARIABLE.match(self.text, start):
            self.at = found.end()
            self.calculates = self.calculates or calculation is not None
        elif following == "(" and not self.text.startswith("((", self.at):
            self.at += 1
            self.read_list(")")
        elif following in ("(", "{", "[") or (following in ("'", '"') and not quoted):
            raise Doubt("it expands something in a way that is not understood")
        else:
            word.add("$")
            return
        word.add(UNKNOWN)
        word.splits = word.splits or not quoted

    def _read_backquoted(self, word: Word, *, quoted: bool = False) -> None:
        code = self._until("`")
        if "\\" in code:
            raise Doubt("it has backslashes inside backquotes")
        self.read_substituted(code)
        self.foreign = True
        word.add(UNKNOWN)
        word.splits = word.splits or not quoted

    _SPECIAL: ClassVar[dict[str, Callable[[Any, Word], None]]] = {
        "\\": _read_escaped,
        "'": _read_text,
        '"': _read_quoted,
        "`": _read_backquoted,
        "$": _read_dollar,
    }

    def skip_blanks(self) -> None:
        """Skip blanks, joined lines and comments."""
        while True:
            if self.peek() in (" ", "\t"):
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self.peek() == "#" and (self.at == 0 or self.text[self.at - 1] in META):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _next(self) -> str:
        character = self.peek()
        if character == "":
            raise Doubt("a quote in it is not closed")
        self.at += 1
        return character

    def _until(self, closing: str) -> str:
        end = self.text.find(closing, self.at)
        if end < 0:
            raise Doubt("a quote in it is not closed")
        text, self.at = self.text[self.at : end], end + 1
        return text
