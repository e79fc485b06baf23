"""The value of one word of a shell command: what Bash would hand to the program, quotes and backslashes gone.

What only a running shell knows is one `UNKNOWN` character; a pattern for file names keeps its own marks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

UNKNOWN = "\ue000"
"""Any text at all, several words included: a variable, a substitution, a brace expansion."""
GLOB_MARKS = {"*": "\ue003", "?": "\ue004", "[": "\ue005"}
"""Unquoted characters that the shell replaces by file names."""
_LITERAL_GLOBS = str.maketrans({mark: character for character, mark in GLOB_MARKS.items()})
_BRACES = re.compile(r"\{.*(,|\.\.).*\}", re.DOTALL)

_HIDDEN_CODE = re.compile(r"`|\$[({\['\"]")
_HIDDEN_VARIABLE = re.compile(r"\$[\w@*#?!$-]")
_LEAVES = frozenset({"word", "regex", "extglob_pattern", "string_content", "heredoc_content", "variable_name"})
"""Parts in which the grammar leaves nothing that Bash would replace; it forgets so inside `${x#…}`."""
_BARE = frozenset(("word", "number", "brace_expression", "{", "}", ","))
_SPLITTING = frozenset(("simple_expansion", "expansion", "command_substitution", "brace_expression"))


def literal(word: str) -> str:
    """The word with the marks of file patterns as the characters that they were."""
    return word.translate(_LITERAL_GLOBS)


def may_split(node: Node) -> bool:
    """Whether the shell may make several words of it, or none: something to replace stands outside of quotes."""
    if node.type == "concatenation":
        return _has_braces(node) or any(map(may_split, node.children))
    if node.type in ("word", "extglob_pattern"):
        return re.search(r"[*?\[{(]", re.sub(r"\\.", "", (node.text or b"").decode())) is not None
    return node.type in _SPLITTING


def hides_substitution(node: Node) -> bool:
    """Whether the text of a leaf holds something to replace, which the grammar has not seen."""
    quoted = node.type in ("raw_string", "ansi_c_string")
    if (
        (quoted and not _is_expanded(node))
        or (not quoted and node.type not in _LEAVES)
        or _is_quoted_document(node.parent)
    ):
        return False
    bare = re.sub(r"\\.", "", (node.text or b"").decode(), flags=re.DOTALL)
    return bool(_HIDDEN_CODE.search(bare) or (node.type != "regex" and _HIDDEN_VARIABLE.search(bare)))


def _is_expanded(node: Node) -> bool:
    """Whether a quoted text stands inside `${…}`, where quotes need not mean what they do elsewhere."""
    parent = node.parent
    while parent is not None and parent.type in ("concatenation", "string", "array"):
        parent = parent.parent
    return parent is not None and parent.type == "expansion"


def _is_quoted_document(body: Node | None) -> bool:
    if body is None or body.type != "heredoc_body":
        return False
    start = body.prev_named_sibling
    while start is not None and start.type != "heredoc_start":
        start = start.prev_named_sibling
    return start is not None and (start.text or b"").startswith((b"'", b'"'))


def word_value(node: Node, source: bytes) -> str:
    """The word as the program would get it."""
    raw = source[node.start_byte : node.end_byte].decode()
    if node.type == "concatenation":
        if _has_braces(node):
            return UNKNOWN
        return "".join(word_value(child, source) for child in node.children)
    return _single_value(node, raw, source)


def _has_braces(node: Node) -> bool:
    """Whether a word of several pieces holds a brace expansion; what is quoted or substituted is no part of one."""
    pieces = ((child.text or b"").decode() if child.type in _BARE else "x" for child in node.children)
    return _BRACES.search(re.sub(r"\\.", "", "".join(pieces))) is not None


def _single_value(node: Node, raw: str, source: bytes) -> str:
    match node.type:
        case "word" | "number" | "variable_name" | "extglob_pattern" | "regex":
            return UNKNOWN if _BRACES.search(re.sub(r"\\.", "", raw)) else _unescape_word(raw)
        case "raw_string":
            return raw[1:-1]
        case "ansi_c_string":
            return _unescape_ansi(raw[2:-1])
        case "string":
            return _string_value(node, source)
        case "translated_string":
            return _string_value(node.named_children[0], source) if node.named_children else UNKNOWN
        case _:
            return UNKNOWN


def _string_value(node: Node, source: bytes) -> str:
    pieces = []
    position = node.start_byte + 1
    for child in node.named_children:
        if child.type in ("string_content",):
            continue
        pieces.append(_unescape_string(source[position : child.start_byte].decode()))
        pieces.append(UNKNOWN)
        position = child.end_byte
    pieces.append(_unescape_string(source[position : node.end_byte - 1].decode()))
    return "".join(pieces)


def _unescape_word(raw: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[0].startswith("\\"):
            return match[0][1:].replace("\n", "")
        return GLOB_MARKS[match[0]]

    return re.sub(r"\\.|[*?\[]", replace, raw, flags=re.DOTALL)


def _unescape_string(raw: str) -> str:
    return re.sub(r"\\([$`\"\\\n])", lambda match: match[1].replace("\n", ""), raw)


_ANSI = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    **{character: character for character in "\\'\"?"},
}
_ANSI_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)


def _unescape_ansi(raw: str) -> str:
    """The value of `$'…'`; a piece that may end the string early (NUL) or be no character is unknown."""

    def replace(match: re.Match[str]) -> str:
        hexadecimal, short, long, octal, control, other = match.groups()
        if control is not None:
            return UNKNOWN
        if other == "c":
            return UNKNOWN
        if other is not None:
            return _ANSI.get(other, match[0])
        number = int(octal, 8) & 0xFF if octal else int(hexadecimal or short or long, 16)
        # Bytes above 127 make up a character only together with their neighbours.
        plain = 0 < number < 0x80 if (octal or hexadecimal) else 0 < number < 0xD800
        return chr(number) if plain else UNKNOWN

    return _ANSI_ESCAPE.sub(replace, raw)
