"""Detects secrets: credentials in texts by their form, variables by their names. Pure.

Texts for memory are stripped of them, because later agents read a page, and it can be exported into a repository. A secret without a
form, such as a password in a sentence, is not detected.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

REMOVED = "[a secret was here]"
_FORMS = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"\bsk-[A-Za-z0-9_-]{20,}",
    r"\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{30,}|\bgithub_pat_\w{30,}|\bglpat-[\w-]{20,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[\w-]{35}",
    r"\bxox[abeoprs]-[\w-]{10,}",
    r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}",
    r"\b(?:npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,}|hf_[A-Za-z0-9]{30,}|dop_v1_[a-f0-9]{60,})",
    r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
)
_WHOLE = re.compile("|".join(_FORMS), re.DOTALL)
_IN_URL = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]{0,80}):([^\s/@]{3,200})@", re.IGNORECASE)
_BEARER = re.compile(
    r"(\bauthorization\b['\"]?\s*[:=]\s*['\"]?(?:bearer|basic|token)\s+)([\w.~+/=-]{12,})", re.IGNORECASE
)
_NAMED = re.compile(
    r"(\b\w{0,40}(?:password|passwd|secret|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token|private[_-]?key)\w{0,20}"
    # Quotes in a text within JSON have backslashes.
    r"\\{0,3}['\"]?\s{0,3}[:=]\s{0,3})(\\{0,3}['\"]?)((?:[^\s'\"<>{}$\[\]\\]|\\(?!['\"])){8,200})\2",
    re.IGNORECASE,
)


class Stripped(NamedTuple):
    """A text without its secrets, and their number."""

    text: str
    removed: int


def holds_secret(text: str) -> bool:
    """Whether the text holds a credential of a known form."""
    return _WHOLE.search(text) is not None or _IN_URL.search(text) is not None


def strip_secrets(text: str) -> Stripped:
    """Replace each secret in the text by a mark."""
    count = 0
    for pattern, mark in ((_WHOLE, REMOVED), (_IN_URL, rf"\1:{REMOVED}@"), (_BEARER, rf"\1{REMOVED}")):
        text, found = pattern.subn(mark, text)
        count += found
    named = 0

    def remove(found: re.Match[str]) -> str:
        nonlocal named
        # A name, a path or a call in that place is the secret's source, not the secret.
        if not (re.search(r"\d", found[3]) and re.search(r"[A-Za-z]", found[3])) or re.search(r"[()/]", found[3]):
            return found[0]
        named += 1
        return f"{found[1]}{found[2]}{REMOVED}{found[2]}"

    return Stripped(_NAMED.sub(remove, text), count + named)


_SECRET_VARIABLES = (
    *("*KEY*", "*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*CREDENTIAL*", "*AUTH*", "*COOKIE*"),
    *("SWARM_*", "ANTHROPIC_*", "AWS_*", "CELERY_*", "GOOGLE_*", "AZURE_*", "REDIS*"),
)
_URL_WITH_CREDENTIALS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s@]+@")


def is_secret(name: str, value: str) -> bool:
    """Report whether a variable seems to hold a secret: a key, a password, a URL with credentials."""
    named = any(fnmatchcase(name.upper(), pattern) for pattern in _SECRET_VARIABLES)
    return named or bool(_URL_WITH_CREDENTIALS.search(value))
