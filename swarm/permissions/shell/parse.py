"""Reads a shell command as far as it is plain: its simple commands, their words, and the files that it redirects to.

The reader knows a strict part of Bash: words, quotes, plain variables, substitutions, pipes and lists, loops, redirections. Whatever else
stands in a command is a doubt (`ShellCommand.doubt`), never a guess that could allow something. `parts` then holds also what may
be commands, so that a rule that denies still finds them.

A word is given as the value that Bash would hand to the program: `r\\m`, `"rm"` and `'r'm` are all `rm`. What only a running shell knows is
one `UNKNOWN` character; an unquoted pattern for file names keeps marks of its own.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

UNKNOWN = "\ue000"
"""Any text at all: a variable, a substitution, a brace expansion."""
GLOB_MARKS = {"*": "\ue003", "?": "\ue004", "[": "\ue005"}
"""Unquoted characters that the shell replaces by file names."""
MAX_COMMAND = 10_000
"""Characters beyond which a command is not read."""

_LITERAL_GLOBS = str.maketrans({mark: character for character, mark in GLOB_MARKS.items()})
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ue000-\uf8ff]|[^\S \t\n]")
_META = frozenset(" \t\n;&|<>()")
_SKIPPED = frozenset(("!", "{", "}", "if", "then", "else", "elif", "fi", "while", "until", "do", "done"))
"""Words that only give a list of commands its form: what stands behind them is a command."""
_UNREAD = frozenset(("case", "esac", "select", "function", "coproc", "[[", "]]", "in"))
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_ASSIGNMENT = re.compile(rf"({_NAME})\+?=")
_VARIABLE = re.compile(
    rf"\$({_NAME}|[0-9@*#?$!-])|\$\{{#?{_NAME}\}}|\$\{{{_NAME}(:?[-+?]|##?|%%?|//?)[\w./, *?@:%+=-]*\}}"
)
"""An expansion that runs nothing: no code, no arithmetic and no other expansion can be in it."""
_CALCULATION = re.compile(r"\$\(\(((?!\+\+|--)(?:[\w +*/%()-]|\$(?=[A-Za-z_])))*?\)\)")
"""Arithmetic that sets nothing. A variable in it is evaluated in turn, so none may hold what is known only when it runs."""
_FILLS = frozenset(("read", "mapfile", "readarray", "getopts", "source", ".", "printf", "eval"))
"""Builtins that give variables values from elsewhere."""
_JOINED_LINE = re.compile(r"\S\\\n\S")
_VISITED = re.compile(r"~[-+0-9]")
"""The name of a folder that the shell has been in."""
_REDIRECT = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|<|>>|>&|>\||>")
_DELIMITER = re.compile(r"(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)(?=[ \t\n;&|)]|$)")
_SEPARATORS = re.compile(r"[;&|\n(){}<>`]|\$\(")
_TARGET = re.compile(r">[>|&]?\s*([^\s;&|<>()]+)")
_QUOTES = re.compile(r"\\\n|[\\'\"]|\$(?=['\"])")


@dataclass(frozen=True)
class SimpleCommand:
    """One program with its words; `assigned` are the names of variables set in front of it, or by it."""

    words: tuple[str, ...]
    raw: str
    assigned: tuple[str, ...] = ()
    splitting: frozenset[int] = frozenset()
    """Places of the words that the shell may turn into several, or into none."""

    @property
    def settled_words(self) -> tuple[str, ...]:
        """The words with those that may become several wholly unknown: any of these may be an option."""
        return tuple(UNKNOWN if index in self.splitting else word for index, word in enumerate(self.words))


@dataclass(frozen=True)
class ShellCommand:
    """A whole command line, taken apart."""

    text: str
    parts: tuple[SimpleCommand, ...] = ()
    writes: tuple[str, ...] = ()
    """Files that output is redirected to."""
    reads: tuple[str, ...] = ()
    doubt: str | None = None
    """Why it is not understood as a whole, in words for a person; `parts` then has what may be commands of it."""
    braces: bool = False
    """It has words of which the shell makes several, `{a,b}`."""


class _Doubt(Exception):
    """The command uses what is not read here; the message says what."""


@functools.lru_cache(maxsize=512)
def parse_command(text: str) -> ShellCommand:
    """Take a command line apart; never raises."""
    if len(text) > MAX_COMMAND:
        return ShellCommand(
            text, (*_guess_parts(text[:MAX_COMMAND]),), doubt=f"it is longer than {MAX_COMMAND} characters"
        )
    reader, doubt = _Reader(text), None
    try:
        if _ODD.search(text):
            raise _Doubt("it contains control characters or unusual blanks")
        if _JOINED_LINE.search(text):
            raise _Doubt("a backslash joins two lines inside a word")
        reader.read_list("")
        if reader.calculates and (reader.foreign or any(_FILLS.intersection(part.words) for part in reader.parts)):
            raise _Doubt("it calculates with what is known only when it runs")
    except _Doubt as found:
        doubt = str(found)
    except RecursionError:
        doubt = "it is nested too deeply"
    if doubt is not None:
        reader.parts += _guess_parts(text)
        reader.writes += _TARGET.findall(_QUOTES.sub("", text))
    parts, writes, reads = tuple(reader.parts), tuple(reader.writes), tuple(reader.reads)
    return ShellCommand(text, parts, writes, reads, doubt, reader.braces)


def literal(word: str) -> str:
    """The word with the marks of file patterns as the characters that they were."""
    return word.translate(_LITERAL_GLOBS)


def is_plain_name(text: str) -> bool:
    """Whether it is the name of a variable and no more: no index, nothing to replace."""
    return re.fullmatch(_NAME, text) is not None


@dataclass
class _Word:
    """A word while it is read."""

    pieces: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    """The same, with what was quoted or replaced as blanks: the grammar looks at no other characters."""
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
        """Whether braces make several words of it."""
        first, last = self.unquoted.find("{"), self.unquoted.rfind("}")
        inner = self.unquoted[first:last] if 0 <= first < last else ""
        return "," in inner or ".." in inner

    @property
    def unquoted(self) -> str:
        return "".join(self.bare)


class _Reader:
    """Reads one text from its beginning; what it finds is kept in the order in which it stands."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.parts: list[SimpleCommand] = []
        self.writes: list[str] = []
        self.reads: list[str] = []
        self.braces = self.calculates = False
        self.foreign = "[" in text
        """Something in it comes from a program, from the names of files, or could be an index."""
        self._documents: list[tuple[str, bool, bool]] = []

    def read_list(self, closing: str) -> None:
        """Commands and what stands between them, to the end of the text or behind the character that closes them."""
        self.foreign = self.foreign or closing == ")"
        if closing and self._documents:
            raise _Doubt("a here-document is not understood")
        while True:
            self._skip_blanks()
            character = self._peek()
            if character == "":
                if closing or self._documents:
                    raise _Doubt("something in it is not closed")
                return
            if character == ")":
                if closing != ")":
                    raise _Doubt("its syntax is not understood")
                if self._documents:
                    raise _Doubt("a here-document is not understood")
                self.at += 1
                return
            if character == "\n":
                self._end_line()
            elif character in ";|":
                if self.text.startswith((";;", ";&"), self.at):
                    raise _Doubt("its syntax is not understood")
                self.at += 1
            elif character == "&" and not self.text.startswith(("&>"), self.at):
                self.at += 1
            elif character == "(":
                if self.text.startswith("((", self.at):
                    raise _Doubt("it calculates")
                self.at += 1
                self.read_list(")")
            else:
                self._read_command()

    # -- one command -----------------------------------------------------------------------------------------

    def _read_command(self) -> None:
        """A simple command with its redirections; words that only give a list its form are passed over."""
        words: list[str] = []
        assigned: list[str] = []
        splitting: set[int] = set()
        begin = end = self.at
        redirected = False
        while (character := self._peek()) not in ("", "\n", ";", "|", ")"):
            if character == "&" and not self.text.startswith("&>", self.at):
                break
            if character == "(":
                raise _Doubt("it defines a function, or its syntax is not understood")
            if self._read_redirect():
                redirected = True
            else:
                word = self._read_word()
                bare = word.unquoted
                if self._peek() in "<>" and self._peek() and re.fullmatch(r"\{.*\}", bare):
                    raise _Doubt("a redirection is not understood")
                first = not (words or assigned or redirected)
                if first and bare in _UNREAD:
                    raise _Doubt(f"it uses `{bare}`")
                if first and bare == "for":
                    self._read_loop()
                    return
                if first and bare in _SKIPPED:
                    return
                if not words and (found := _ASSIGNMENT.match(bare)):
                    if self._peek() == "(":
                        raise _Doubt("it makes a list of a variable")
                    assigned.append(found[1])
                elif not words and re.match(rf"{_NAME}\[", literal(bare)):
                    raise _Doubt("which variable is set is not understood")
                else:
                    splitting.update({len(words)} if word.splits else ())
                    words.append(word.value)
            end = self.at
            self._skip_blanks()
        if words or assigned:
            raw = self.text[begin:end]
            self.parts.append(SimpleCommand(tuple(words), raw, tuple(assigned), frozenset(splitting)))

    def _read_loop(self) -> None:
        """`for NAME in WORDS`, up to the end of its line."""
        self._skip_blanks()
        name = self._read_word().unquoted if self._peek() not in ("", *_META) else ""
        if not is_plain_name(name):
            raise _Doubt("its loop is not understood")
        self.parts.append(SimpleCommand((), f"{name}=", (name,)))
        self._skip_blanks()
        if self._peek() not in ("\n", ";", "", *_META) and self._read_word().unquoted != "in":
            raise _Doubt("its loop is not understood")
        self._skip_blanks()
        while self._peek() not in ("", "\n", ";"):
            if self._peek() in _META:
                raise _Doubt("its loop is not understood")
            self._read_word()
            self._skip_blanks()

    def _read_redirect(self) -> bool:
        """A redirection, if one stands here."""
        digits = re.compile(r"\d*").match(self.text, self.at)
        assert digits
        operator = _REDIRECT.match(self.text, digits.end())
        if operator is None or (operator[0] in "<>" and self.text.startswith("(", operator.end())):
            return False
        if digits[0] and operator[0].startswith("&"):
            return False
        self.at = operator.end()
        if operator[0] in ("<<", "<<-"):
            self._skip_blanks()
            delimiter = _DELIMITER.match(self.text, self.at)
            if delimiter is None:
                raise _Doubt("a here-document is not understood")
            self.at = delimiter.end()
            self._documents.append((delimiter["word"], bool(delimiter["quote"]), operator[0] == "<<-"))
            return True
        self._skip_blanks()
        if self._peek() in ("", *(_META - {"<", ">"})):
            raise _Doubt("a redirection is not understood")
        word = self._read_word()
        if operator[0] == "<<<" or (operator[0] in (">&", "<&") and re.fullmatch(r"\d+-?|-", word.unquoted)):
            return True
        if literal(word.value).startswith(("/dev/tcp/", "/dev/udp/")):
            raise _Doubt("a redirection opens a network connection")
        (self.reads if operator[0] in ("<", "<&") else self.writes).append(word.value)
        return True

    def _end_line(self) -> None:
        """The end of a line: the texts of here-documents follow it."""
        self.at += 1
        for word, quoted, tabs in self._documents:
            while True:
                if self.at >= len(self.text):
                    raise _Doubt("a here-document is not closed")
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line, self.at = self.text[self.at : end], end + 1
                if (line.lstrip("\t") if tabs else line) == word:
                    break
                if not quoted and re.search(r"[`\\]|\$[({\['\"]", line):
                    raise _Doubt("a here-document has something in it that is replaced")
        self.at = min(self.at, len(self.text))
        self._documents.clear()

    # -- words -----------------------------------------------------------------------------------------------

    def _read_word(self) -> _Word:
        word, begin = _Word(), self.at
        while (character := self._peek()) != "":
            if character in "<>" and self.text.startswith("(", self.at + 1):
                self.at += 2
                self.read_list(")")
                word.add(UNKNOWN)
                continue
            if character in _META:
                break
            self.at += 1
            match character:
                case "\\":
                    if self._peek() == "":
                        raise _Doubt("it ends with a backslash")
                    escaped = self._next()
                    if escaped != "\n":
                        word.add(escaped)
                case "'":
                    word.add(self._until("'"))
                case '"':
                    self._read_quoted(word)
                case "`":
                    self._read_backquoted()
                    word.add(UNKNOWN)
                    word.splits = True
                case "$":
                    word.splits = self._read_dollar(word, quoted=False) or word.splits
                case "*" | "?":
                    word.add(GLOB_MARKS[character], bare=True)
                    word.splits = self.foreign = True
                case "[":
                    word.add(GLOB_MARKS["["], bare=True)
                case _:
                    word.add(character, bare=True)
        if self.at == begin:
            raise _Doubt("its syntax is not understood")
        word.splits = word.splits or (GLOB_MARKS["["] in word.pieces and len(word.pieces) > 1)
        if word.expands:
            word.splits = self.braces = True
        return word

    def _read_quoted(self, word: _Word) -> None:
        word.add("")
        while (character := self._next()) != '"':
            if character == "\\" and self._peek() in ("$", "`", '"', "\\", "\n"):
                escaped = self._next()
                word.add(escaped if escaped != "\n" else "")
            elif character == "`":
                self._read_backquoted()
                word.add(UNKNOWN)
            elif character == "$":
                self._read_dollar(word, quoted=True)
            else:
                word.add(character)

    def _read_dollar(self, word: _Word, *, quoted: bool) -> bool:
        """What stands behind a dollar sign; whether the shell may split what comes of it."""
        start = self.at - 1
        calculation = _CALCULATION.match(self.text, start)
        if found := calculation or _VARIABLE.match(self.text, start):
            self.at = found.end()
            self.calculates = self.calculates or calculation is not None
            word.add(UNKNOWN)
            return True
        following = self._peek()
        if following == "(" and not self.text.startswith("((", self.at):
            self.at += 1
            self.read_list(")")
            word.add(UNKNOWN)
            return True
        if following in ("(", "{", "[") or (following in ("'", '"') and not quoted):
            raise _Doubt("it expands something in a way that is not understood")
        word.add("$")
        return False

    def _read_backquoted(self) -> None:
        inner = _Reader(self._until("`"))
        if "\\" in inner.text:
            raise _Doubt("it has backslashes inside backquotes")
        inner.parts, inner.writes, inner.reads = self.parts, self.writes, self.reads
        inner.read_list("")
        self.foreign = True
        self.braces, self.calculates = self.braces or inner.braces, self.calculates or inner.calculates

    # -- characters ------------------------------------------------------------------------------------------

    def _skip_blanks(self) -> None:
        """Blanks, joined lines, and a comment where one can stand."""
        while True:
            if self._peek() in (" ", "\t"):
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self._peek() == "#" and (self.at == 0 or self.text[self.at - 1] in _META):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _next(self) -> str:
        character = self._peek()
        if character == "":
            raise _Doubt("a quote in it is not closed")
        self.at += 1
        return character

    def _until(self, closing: str) -> str:
        end = self.text.find(closing, self.at)
        if end < 0:
            raise _Doubt("a quote in it is not closed")
        text, self.at = self.text[self.at : end], end + 1
        return text


def _guess_parts(text: str) -> list[SimpleCommand]:
    """Pieces of a command that could not be read, which may be commands of it."""
    found = []
    for piece in _SEPARATORS.split(_QUOTES.sub("", text)):
        words = piece.split()
        while words and words[0] in _SKIPPED:
            del words[0]
        if words:
            found.append(SimpleCommand(tuple(words), " ".join(words)))
    return found
