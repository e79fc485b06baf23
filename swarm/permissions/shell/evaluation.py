"""What Bash evaluates a second time: arithmetic, indexes, and names of variables that builtins are given.

There data turns into code. `a[$(touch x)]` runs a command wherever Bash calculates with it or looks a variable up by it,
whether it stands in the line, in a variable, in a file or in the name of one. So in such a place only numbers are
understood, and variables that the line is seen to give nothing but numbers; what else stands there is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from swarm.permissions.shell.variables import is_calculated, is_plain_name
from swarm.permissions.shell.words import GLOB_MARKS, UNKNOWN, literal, may_split, word_value

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPRESSIONS = frozenset(
    (
        *("binary_expression", "unary_expression", "postfix_expression", "ternary_expression"),
        *("parenthesized_expression", "arithmetic_expansion"),
    )
)
_CHANGES = re.compile(r"[-+*/%&^|]?=|<<=|>>=|\+\+|--")
_OPERATOR = re.compile(r"[-+*/%<>=!&|^~?:,;]+|\(\(?|\)\)?|\$\(\(|\$\[|\]")
_NUMBER = re.compile(r"-?(\d+|0[xX][0-9a-fA-F]+)")
_COUNT = re.compile(r"wc( -[clmw]+)+|nproc|date \+%s|id -u|seq( \d+)+")
"""Programs that print nothing but numbers."""
_PLAIN_EXPANSIONS = frozenset(
    (":-", "-", ":+", "+", ":?", "?", "#", "##", "%", "%%", "/", "//", "/#", "/%", "^", "^^", ",", ",,", ":=", "=")
)
_COMPARISONS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_NAMING = frozenset(("-v", "-R"))
"""Operators of a test whose operand is looked up as a variable."""
_IN_FRONT = frozenset(("command", "builtin", "time", "!", "-p", "--", "noglob", "coproc"))
"""Words in front of a builtin that leave it one."""
_NEVER = frozenset(
    (
        *("let", "declare", "typeset", "local", "export", "readonly", "unset", "getopts", "compgen", "complete", "["),
        *("alias", "enable", "fc", "bind", "jobs"),
    )
)
"""Builtins that evaluate their words or change what words mean, where the grammar takes them for programs."""
_READ_OPTION = re.compile(r"-[rs]*([nNtu]\d+(\.\d+)?)?")
_DECLARING_OPTION = re.compile(r"[-+][xrgpaAlu]+")
_EVALUATES = "it may run a command inside an index or a calculation"

Word = tuple["Node", str]


class Evaluation:
    """Looks at each part of a command for what is evaluated; `reason` is set once the whole was seen."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._reason: str | None = None
        self._calculated: set[str] = set()
        self._numbers: dict[str, bool] = {}
        self._lists = self._values = False
        self.assigned: list[str] = []
        """Variables that are set other than by an assignment."""

    @property
    def reason(self) -> str | None:
        """Why data may be run, or nothing if it cannot."""
        if self._reason is None and not all(self._numbers.get(name, False) for name in self._calculated):
            return _EVALUATES
        return _EVALUATES if self._reason is None and self._lists and self._values else self._reason

    def inspect(self, node: Node) -> None:
        """Look at one named part; its children are looked at by themselves."""
        match node.type:
            case "arithmetic_expansion":
                self._calculate([node])
            case "compound_statement" | "c_style_for_statement":
                self._calculate(_header(node))
            case "subscript":
                index = node.children[2:-1]
                if [child.type for child in index] != ["word"] or self._text(index[0]) not in ("@", "*"):
                    self._calculate(index)
            case "expansion":
                self._expand(node)
            case "array":
                self._lists = True
                for child in node.named_children:
                    if self._text(child).startswith("[") and not re.match(r"\[\d+\]", self._text(child)):
                        self._give_up()
            case "variable_assignment":
                self._assign(node.children[0], node.named_children[1:])
            case "for_statement":
                names = [child for child in node.named_children if child.type == "variable_name"]
                values = [child for child in node.named_children if child.type not in ("variable_name", "do_group")]
                self._assign(names[0], values)
                self.assigned.append(self._text(names[0]))
            case "test_command":
                self._test(self._flatten(node), splits=node.children[0].type == "[")
            case "declaration_command":
                self._declare(node)
            case "unset_command":
                if not all(re.fullmatch(r"-[fv]|\w+", self._text(child)) for child in node.named_children):
                    self._give_up()
            case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                if self._source[: node.start_byte].endswith(b"}"):
                    self._give_up("a redirection sets a variable")

    def inspect_command(self, words: Sequence[Word]) -> None:
        """Look at the words of a simple command: builtins evaluate some of theirs."""
        start = next((index for index, (_, value) in enumerate(words) if value not in _IN_FRONT), len(words))
        if start == len(words):
            return
        name, rest = words[start][1], words[start + 1 :]
        values = [value for _, value in rest]
        if name in _NEVER:
            self._give_up(f"{name} may evaluate its words")
        elif name == "test":
            self._test(rest, splits=True)
        elif name == "printf":
            if rest and (_may_be_option(rest[0], "-v") or may_split(rest[0][0])):
                self._give_up("printf may set a variable")
        elif name == "read":
            self._read(rest)
        elif name in ("mapfile", "readarray"):
            names = [value for value in values if value != "-t"]
            if len(names) != 1 or not is_plain_name(names[0]):
                self._give_up("which variable is set is not understood")
            self._mark(names, False)
            self.assigned.extend(names)
        elif name in ("wait", "hash"):
            if not all(re.fullmatch(r"-[rnf]|%?\w+", value) or _is_number_expansion(node) for node, value in rest):
                self._give_up(f"the words of {name} are not understood")
        elif name in ("source", ".") and (not rest or UNKNOWN in values[0] or values[0].startswith("/dev/")):
            self._give_up("it runs commands that are known only when it runs")

    def _give_up(self, reason: str = _EVALUATES) -> None:
        self._reason = self._reason or reason

    def _mark(self, names: Iterable[str], number: bool) -> None:
        for name in names:
            self._numbers[name] = self._numbers.get(name, True) and number

    def _assign(self, target: Node, values: Sequence[Node]) -> None:
        name = self._text(target).partition("[")[0]
        number = all(map(self._is_number, values))
        self._mark([name], number)
        if is_calculated(name) and not number:
            self._give_up()

    def _is_number(self, node: Node) -> bool:
        if node.type == "brace_expression" or _is_number_expansion(node):
            return all(child.type == "number" for child in node.named_children if node.type == "brace_expression")
        if node.type == "command_substitution":
            return self._counts(node)
        return node.type == "arithmetic_expansion" or _NUMBER.fullmatch(self._text(node)) is not None

    def _counts(self, node: Node) -> bool:
        """Whether a substitution's output is numbers."""
        inner = node.named_children[0] if len(node.named_children) == 1 else node
        if inner.type == "pipeline":
            inner = inner.named_children[-1]
        elif inner.type == "redirected_statement":
            redirect = inner.named_children[-1]
            if len(inner.named_children) != 2 or redirect.type != "file_redirect" or redirect.children[0].type != "<":
                return False
            inner = inner.named_children[0]
        return inner.type == "command" and _COUNT.fullmatch(self._text(inner)) is not None

    def _calculate(self, nodes: Iterable[Node]) -> None:
        """Arithmetic: numbers, operators, and variables that are numbers."""
        pending = list(nodes)
        while pending:
            node = pending.pop()
            text = self._text(node)
            if node.type in _EXPRESSIONS:
                if any(not child.is_named and _CHANGES.fullmatch(child.type) for child in node.children):
                    self._change(node)
                pending.extend(node.children)
            elif node.type == "variable_assignment":
                self._change(node)
                pending.extend(node.children)
            elif node.type in ("variable_name", "word", "number") and re.fullmatch(r"\w+|-\d+", text, re.ASCII):
                if is_plain_name(text):
                    self._calculated.add(text)
            elif node.type == "simple_expansion" or (node.type == "expansion" and len(node.children) == 3):
                self._use(node)
            elif node.type == "expansion" and _is_number_expansion(node):
                continue
            elif node.type == "string" and all(child.type == "simple_expansion" for child in node.named_children):
                pending.extend(node.named_children)
            elif node.type == "command_substitution" and self._counts(node):
                continue
            elif node.type == "subscript":
                self._calculated.add(self._text(node.children[0]))
            elif node.is_named or not _OPERATOR.fullmatch(node.type):
                self._give_up()

    def _use(self, node: Node) -> None:
        """A variable whose value must be a number."""
        if _is_number_expansion(node):
            return
        name = self._text(node.named_children[0]) if node.named_children else ""
        if is_plain_name(name):
            self._calculated.add(name)
        else:
            self._give_up()

    def _change(self, node: Node) -> None:
        names = [self._text(child) for child in node.named_children if child.type in ("variable_name", "word")]
        changed = [name for name in names if is_plain_name(name)]
        self._mark(changed, True)
        self.assigned.extend(changed)

    def _expand(self, node: Node) -> None:
        inner = node.children[1:-1]
        if inner and inner[0].type == "#":
            plain = [child.type for child in inner[1:]] in (
                ["variable_name"],
                ["subscript"],
                ["special_variable_name"],
                [],
            )
        elif inner and inner[0].type in ("variable_name", "special_variable_name", "subscript"):
            operator = inner[1].type if len(inner) > 1 else "-"
            plain = operator in _PLAIN_EXPANSIONS
            if operator in ("=", ":="):
                name = self._text(inner[0]).partition("[")[0]
                self._mark([name], False)
                self.assigned.append(name)
                plain = not is_calculated(name)
            elif operator == ":":
                self._calculate(inner[2:])
                plain = True
        else:
            plain = False
        if not plain:
            self._give_up("it expands a variable in a way that is not understood")

    def _declare(self, node: Node) -> None:
        for child in node.named_children:
            value = word_value(child, self._source) if child.type != "variable_assignment" else ""
            if value.startswith(("-", "+")):
                if not _DECLARING_OPTION.fullmatch(value):
                    self._give_up("it gives a variable another meaning")
                self._lists = self._lists or not {"a", "A"}.isdisjoint(value)
            elif child.type == "variable_assignment":
                self._values = self._values or any(
                    part.type not in ("number", "word", "array") for part in child.named_children[1:]
                )
            elif not re.match(r"[A-Za-z_]\w*(\+?=|$)", value, re.ASCII):
                self._give_up("which variable is set is not understood")
            else:
                self._values = self._values or "=" in value
                self._mark([value.partition("=")[0].rstrip("+")], False)
                self.assigned.append(value.partition("=")[0].rstrip("+"))

    def _read(self, rest: Sequence[Word]) -> None:
        names: list[str] = []
        index = 0
        while index < len(rest):
            value = rest[index][1]
            if value in ("-p", "-d", "-rd", "-rp", "-n", "-t", "-u") and index + 1 < len(rest):
                index += 1
                if may_split(rest[index][0]):
                    self._give_up("which variable is set is not understood")
            elif is_plain_name(value) and not is_calculated(value):
                names.append(value)
            elif value not in ("-a", "-ra") and not _READ_OPTION.fullmatch(value):
                self._give_up("which variable is set is not understood")
            index += 1
        self._mark(names, False)
        self.assigned.extend(names)

    def _flatten(self, node: Node) -> list[Word]:
        """The words of a test in their order."""
        words: list[Word] = []
        pending = [*reversed(node.children[1:-1])]
        while pending:
            child = pending.pop()
            if child.type in _EXPRESSIONS and child.type != "arithmetic_expansion":
                pending.extend(reversed(child.children))
            elif child.is_named:
                words.append(
                    (child, word_value(child, self._source) if child.type != "test_operator" else self._text(child))
                )
            else:
                words.append((child, self._text(child)))
        return words

    def _test(self, words: Sequence[Word], *, splits: bool) -> None:
        for index, (node, value) in enumerate(words):
            following = words[index + 1][1] if index + 1 < len(words) else ""
            naming = value in _NAMING or (splits and any(_may_be_option(words[index], option) for option in _NAMING))
            # A plain word that follows names no more than a variable.
            if naming and (UNKNOWN in following or "[" in literal(following)):
                self._give_up()
            if splits and may_split(node):
                if not self._is_number(node):
                    self._calculate([node])
            elif not splits and value in _COMPARISONS:
                self._calculate(
                    operand for operand, _ in (*words[max(index - 1, 0) : index], *words[index + 1 : index + 2])
                )

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode()


def _header(node: Node) -> list[Node]:
    """What stands between double parentheses that open a statement."""
    kinds = [child.type for child in node.children]
    return node.children[kinds.index("((") + 1 : kinds.index("))")] if "((" in kinds and "))" in kinds else []


def _is_number_expansion(node: Node) -> bool:
    """Whether it is `$#`, `$?`, `$$`, `$!` or the length of something."""
    kinds = [child.type for child in node.children]
    if node.type == "expansion":
        return kinds[1:2] == ["#"] and len(kinds) == 4
    special = node.type == "simple_expansion" and kinds[-1:] == ["special_variable_name"]
    return special and node.text in (b"$#", b"$?", b"$$", b"$!")


def _may_be_option(word: Word, option: str) -> bool:
    value = word[1]
    return value.startswith((option, UNKNOWN, *GLOB_MARKS.values())) or (value.startswith("-") and UNKNOWN in value)
