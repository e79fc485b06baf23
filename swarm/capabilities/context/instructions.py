"""Read the instruction files of a workspace once, at submission; they travel with the job as one document.

The order is from general to special: the administrator's files, the person's own, then each folder from the repository's root (or from
above it, within the person's home) to the workspace. Files of the workspace are text for agents and permit nothing. An import from outside
the repository could send a person's other files to a model. It is therefore a `Grant`, read only while the person trusts the workspace.
"""

from __future__ import annotations

import glob
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from swarm.capabilities.context.budget import ContextPart, fit_parts, render_parts
from swarm.capabilities.context.excludes import Excludes, read_excludes
from swarm.capabilities.context.rules import PathRule, find_imports, looks_like_file, read_globs, strip_comments
from swarm.core.formats import Formatted
from swarm.core.memo import look_everywhere, look_for
from swarm.definitions.codex import read_codex_table
from swarm.definitions.grants import Grant
from swarm.definitions.jsonc import MANAGED, parse_jsonc
from swarm.definitions.opencode import CONFIG_NAMES
from swarm.definitions.sources import (
    Problem,
    Unusable,
    list_files,
    project_folders,
    read_text,
    resolve,
    show,
    show_path,
    show_place,
)
from swarm.permissions.sandbox.names import INSTRUCTIONS

MAX_HOPS = 4
MAX_RULES_BYTES = 256 * 1024
MAX_FILES = 300
_MAX_READ = 128 * 1024
_OWN = (".claude/CLAUDE.md", ".codex/AGENTS.override.md", ".codex/AGENTS.md", ".config/opencode/AGENTS.md")


class InstructionSource(BaseModel):
    """One file, as `swarm` reports it to people."""

    model_config = ConfigDict(frozen=True)

    name: str
    size: int
    """Bytes of its text without comments."""
    given: int
    """Bytes of it that agents get at the beginning."""


class Instructions(Formatted):
    """The document of instruction files that travels with a job."""

    model_config = ConfigDict(frozen=True)

    text: str = ""
    """The beginning of an agent's first message; empty without files."""
    sources: list[InstructionSource] = []
    rules: list[PathRule] = []
    """Rules that are given with the first file read that they apply to."""
    excludes: Excludes = Excludes()
    problems: list[Problem] = Field(default=[], exclude=True)
    grants: list[Grant] = Field(default=[], exclude=True)
    """Imports from outside by files of the workspace; their text is included only if the workspace was trusted."""

    def followed_by(self, other: Instructions) -> Instructions:
        """Return these files and then those of another place."""
        given = {"text": "\n".join(filter(None, (self.text, other.text))), "rules": [*self.rules, *other.rules]}
        return self.model_copy(update={**given, "sources": [*self.sources, *other.sources]})


def load_instructions(workspace: Path, home: Path, *, trusted: bool = False, managed: Path = MANAGED) -> Instructions:
    """Read all files that apply in a workspace, in the order in which agents get them."""
    reading = _InstructionReader(workspace, home, trusted)
    reading.take_first(managed, ("CLAUDE.md",), None)
    # From here on excludes apply; the administrator's files cannot be excluded.
    reading.excludes, reading.problems = read_excludes(workspace, home, reading.root)
    reading.take_first(home, _OWN, None)
    reading.take_rules(home / ".claude" / "rules", None, None)
    for folder in _folders(workspace, home):
        boundary = reading.root if folder.is_relative_to(reading.root) else folder
        for names in INSTRUCTIONS:
            reading.take_first(folder, names, boundary)
        reading.take_rules(folder / ".claude" / "rules", boundary, folder)
    for place in (home / ".config" / "opencode", workspace, workspace / ".opencode"):
        reading.take_opencode(place, None if place.is_relative_to(home / ".config") else reading.root)
    for folder in (home, workspace):
        reading.take_codex(folder / ".codex/config.toml")
    kept, problems = fit_parts(reading.parts)
    sources = [
        InstructionSource(name=part.source, size=len(part.text.encode()), given=len(given.encode()))
        for part, given in zip(reading.parts, kept, strict=True)
    ]
    return Instructions(
        text=render_parts(reading.parts, kept),
        sources=sources,
        rules=reading.rules,
        excludes=reading.excludes,
        problems=[*reading.problems, *problems],
        grants=list(dict.fromkeys(reading.grants)),
    )


def _folders(workspace: Path, home: Path) -> list[Path]:
    """List the folders from the farthest to the nearest.

    Above the repository only those in the person's home count: others may write elsewhere.
    """
    inside = project_folders(workspace)
    above = [folder for folder in inside[-1].parents if folder != home and folder.is_relative_to(home)]
    return [*reversed(above), *reversed(inside)]


def _is_file(path: Path) -> bool:
    look_for(path)
    return path.is_file()


def _read(path: Path, rule: bool) -> tuple[list[str], str, list[str]]:
    """Return a file's globs, text and imports. Raises `Unusable`."""
    text = strip_comments(read_text(path)[:_MAX_READ])
    globs, text = read_globs(text) if rule else ([], text)
    return globs, text, find_imports(text)


