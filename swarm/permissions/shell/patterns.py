"""Compiles the patterns of shell rules (`git log:*`, `npm run *`) and matches them with a command's words.

There are two questions, because a command can have words that only a running shell knows: does the pattern
match for certain (required to allow), and could it match (enough to ask).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from swarm.permissions.shell.words import UNKNOWN, literal

_BLANK = "\ue001"
"""A blank inside a word: `git "log x"` is not `git log x`."""
_EMPTY = "\ue002"
"""An empty word."""
_STAR = "\ue006"
_BLANKS = str.maketrans({" ": _BLANK, "\t": _BLANK, "\n": _BLANK})
_WILDCARD = re.compile(r"(?<!\\)\*")


@dataclass(frozen=True)
class CommandPattern:
    """A compiled pattern. `exact` is its text if it has no wildcard, for comparison with a command as written."""

    spec: str
    tokens: str
    regex: re.Pattern[str]
    loose: re.Pattern[str]
    exact: str | None

    def matches(self, words: Sequence[str]) -> bool:
        """Report whether the pattern matches for every value of the unknown words; only a wildcard covers these."""
        return self.regex.fullmatch(join_words(words)) is not None

    def is_spelt(self, raw: str) -> bool:
        """Report whether a command has the pattern's words as it writes them, so a quoted one is not allowed by it."""
        if self.exact is not None:
            return self.exact in raw
        head = _WILDCARD.split(_spread(self.spec))[0]
        fixed = head.split() if head[-1:].isspace() else head.split()[:-1]
        written = raw.split()
        return any(written[at : at + len(fixed)] == fixed for at in range(len(written) - len(fixed) + 1))

    def matches_loosely(self, words: Sequence[str]) -> bool:
        """Report whether the pattern matches for rules that deny or ask: words split at blanks, empty words ignored."""
        return self.loose.fullmatch(_loosen(join_words(words))) is not None

    def may_match(self, words: Sequence[str]) -> bool:
        """Report whether the pattern matches for some values of the unknown words."""
        if self.matches_loosely(words):
            return True
        # Word by word, up to the first unknown word or wildcard.
        for token, word in itertools.zip_longest(_loosen(self.tokens).split(), _loosen(join_words(words)).split()):
            if token is None or word is None:
                return token == _STAR
            if UNKNOWN in word or _STAR in token:
                return UNKNOWN in word or UNKNOWN in "".join(words)
            if token != word:
                return False
        return True


@functools.lru_cache(maxsize=2048)
def compile_pattern(spec: str) -> CommandPattern:
    """Compile the spec of a `Bash(spec)` rule."""
    text = _spread(spec)
    is_exact = _WILDCARD.search(text) is None
    tokens = _read_tokens(text.replace("\\*", "*"), "*") if is_exact else _read_tokens(text, _STAR)
    exact = spec.strip().replace("\\*", "*") if is_exact else None
    return CommandPattern(
        spec=spec, tokens=tokens, regex=_as_regex(tokens), loose=_as_regex(_loosen(tokens)), exact=exact
    )


def _spread(spec: str) -> str:
    """Write `git log:*` as `git log *`."""
    text = spec.strip()
    return f"{text[:-2].rstrip()} *" if text.endswith(":*") else text


def join_words(words: Sequence[str]) -> str:
    """Join the words to one line, in which only blanks separate words."""
    return " ".join(literal(word).translate(_BLANKS) if word else _EMPTY for word in words)


def _loosen(text: str) -> str:
    return " ".join(text.replace(_BLANK, " ").replace(_EMPTY, " ").split())


def is_wildcard(token: str) -> bool:
    """Report whether a word of a pattern contains a wildcard."""
    return _STAR in token


def escape_pattern(command: str) -> str:
    """Return the spec that matches exactly this command."""
    return command.replace("*", "\\*")


def _read_tokens(text: str, star: str) -> str:
    """Remove the quotes of a pattern, as for a command's words; unescaped stars become `star`."""
    if text.count("'") % 2 or text.replace('\\"', "").count('"') % 2:
        return " ".join(text.replace("*", star).split())  # unclosed quotes: taken literally
    stars = "*" if star == _STAR else ""
    escapable = {"'": stars, '"': f'"\\$`{stars}'}
    pieces: list[str] = []
    quote, index = "", 0
    while index < len(text):
        character, following = text[index], text[index + 1 : index + 2]
        index += 1
        if character == "\\" and following and following in escapable.get(quote, following):
            pieces.append(following.translate(_BLANKS))
            index += 1
        elif character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        elif character == "*":
            pieces.append(star)  # also in quotes: people write `Bash(git commit -m "*")` and mean any message
        else:
            pieces.append(_BLANK if quote and character.isspace() else character)
    return " ".join("".join(pieces).split())


def _as_regex(tokens: str) -> re.Pattern[str]:
    optional = tokens.endswith(f" {_STAR}")
    body = tokens[:-2] if optional else tokens
    first, *others = (re.escape(piece) for piece in re.split(f"{_STAR}+", body))
    # The leftmost place of a piece always suffices; atomic groups bound the time for hostile commands.
    middle = "".join(f"(?>.*?{piece})" for piece in others[:-1])
    pattern = first + middle + (f".*{others[-1]}" if others else "")
    return re.compile(pattern + ("(?: .*)?" if optional else ""), re.DOTALL)
