"""The text of skills: the list that an agent chooses from, and the text of a loaded skill. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from swarm.capabilities.skills.model import Package, Skill
from swarm.definitions.tools import READ
from swarm.workspace import SKILL_PREFIX

LIST_CHARACTERS = 15_000
"""Most characters of the list, which is in every request of every agent with the tool."""
_LEAST_DESCRIPTION = 60
_MAX_LISTED_FILES = 60
_MARKS = re.compile(r"\$ARGUMENTS\[(\d+)\]|\$ARGUMENTS\b|\$(\d+)|\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
RUN = re.compile(r"!`([^`\n]+)`|^```!\s*\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
"""Matches the commands in a text that run before its use."""
_NAMED = re.compile(r"[A-Za-z_]\w*=")
_FOLDERS = ("CLAUDE_SKILL_DIR", "SKILL_DIR")


def list_skills(skills: Sequence[Skill], room: int = LIST_CHARACTERS) -> str:
    """Render a line for each skill. If the list is too long, the longest descriptions are shortened, then dropped."""
    most = _fit_descriptions([len(one.description) for one in skills], room - sum(len(one.name) + 6 for one in skills))
    lines, left = [], room
    for one in skills:
        line = f"- {one.name}"
        if len(one.description) <= most:
            line += f": {one.description}" if one.description else ""
        elif most >= _LEAST_DESCRIPTION:
            line += f": {one.description[: most - 1]}…"
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    hidden = len(skills) - len(lines)
    more = [f"- … and {hidden} more: call with words that describe your need to get their names"] if hidden else []
    return "\n".join([*lines, *more])


def _fit_descriptions(sizes: list[int], room: int) -> int:
    """The longest description length with which all descriptions fit."""
    most = max(sizes, default=0)
    for served, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - served)
        if size > share:
            return max(0, share)
        room -= size
    return most


def render_skill(skill: Skill, package: Package, given: str, *, can_run: bool = True) -> str:
    """Render a loaded skill for an agent, with `given` as its arguments."""
    arguments = Arguments(skill, given)
    told = wrap_skill(skill, package, arguments.fill_in(package.body) + arguments.rest(), can_run=can_run)
    if RUN.search(package.body):
        told += "\nIts parts !`command` were not run: run them yourself if you need their output."
    if skill.apart or skill.agent:
        kind = f" of the type {skill.agent}" if skill.agent else ""
        told += f"\nIt is meant for an agent of its own{kind}: if you can start one, hand it this text with your task."
    return told


def wrap_skill(skill: Skill, package: Package, body: str, *, can_run: bool = True) -> str:
    """Render the complete text of a skill, with a note on its files."""
    head = f'<skill name="{skill.name}" source="{_attribute(skill.source)}" sha256="{skill.digest[:12]}">'
    parts = [head, body, "</skill>"]
    if package.files:
        parts.append(_list_files(package, f"{SKILL_PREFIX}{skill.name}", can_run=can_run))
    if package.left_out:
        parts.append("Not here: " + "; ".join(package.left_out))
    return "\n".join(parts)


class Arguments:
    """The arguments after a skill's name, from a person or an agent."""

    def __init__(self, skill: Skill, given: str) -> None:
        self.given = given.strip()
        self._words = split_arguments(given)
        named = {word.partition("=")[0]: word.partition("=")[2] for word in self._words if _NAMED.match(word)}
        self._named = dict(zip(skill.arguments, self._words, strict=False)) | named
        # A skill's code may contain its own `$1`; in a command it is always a placeholder.
        self._blank = skill.kind == "command"
        self._folder = f"{SKILL_PREFIX}{skill.name}"
        self.used = False
        """Whether a text had a placeholder for any argument."""

    def fill_in(self, text: str, *, shell: bool = False) -> str:
        """Insert the arguments: `$ARGUMENTS`, `$1` …, and named ones. Inserted text is not searched again.

        In a command for a `shell` each argument is one word, whatever it holds.
        """
        quote = shlex.quote if shell else str

        def put(match: re.Match[str]) -> str:
            index, number, name = match.groups()
            if name in _FOLDERS:
                return self._folder
            if name is not None and name not in self._named:
                return match[0]  # for example a shell variable
            at = int(index) if index is not None else int(number) - 1 if number is not None else -1
            if (index or number) and not 0 <= at < len(self._words):
                return "" if self._blank else match[0]
            self.used = True
            if name is not None:
                return quote(self._named[name])
            if at >= 0:
                return quote(self._words[at])
            return " ".join(map(quote, self._words)) if shell else self.given

        return _MARKS.sub(put, text)

    def rest(self) -> str:
        """The arguments to append to a text without placeholders."""
        return f"\n\nARGUMENTS: {self.given}" if self.given and not self.used else ""


def split_arguments(given: str) -> list[str]:
    """Split words as a shell does; at the blanks if a quote is not closed."""
    try:
        return shlex.split(given)
    except ValueError:
        return given.split()


def _list_files(package: Package, folder: str, *, can_run: bool) -> str:
    shown = list(package.files.items())[:_MAX_LISTED_FILES]
    lines = [f"- {name} ({len(file.content()):,} bytes)" for name, file in shown]
    hidden = len(package.files) - len(shown)
    more = [f"- … and {hidden:,} more"] if hidden else []
    how = f'Look into one with {READ}(file_path="{folder}/NAME")'
    how += f"; in the shell they lie in {folder}, to be read and run." if can_run else "."
    return "\n".join([f"Its files, which its text names by paths relative to it. {how}", *lines, *more])


def _attribute(text: str) -> str:
    return text.replace('"', "'").replace("<", "‹").replace("\n", " ")
