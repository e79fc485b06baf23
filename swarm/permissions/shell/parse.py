"""Takes a shell command apart into its simple commands and redirections, with Bash's real grammar.

Guarantee: whatever cannot be understood with certainty is said (`ShellCommand.opaque`), never guessed. The
grammar's few known differences from Bash (joined lines, nested backquotes) count as not understood.

A word is given as the value that Bash would hand to the program: `r\\m`, `"rm"` and `$'rm'` are all `rm`. What
only a running shell knows is one `UNKNOWN` character; a pattern for file names keeps its own marks.
"""

from __future__ import annotations

import functools
import re
import threading
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from swarm.permissions.shell.evaluation import Evaluation
from swarm.permissions.shell.variables import is_harmless
from swarm.permissions.shell.words import UNKNOWN, hides_substitution, may_split, word_value

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_COMMAND = 10_000
"""Characters beyond which a command is not analysed."""

_PRIVATE = re.compile(r"[\ue000-\uf8ff]")
_ODD_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]|[^\S \t\n]")
_JOINED_LINE = re.compile(r"(?:\S|\\[ \t])\\\n\S")
_WORD_METACHARACTERS = frozenset(";|&<>()` \t\n")
_FILE_DESCRIPTOR = re.compile(r"[0-9]+-?|-")

