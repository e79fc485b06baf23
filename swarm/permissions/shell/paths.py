"""Finds the files that a shell command's text names, for rules about paths and for questions.

It is a convenience that makes `cat .env` obey rules such as `Read(.env)`. Only the sandbox reliably prevents
access to a file.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from swarm.permissions.shell.parse import ShellCommand
from swarm.permissions.shell.views import strip_transparent, view_command
from swarm.permissions.shell.words import GLOB_MARKS, UNKNOWN, literal

_WRITERS = frozenset(
    (
        *("rm", "rmdir", "mv", "cp", "tee", "touch", "mkdir", "ln", "chmod", "chown", "chgrp", "truncate", "dd"),
        *("install", "rsync", "shred", "unlink", "mkfifo", "mknod", "patch", "sed", "perl", "sort", "gawk", "link"),
    )
)
"""Programs that can change the files in their operands."""
_SPEAKERS = frozenset(
    {"echo", "printf", "test", "[", "export", "declare", "local", "sleep", "seq", "true", "false", ":"}
)
"""Programs whose words are not files."""
_SEARCHERS = frozenset({"grep", "egrep", "fgrep", "rg", "sed", "jq"})
"""Programs whose first operand is an expression, unless an option gives it."""
_NO_FILES = ("/dev/null", "/dev/stdout", "/dev/stderr")
_MAX_FOLDERS = 8
_MAX_MATCHES = 1_000
_MAX_PATTERNS = 2
"""Maximum parts of a path with a pattern, because each multiplies the lookups."""
_HOME = re.compile(r"\$\{?HOME\b")
_ASSIGNED = re.compile(r"(?:^|[;&|\n(])\s*([A-Za-z_]\w*)=([\"']?)([\w./~-]+)\2(?=\s*(?:;|&&|\n))")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_PROCESS = re.compile(r"/+proc/+(?:[\w-]+/+)*(cwd|root)(?=/|$)")
"""The folder, or the root, of a running process."""
_TILDE = re.compile(r"(^|[\s=:])~\+(?=/|\s|$)")
_LOOP = re.compile(r"\bfor\s+([A-Za-z_]\w*)\s+in\s+([\w./~-]+)\s*(?=;|\n)")
_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):?[-=]([\w./~-]*)\}")
_PLAIN = re.compile(r"[\w./-]+")
_CRITICAL = re.compile(r"[/~]?/?\*?|/(bin|boot|dev|etc|home|lib\w*|opt|proc|root|sbin|srv|sys|usr|var|Users)(/\*?)?")


def written_targets(command: ShellCommand) -> list[str]:
    """Return the files of output redirections, also in carried code, without devices such as /dev/null."""
    targets = [*command.writes]
    for part in command.parts:
        targets.extend(view_command(part).writes)
    return [target for target in dict.fromkeys(targets) if target not in _NO_FILES]


def folders_of(command: ShellCommand, workspace: Path) -> list[Path] | None:
    """Return the possible base folders of the command's relative paths; None if they are not known."""
    folders = [workspace]
    for part in command.parts:
        words = strip_transparent(part.words)
        if not words or words[0] not in ("cd", "pushd", "popd"):
            continue
        operands = [word for word in words[1:] if word == "-" or not word.startswith("-")]
        if words == ("cd",):
            operands = ["~"]
        if words[0] == "popd" or len(operands) != 1 or len(folders) > _MAX_FOLDERS:
            return None
        target = os.path.expanduser(operands[0])
        if UNKNOWN in target or literal(target) != target or target.startswith(("~", "-", "+")):
            return None
        folders.extend([folder / target for folder in folders])
    return list(dict.fromkeys(folders))