class _InstructionReader:
    """Collects the instruction files.

    A file and its imports must lie in `boundary`; None: any place, for the person's own files.
    """

    def __init__(self, workspace: Path, home: Path, trusted: bool) -> None:
        self.workspace, self.home, self.trusted = workspace, home, trusted
        self.root = project_folders(workspace)[-1]
        self.parts: list[ContextPart] = []
        self.rules: list[PathRule] = []
        self.excludes = Excludes()
        self.problems: list[Problem] = []
        self.grants: list[Grant] = []
        self._seen: set[Path] = set()
        self._rules_bytes = 0

    def take_first(self, folder: Path, names: tuple[str, ...], boundary: Path | None) -> None:
        """Take the first of these files that exists."""
        there = (path for name in names if _is_file(path := folder / name))
        found = next((path for path in there if not self.excludes.leaves_out(path)), None)
        if found is not None:
            self._take(found, boundary)

    def take_rules(self, folder: Path, boundary: Path | None, base: Path | None) -> None:
        """Take all rules of a folder; their globs are relative to `base`, or to the workspace."""
        for path in list_files(folder, (".md",), self.problems):
            self._take(path, boundary, rule=True, below=self._below(base))

    def take_opencode(self, folder: Path, boundary: Path | None) -> None:
        """Take the files that OpenCode's configuration names in `instructions`."""
        for path in (folder / name for name in CONFIG_NAMES):
            if not _is_file(path):
                continue
            try:
                content = parse_jsonc(read_text(path))
                for given in _instructions_of(content):
                    self._take_glob(given, path, boundary)
            except Unusable as error:
                self.problems.append(error.as_problem(path))

    def take_codex(self, path: Path) -> None:
        """Take the text in `developer_instructions` of Codex's configuration."""
        try:
            text = read_codex_table(path).get("developer_instructions") if _is_file(path) else None
        except Unusable:
            return  # the reader of its roles reports it
        if isinstance(text, str) and text.strip() and resolve(path) not in self._seen:
            self._seen.add(resolve(path))
            self.parts.append(ContextPart(self.name(path), text[:_MAX_READ]))

    def _take_glob(self, given: str, config: Path, boundary: Path | None) -> None:
        if given.startswith(("http://", "https://")):
            self._report(
                config, f"`instructions` names the address {show(given)}, which is not fetched", "Save it as a file."
            )
            return
        base = config.parent.parent if config.parent.name == ".opencode" else config.parent
        try:
            pattern = str(base / Path(given).expanduser())
        except RuntimeError:
            pattern = str(base / given)
        if glob.has_magic(pattern):
            look_everywhere()
        else:
            look_for(pattern)
        found = sorted(itertools.islice(glob.iglob(pattern, recursive=True), MAX_FILES))
        for path in map(Path, found):
            if _is_file(path):
                self._take(path, boundary)
        if not found:
            self._report(config, f"`instructions` names {show(given)}, which does not exist", "Correct it.")

    def _below(self, base: Path | None) -> str:
        if base is None or base == self.workspace:
            return ""
        return f"{self.workspace.relative_to(base).as_posix()}/"

    def _take(
        self,
        path: Path,
        boundary: Path | None,
        *,
        hops: int = 0,
        importer: str = "",
        rule: bool = False,
        below: str = "",
        allowed: bool = True,
    ) -> None:
        """Take a file and its imports, each once. A file that is not `allowed` is only searched for further imports."""
        real = resolve(path)
        if real in self._seen or len(self._seen) >= MAX_FILES or self.excludes.leaves_out(path):
            return
        name = self.name(path)
        if boundary is not None and not real.is_relative_to(boundary):
            self.grants.append(
                Grant(text=f"{self.name(real)} in what agents are given to read", source=importer or name)
            )
            allowed = self.trusted
        try:
            globs, text, imports = _read(real, rule)
        except Unusable as error:
            self.problems.append(error.as_problem(path))
            return
        self._seen.add(real)
        if allowed and text.strip():
            source = f"{name} (imported by {importer})" if importer else name
            if globs:
                self._add_rule(PathRule(source=source, text=text, globs=globs, below=below), path)
            else:
                self.parts.append(ContextPart(source, text))
        for wanted in imports:
            self._import(wanted, path, boundary, hops, allowed=allowed)

    def _import(self, wanted: str, importer: Path, boundary: Path | None, hops: int, *, allowed: bool) -> None:
        try:
            target = importer.parent / Path(wanted).expanduser()
            there = _is_file(target)
        except (OSError, RuntimeError, ValueError):
            return
        if there and hops < MAX_HOPS:
            self._take(target, boundary, hops=hops + 1, importer=self.name(importer), allowed=allowed)
        elif there:
            self._report(
                importer, f"its import {show(wanted)} is more than {MAX_HOPS} steps away", "Import it further up."
            )
        elif looks_like_file(wanted):
            self._report(importer, f"it imports {show(wanted)}, which does not exist", "Correct it.")

    def _add_rule(self, rule: PathRule, path: Path) -> None:
        self._rules_bytes += len(rule.text.encode())
        if self._rules_bytes > MAX_RULES_BYTES:
            self._report(
                path, f"rules have more than {MAX_RULES_BYTES // 1024} KiB in all", "It is left out; shorten them."
            )
        else:
            self.rules.append(rule)

    def _report(self, path: Path, message: str, remedy: str) -> None:
        self.problems.append(Problem(path=show_path(path), message=message, remedy=remedy))

    def name(self, path: Path) -> str:
        """A path as people and agents can find it."""
        return show_place(path, self.workspace, self.home)


def _instructions_of(content: Any) -> Iterator[str]:
    given = content.get("instructions") if isinstance(content, Mapping) else None
    if given is None:
        return
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise Unusable("`instructions` is not a list of files", 'Write for example ["docs/rules.md"].')
    yield from given[:MAX_FILES]