_WORDS = frozenset(
    (
        *("word", "number", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation"),
        *("simple_expansion", "expansion", "command_substitution", "process_substitution"),
        *("arithmetic_expansion", "brace_expression", "variable_name", "special_variable_name", "regex"),
    )
)
_HARMLESS = frozenset(
    (
        *("program", "list", "pipeline", "subshell", "compound_statement", "if_statement", "elif_clause"),
        *("else_clause", "while_statement", "for_statement", "c_style_for_statement", "case_statement", "case_item"),
        *("do_group", "negated_command", "redirected_statement", "command_name", "variable_assignments", "array"),
        *("comment", "heredoc_start", "heredoc_body", "heredoc_content", "heredoc_end", "heredoc_redirect"),
        *("herestring_redirect", "file_descriptor", "string_content", "subscript", "extglob_pattern"),
        *("binary_expression", "unary_expression", "postfix_expression", "ternary_expression"),
        *("parenthesized_expression", "test_operator", "test_command"),
    )
)
"""Parts of the grammar that run nothing by themselves; their children are looked at."""
_QUOTED = frozenset({"string", "heredoc_body", "heredoc_redirect"})
"""Parts whose text is not all in their children."""
_EXPANSIONS = frozenset({"expansion", "simple_expansion", "subscript", "translated_string"})
_DELIMITER = re.compile(r"(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)")
_HERE_DOCUMENT = re.compile(rb"(?<!<)<<(?!<)")
_GAP = re.compile(rb"(?:[ \t\n]|\\\n)*")
_UNBROKEN = frozenset({"concatenation", "variable_assignment", "simple_expansion", "translated_string"})
"""Parts without a blank in them, except inside their children."""
_ONE_LINE = frozenset(
    ("command", "redirected_statement", "declaration_command", "unset_command", "file_redirect", "negated_command")
) | {"variable_assignments", "herestring_redirect"}
"""Parts that an end of line ends, unless a backslash stands before it."""
_LINE_GAP = re.compile(rb"(?:[ \t]|\\\n)*")
_REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_BEFORE_WORD = _WORDS | _REDIRECTS | {"command_name", "variable_assignment"}
_AT_WORD = _WORDS | {"command_name", "command", "variable_assignment"}
_RESERVED = frozenset(
    (
        *("!", "{", "}", "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac"),
        *("in", "function", "select", "[[", "]]"),
    )
)
"""Words that are never the name of a program unless quoted."""


@dataclass(frozen=True)
class SimpleCommand:
    """One program with its words; `assigned` are the names of variables set in front of it, or by it."""

    words: tuple[str, ...]
    raw: str
    assigned: tuple[str, ...] = ()
    splitting: frozenset[int] = frozenset()
    """Places of the words that the shell may turn into several, or into none."""

    @property
    def is_dynamic(self) -> bool:
        """Whether only the running shell knows which program it is."""
        return bool(self.words) and _PRIVATE.search(self.words[0]) is not None

    @property
    def settled_words(self) -> tuple[str, ...]:
        """The words with those that may become several wholly unknown: any of these may be an option."""
        return tuple(
            UNKNOWN if index in self.splitting and UNKNOWN in word else word for index, word in enumerate(self.words)
        )


@dataclass(frozen=True)
class ShellCommand:
    """A whole command line, taken apart."""

    text: str
    parts: tuple[SimpleCommand, ...] = ()
    writes: tuple[str, ...] = ()
    """Files that output is redirected to."""
    reads: tuple[str, ...] = ()
    opaque: str | None = None
    """Why it is not understood as a whole, in words for a person; the parts that were found are there all the same."""
    broken: bool = False
    """Not even taken apart: `parts` may lack commands."""


@functools.lru_cache(maxsize=512)
def parse_command(text: str) -> ShellCommand:
    """Take a command line apart; never raises."""
    if len(text) > MAX_COMMAND:
        return ShellCommand(text, opaque=f"it is longer than {MAX_COMMAND} characters", broken=True)
    if _PRIVATE.search(text) or _ODD_CHARACTERS.search(text):
        return ShellCommand(text, opaque="it contains control characters or unusual blanks", broken=True)
    if _JOINED_LINE.search(text):
        return ShellCommand(text, opaque="a backslash joins two lines inside a word", broken=True)
    source = text.encode()
    root = _parser().parse(source).root_node
    if root.has_error:
        return ShellCommand(text, opaque="its syntax is not understood", broken=True)
    walk = _Walk(source, Evaluation(source))
    walk.visit(root)
    return ShellCommand(
        text=text, parts=tuple(walk.parts), writes=tuple(walk.writes), reads=tuple(walk.reads), opaque=walk.opaque
    )


_local = threading.local()


def _parser() -> Parser:
    parser: Parser | None = getattr(_local, "parser", None)
    if parser is None:
        import tree_sitter_bash
        from tree_sitter import Language, Parser

        parser = _local.parser = Parser(Language(tree_sitter_bash.language()))
    return parser


@dataclass
class _Walk:
    """Collects from the tree, without recursion: a command may be nested thousands deep."""

    source: bytes
    evaluation: Evaluation
    parts: list[SimpleCommand] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    opaque: str | None = None

    def give_up(self, reason: str) -> None:
        self.opaque = self.opaque or reason

    def visit(self, root: Node) -> None:
        pending = [root]
        while pending:
            node = pending.pop()
            self._take(node)
            pending.extend(reversed(node.children))
        for name in dict.fromkeys(self.evaluation.assigned):
            if not is_harmless(name):
                self.parts.append(SimpleCommand((), f"{name}=", (name,)))
        if self.evaluation.reason:
            self.give_up(self.evaluation.reason)

    def _take(self, node: Node) -> None:
        if not node.is_named:
            return
        kind = node.type
        self.evaluation.inspect(node)
        if kind == "command":
            self._take_command(node)
        elif kind == "declaration_command":
            self._take_declaration(node)
        elif kind == "unset_command":
            self.parts.append(SimpleCommand(("unset", *map(self._value, node.named_children)), self._text(node)))
        elif kind == "variable_assignment":
            if node.parent is not None and node.parent.type not in ("command", "declaration_command"):
                self.parts.append(SimpleCommand((), self._text(node), (self._assigned(node),)))
        elif kind == "file_redirect":
            self._take_redirect(node)
        elif kind == "function_definition":
            self.give_up("it defines a function")
        elif kind == "command_substitution":
            if self._text(node).startswith("`") and "\\" in self._text(node):
                self.give_up("it has backslashes inside backquotes")
        elif kind == "heredoc_redirect":
            self._check_here_document(node)
        elif kind == "translated_string":
            self.give_up("it has a text that is translated before it is read")
        elif kind not in _HARMLESS and kind not in _WORDS:
            self.give_up(f"it uses a construct that is not known ({kind})")
        if hides_substitution(node):
            self.give_up("it has a substitution in a place that is not understood")
        if kind == "word":
            self._check_word(self._text(node))
        else:
            self._check_gaps(node)

    def _check_here_document(self, node: Node) -> None:
        """The grammar misses backquotes in such a text, and now and then its end."""
        pieces = {child.type: child for child in node.named_children}
        start, body, end = (pieces.get(f"heredoc_{name}") for name in ("start", "body", "end"))
        if start is None or end is None or len(_HERE_DOCUMENT.findall(self.source)) > 1:
            self.give_up("its here-documents are not understood")
            return
        delimiter = _DELIMITER.fullmatch(self._text(start))
        content = "" if body is None else self._text(body)
        closing = f"{self._text(end)}{self.source[end.end_byte : end.end_byte + 1].decode(errors='replace')}"
        word = delimiter["word"] if delimiter else ""
        early = any(line.lstrip("\t") == word for line in content.split("\n"))
        if not delimiter or early or closing.rstrip("\n") != word or (not delimiter["quote"] and "`" in content):
            self.give_up("a here-document is not understood")

    def _take_command(self, node: Node) -> None:
        words: list[str] = []
        nodes: list[Node] = []
        splitting: set[int] = set()
        assigned: list[str] = []
        last: Node | None = None
        for child in [*node.children, *self._words_behind_redirects(node)]:
            follows = last is not None and last.end_byte == child.start_byte and last.type in _BEFORE_WORD
            if child.type == "variable_assignment":
                assigned.append(self._assigned(child))
            elif child.type == "command_name":
                if self._text(child) in _RESERVED:
                    self.give_up("its syntax is not understood")
                words.append(self._value(child.named_children[0]) if child.named_children else UNKNOWN)
                nodes.append(child)
            elif child.type not in _REDIRECTS and child.type != "comment":
                if not child.is_named:  # a word such as `==`, behind which the grammar reads on as in a test
                    self.give_up("its words are not understood")
                if follows and last is not None and last.type in (*_WORDS, "command_name"):
                    # One word, which the grammar takes for two; braces may span both.
                    braces = b"{" in self.source[last.start_byte : child.end_byte]
                    words[-1] = UNKNOWN if braces else words[-1] + self._value(child)
                    splitting.update({len(words) - 1} if braces else ())
                    follows = False
                else:
                    words.append(self._value(child))
                    nodes.append(child)
                if may_split(child):
                    splitting.add(len(words) - 1)
                    nodes[-1] = child
            if follows and child.type in _AT_WORD:
                self.give_up("its words are not understood")
            last = child
        if words and words[0] == UNKNOWN and len(words) == 1 and self._text(node).startswith(("$(", "`")):
            self.give_up("it runs what another command prints")
        self.evaluation.inspect_command([*zip(nodes, words, strict=True)])
        self.parts.append(SimpleCommand(tuple(words), self._text(node), tuple(assigned), frozenset(splitting)))

    def _words_behind_redirects(self, node: Node) -> list[Node]:
        """Words of the command that the grammar has given to a redirection: `git > /dev/null push`."""
        statement = node.parent
        if statement is None or statement.type != "redirected_statement" or statement.named_children[0] != node:
            return []
        return [word for child in statement.named_children for word in _surplus_words(child)]

    def _check_gaps(self, node: Node) -> None:
        """Everything must belong to a part, and what belongs to two must have something in between."""
        if node.type in _QUOTED:
            return
        for one, other in pairwise(node.children):
            gap = self.source[one.end_byte : other.start_byte]
            blank = _LINE_GAP if node.type in _ONE_LINE else _GAP
            if gap and (node.type in _UNBROKEN or not blank.fullmatch(gap)):
                self.give_up("its words are not understood")
            glued = not gap and one.type in _BEFORE_WORD and other.type in _AT_WORD
            if glued and node.type not in ("concatenation", "command", *_EXPANSIONS):
                self.give_up("its words are not understood")
        surplus = node.type == "redirected_statement" and any(map(_surplus_words, node.named_children))
        if surplus and node.named_children[0].type != "command":
            self.give_up("words behind a redirection are not understood")

    def _take_declaration(self, node: Node) -> None:
        words = [self._text(node.children[0])]
        assigned = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                assigned.append(self._assigned(child))
                words.append(f"{assigned[-1]}={UNKNOWN}")
            else:
                words.append(self._value(child))
        self.parts.append(SimpleCommand(tuple(words), self._text(node), tuple(assigned)))

    def _take_redirect(self, node: Node) -> None:
        operator = next((child.type for child in node.children if not child.is_named), "")
        targets = [child for child in node.named_children if child.type != "file_descriptor"]
        if not targets:
            if not operator.endswith("&-"):
                self.give_up("a redirection is not understood")
            return
        target = self._value(targets[0])
        if operator in (">&", "<&") and _FILE_DESCRIPTOR.fullmatch(target):
            return
        if target.startswith(("/dev/tcp/", "/dev/udp/")):
            self.give_up("a redirection opens a network connection")
        (self.reads if operator in ("<", "<&") else self.writes).append(target)

    def _assigned(self, node: Node) -> str:
        name = self._text(node.named_children[0]) if node.named_children else UNKNOWN
        return name.partition("[")[0]

    def _check_word(self, raw: str) -> None:
        if _WORD_METACHARACTERS.intersection(re.sub(r"\\.", "", raw, flags=re.DOTALL)):
            self.give_up("its words are not understood")

    def _value(self, node: Node) -> str:
        return word_value(node, self.source)

    def _text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode()


def _surplus_words(redirect: Node) -> list[Node]:
    """The words of a redirection that are none of its own."""
    if redirect.type not in _REDIRECTS:
        return []
    words = [child for child in redirect.named_children if child.type in _WORDS]
    return words if redirect.type == "heredoc_redirect" else words[1:]