def named_paths(command: ShellCommand, folders: list[Path], *, writers_only: bool = False) -> Iterator[str]:
    """List absolute paths of the files in the words, also after an option's letter (`-f.env`), without unknown words.

    A pattern for file names gives at least all of its matches, or `UNKNOWN` if they are too many.
    """
    words: dict[str, None] = {} if writers_only else dict.fromkeys(command.reads)
    for part in command.parts:
        views = view_command(part)
        if not writers_only:
            words.update(dict.fromkeys(views.reads))
        for view in views.commands:
            if view[0] in _SPEAKERS or (writers_only and view[0] not in _WRITERS):
                continue
            words.update(dict.fromkeys(view[1:] if view[0] not in _SEARCHERS else _without_expression(view)))
    for word in words:
        for path in (*_paths_in(word), *([word[2:]] if re.match(r"-\w[^=]", word) else ())):
            for folder in folders:
                yield from _look_up(path, folder)


def _without_expression(words: tuple[str, ...]) -> tuple[str, ...]:
    if any(re.match(r"-[a-zA-Z]*[ef]|--(file|regexp|expression|from-file)", word) for word in words):
        return words[1:]
    first = next((index for index, word in enumerate(words) if index and not word.startswith("-")), len(words))
    return words[1:first] + words[first + 1 :]


def _paths_in(word: str) -> Iterator[str]:
    if not word or UNKNOWN in word:
        return
    if word.startswith("-") and not re.search("[=@]", word):
        return
    yield word
    for mark in ("=", "@", ":"):  # --file=x, of=x, -d @x, HEAD:x
        if mark in word:
            yield word.partition(mark)[2]


def _look_up(word: str, folder: Path) -> Iterator[str]:
    if moved := _PROCESS.match(word):
        word = f"/{word[moved.end() :]}" if moved[1] == "root" else word[moved.end() :].lstrip("/") or "."
    joined = os.path.join(folder, os.path.expanduser(literal(word)))
    yield joined
    if literal(word) != word and "\0" not in joined:
        # Bash has its own syntax in brackets, and a star matches at least as much.
        wider = re.sub(rf"{GLOB_MARKS['[']}[^/]*", "*", os.path.join(folder, os.path.expanduser(word)))
        if sum("*" in part or "?" in part for part in literal(wider).split("/")) > _MAX_PATTERNS:
            yield UNKNOWN
            return
        # Hidden files are matched only by a pattern that begins with a dot, as in the shell.
        found = [*itertools.islice(glob.iglob(literal(wider)), _MAX_MATCHES + 1)]
        yield from found if len(found) <= _MAX_MATCHES else [UNKNOWN]


def resolve_home(text: str) -> str:
    """Replace `$HOME` by the home's path, if that needs no quotes."""
    home = os.path.expanduser("~")
    return _replace(text, {"HOME": home}) if _PLAIN.fullmatch(home) else text


def resolve_assigned(text: str) -> str:
    """Replace `$HOME`, `$PWD`, and variables by the plain words that the command gives them; only for rules that deny or ask."""
    given = {name: value for name, _, value in _ASSIGNED.findall(text)} | dict(_LOOP.findall(text))
    text = _TILDE.sub(r"\1.", text)
    text = _DEFAULT.sub(lambda found: given.get(found[1]) or found[2], resolve_home(text))
    return _replace(text, {"PWD": "."} | given)


def _replace(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], found[0]), text)


def removes_critical_folder(command: ShellCommand, workspace: Path) -> bool:
    """Report whether the command recursively removes the root, a home, a system folder or the whole workspace."""
    for part in command.parts:
        for view in view_command(part).commands:
            if view[0] != "rm" or not any(re.match(r"-[a-zA-Z]*[rR]|--recursive", word) for word in view[1:]):
                continue
            for word in map(literal, view[1:]):
                target = word.replace(UNKNOWN, "")  # an unset variable leaves `/` of "$X/"
                if word == UNKNOWN and _HOME.search(command.text):
                    return True
                if not target or word.startswith("-"):
                    continue
                if target in ("..", "*", "./*") or _CRITICAL.fullmatch(target):
                    return True
                folder = os.path.normpath(os.path.join(workspace, os.path.expanduser(target)))
                if folder in (os.path.normpath(workspace), os.path.expanduser("~")) or workspace.is_relative_to(folder):
                    return True
    return False
