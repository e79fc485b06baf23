"""Parses a plain shell command: its simple commands, their words, and the files of redirections.

The parser knows a strict part of Bash: words, quotes, plain variables, substitutions, pipes and lists, loops, redirections. Any other
syntax is a doubt (`ShellCommand.doubt`), never a guess that could allow something. `parts` then also contains possible commands, so
that a rule that denies still finds them.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from swarm.permissions.shell.words import META, NAME, UNKNOWN, Doubt, WordReader, is_plain_name, literal

MAX_COMMAND = 10_000
"""Maximum characters of a command that is parsed."""

_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ue000-\uf8ff]|[^\S \t\n]")
_SKIPPED = frozenset(("!", "{", "}", "if", "then", "else", "elif", "fi", "while", "until", "do", "done"))
"""Keywords that are followed by a command."""
_UNREAD = frozenset(("case", "esac", "select", "function", "coproc", "[[", "]]", "in"))
_ASSIGNMENT = re.compile(rf"({NAME})\+?=")
_FILLS = frozenset(("read", "mapfile", "readarray", "getopts", "source", ".", "printf", "eval"))
"""Builtins that set variables to values from elsewhere."""
_JOINED_LINE = re.compile(r"\S\\\n\S")
_REDIRECT = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|<|>>|>&|>\||>")
_DELIMITER = re.compile(r"(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)(?=[ \t\n;&|)]|$)")
_SEPARATORS = re.compile(r"[;&|\n(){}<>`]|\$\(")
_TARGET = re.compile(r">[>|&]?\s*([^\s;&|<>()]+)")
_QUOTES = re.compile(r"\\\n|[\\'\"]|\$(?=['\"])")


@dataclass(frozen=True)
class SimpleCommand:
    """One program with its words; `assigned` are the variables that are set before or by it."""

    words: tuple[str, ...]
    raw: str
    assigned: tuple[str, ...] = ()
    splitting: frozenset[int] = frozenset()
    """Indexes of words that the shell can split into several, or drop."""

    @property
    def settled_words(self) -> tuple[str, ...]:
        """The words, where words that can be split are unknown, because their parts can be options."""
        return tuple(UNKNOWN if index in self.splitting else word for index, word in enumerate(self.words))


@dataclass(frozen=True)
class ShellCommand:
    """A parsed command line."""

    text: str
    parts: tuple[SimpleCommand, ...] = ()
    writes: tuple[str, ...] = ()
    """Files that output is redirected to."""
    reads: tuple[str, ...] = ()
    doubt: str | None = None
    """Reason why the command is not fully understood, for people; `parts` then contains possible commands."""
    braces: bool = False
    """A word has a brace expansion, `{a,b}`."""
    grouped: bool = False
    """Commands are grouped (`( )`, `{ }`), or one runs in the background."""


@functools.lru_cache(maxsize=512)
def parse_command(text: str) -> ShellCommand:
    """Parse a command line; never raises."""
    if len(text) > MAX_COMMAND:
        return ShellCommand(
            text, (*_guess_parts(text[:MAX_COMMAND]),), doubt=f"it is longer than {MAX_COMMAND} characters"
        )
    reader, doubt = _ListReader(text), None
    try:
        if _ODD.search(text):
            raise Doubt("it contains control characters or unusual blanks")
        if _JOINED_LINE.search(text):
            raise Doubt("a backslash joins two lines inside a word")
        reader.read_list("")
        if reader.calculates and (reader.foreign or any(_FILLS.intersection(part.words) for part in reader.parts)):
            raise Doubt("it calculates with values that are known only when it runs")
    except Doubt as found:
        doubt = str(found)
    except RecursionError:
        doubt = "it is nested too deeply"
    if doubt is not None:
        reader.parts += _guess_parts(text)
        reader.writes += _TARGET.findall(_QUOTES.sub("", text))
    parts, writes, reads = tuple(reader.parts), tuple(reader.writes), tuple(reader.reads)
    return ShellCommand(text, parts, writes, reads, doubt, reader.braces, reader.grouped)


class _ListReader(WordReader):
    """Parses one text from its beginning and keeps its findings in order."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.parts: list[SimpleCommand] = []
        self.writes: list[str] = []
        self.reads: list[str] = []
        self.grouped = False
        self._documents: list[tuple[str, bool, bool]] = []

    def read_list(self, closing: str) -> None:
        """Read a list of commands, to the end of the text or past the closing character."""
        self.foreign = self.foreign or closing == ")"
        if closing and self._documents:
            raise Doubt("a here-document is not understood")
        while True:
            self.skip_blanks()
            character = self.peek()
            if character in ("", ")"):
                return self._end_list(closing)
            if character == "\n":
                self._end_line()
            elif character in ";|":
                if self.text.startswith((";;", ";&"), self.at):
                    raise Doubt("its syntax is not understood")
                self.at += 1 + self.text.startswith("|&", self.at)
            elif character == "&" and not self.text.startswith("&>", self.at):
                both = self.text.startswith("&&", self.at)
                self.grouped = self.grouped or not both
                self.at += 1 + both
            elif character == "(":
                if self.text.startswith("((", self.at):
                    raise Doubt("it calculates")
                self.grouped = True
                self.at += 1
                self.read_list(")")
            else:
                self._read_command()

    def _end_list(self, closing: str) -> None:
        at_end = self.peek() == ""
        if self.peek() != closing or (at_end and self._documents):
            raise Doubt("something in it is not closed" if at_end else "its syntax is not understood")
        if self._documents:
            raise Doubt("a here-document is not understood")
        self.at += len(closing)

    def _read_command(self) -> None:
        """Read a simple command with its redirections; keywords are skipped."""
        words: list[str] = []
        assigned: list[str] = []
        splitting: set[int] = set()
        begin = end = self.at
        redirected = False
        while not self._ends_command():
            if self._read_redirect():
                redirected = True
            else:
                word = self.read_word()
                if self.peek() in ("<", ">") and re.fullmatch(r"\{.*\}", word.unquoted):
                    raise Doubt("a redirection is not understood")
                if not (words or assigned or redirected) and self._read_keyword(word.unquoted):
                    return
                if not words and (variable := self._find_assigned(word.unquoted)):
                    assigned.append(variable)
                else:
                    splitting.update({len(words)} if word.splits else ())
                    words.append(word.value)
            end = self.at
            self.skip_blanks()
        if words or assigned:
            raw = self.text[begin:end]
            self.parts.append(SimpleCommand(tuple(words), raw, tuple(assigned), frozenset(splitting)))

    def _ends_command(self) -> bool:
        if self.peek() == "(":
            raise Doubt("it defines a function, or its syntax is not understood")
        background = self.peek() == "&" and not self.text.startswith("&>", self.at)
        return background or self.peek() in ("", "\n", ";", "|", ")")

    def _read_keyword(self, bare: str) -> bool:
        """Report whether a first word is a keyword; a loop is read to the end of its words."""
        if bare in _UNREAD:
            raise Doubt(f"it uses `{bare}`")
        if bare == "for":
            self._read_loop()
        self.grouped = self.grouped or bare == "{"
        return bare == "for" or bare in _SKIPPED

    def _find_assigned(self, bare: str) -> str:
        """Return the variable that a word before the program sets; empty if none."""
        if found := _ASSIGNMENT.match(bare):
            if self.peek() == "(":
                raise Doubt("it makes a list of a variable")
            return found[1]
        if re.match(rf"{NAME}\[", literal(bare)):
            raise Doubt("which variable is set is not understood")
        return ""

    def _read_loop(self) -> None:
        """Read `for NAME in WORDS`, up to the end of its line."""
        self.skip_blanks()
        name = self.read_word().unquoted if self.peek() not in ("", *META) else ""
        if not is_plain_name(name):
            raise Doubt("its loop is not understood")
        self.parts.append(SimpleCommand((), f"{name}=", (name,)))
        self.skip_blanks()
        if self.peek() not in ("\n", ";", "", *META) and self.read_word().unquoted != "in":
            raise Doubt("its loop is not understood")
        self.skip_blanks()
        while self.peek() not in ("", "\n", ";"):
            if self.peek() in META:
                raise Doubt("its loop is not understood")
            self.read_word()
            self.skip_blanks()

    def _read_redirect(self) -> bool:
        """Read a redirection, if there is one at this place."""
        digits = re.compile(r"\d*").match(self.text, self.at)
        assert digits
        operator = _REDIRECT.match(self.text, digits.end())
        if operator is None or (operator[0] in "<>" and self.text.startswith("(", operator.end())):
            return False
        if digits[0] and operator[0].startswith("&"):
            return False
        self.at = operator.end()
        if operator[0] in ("<<", "<<-"):
            self.skip_blanks()
            delimiter = _DELIMITER.match(self.text, self.at)
            if delimiter is None:
                raise Doubt("a here-document is not understood")
            self.at = delimiter.end()
            self._documents.append((delimiter["word"], bool(delimiter["quote"]), operator[0] == "<<-"))
            return True
        self.skip_blanks()
        if self.peek() in ("", *(META - {"<", ">"})):
            raise Doubt("a redirection is not understood")
        word = self.read_word()
        if operator[0] == "<<<" or (operator[0] in (">&", "<&") and re.fullmatch(r"\d+-?|-", word.unquoted)):
            return True
        if literal(word.value).startswith(("/dev/tcp/", "/dev/udp/")):
            raise Doubt("a redirection opens a network connection")
        (self.reads if operator[0] in ("<", "<&") else self.writes).append(word.value)
        return True

    def _end_line(self) -> None:
        """Read the end of a line, and the here-documents after it."""
        self.at += 1
        for word, quoted, tabs in self._documents:
            while True:
                if self.at >= len(self.text):
                    raise Doubt("a here-document is not closed")
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line, self.at = self.text[self.at : end], end + 1
                if (line.lstrip("\t") if tabs else line) == word:
                    break
                if not quoted and re.search(r"[`\\]|\$[({\['\"]", line):
                    raise Doubt("a here-document has something in it that is replaced")
        self.at = min(self.at, len(self.text))
        self._documents.clear()

    def read_substituted(self, text: str) -> None:
        inner = _ListReader(text)
        inner.parts, inner.writes, inner.reads = self.parts, self.writes, self.reads
        inner.read_list("")
        self.braces, self.calculates = self.braces or inner.braces, self.calculates or inner.calculates
        self.grouped = self.grouped or inner.grouped


def _guess_parts(text: str) -> list[SimpleCommand]:
    """Return the pieces of an unreadable command that can be commands."""
    found = []
    for piece in _SEPARATORS.split(_QUOTES.sub("", text)):
        words = piece.split()
        while words and words[0] in _SKIPPED:
            del words[0]
        if words:
            found.append(SimpleCommand(tuple(words), " ".join(words)))
    return found
