"""The content of a plugin's folder: its digest, and the files that travel with a job, within bounds."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from swarm.core.memo import look_at
from swarm.definitions.carried_files import CarryingLimits, collect_files
from swarm.definitions.plugins.model import Plugin, PluginBundle
from swarm.definitions.plugins.words import mentions_folder
from swarm.definitions.sources import Problem, Unusable, show_path

MAX_BUNDLE_BYTES = 8 * 1024 * 1024
MAX_FOLDER_BYTES = 256 * 1024 * 1024
MAX_FILES = 5_000
_MAX_TEXT_BYTES = 256 * 1024
_TEXTS = (".md", ".json", ".toml")
"""Endings of files that can refer to the folder."""
_SKIPPED = frozenset({".git", "__pycache__"})
_LIMITS = CarryingLimits(MAX_FILES, MAX_BUNDLE_BYTES, MAX_BUNDLE_BYTES, _SKIPPED, hidden=True)
_REMEDY = "Remove all that agents do not need."


def weigh(plugin: Plugin, entry: Mapping[str, Any]) -> Plugin:
    """Add the digest of a plugin's content and, if a file or the marketplace's `entry` refers to it, its folder. Raises `Unusable`."""
    files, size = _hash_files(plugin.folder)
    # The tables as they were read: a file can change meanwhile.
    tables = [table.content for table in (*plugin.hooks, *plugin.servers)]
    content = json.dumps([files, entry, tables], sort_keys=True, default=str)
    plugin = replace(plugin, digest=hashlib.sha256(content.encode()).hexdigest())
    if not (mentions_folder(content) or any(map(_refers, _walk(plugin.folder)))):
        return plugin
    if size > MAX_BUNDLE_BYTES:
        raise Unusable(
            f"its parts need its folder, which has {size / 2**20:,.1f} MiB; jobs carry at most {MAX_BUNDLE_BYTES // 2**20} MiB",
            _REMEDY,
        )
    carried, left_out = collect_files(plugin.folder, plugin.folder, _LIMITS)
    known = {line[-1] for line in files}
    if any(hashlib.sha256(file.content()).hexdigest() not in known for file in carried.values()):
        raise Unusable("its files changed while they were read", "Start again.")
    text = PluginBundle(files=carried).model_dump_json()
    problems = (
        Problem(path=show_path(plugin.folder), message=f"not carried: {one}", remedy="Put the file itself there.")
        for one in left_out
    )
    return replace(
        plugin,
        bundle=text,
        bundle_digest=hashlib.sha256(text.encode()).hexdigest(),
        problems=(*plugin.problems, *problems),
    )


def _hash_files(folder: Path) -> tuple[list[list[Any]], int]:
    """Return the name, rights and digest of each file, and their size in all. Raises `Unusable`."""
    lines: list[list[Any]] = []
    size = 0
    for path in _walk(folder):
        look_at(path)
        name = show_path(path.relative_to(folder))
        try:
            status = path.lstat()
            size += status.st_size
            if size > MAX_FOLDER_BYTES or len(lines) >= MAX_FILES:
                raise Unusable(
                    f"its folder has more than {MAX_FOLDER_BYTES // 2**20} MiB or {MAX_FILES:,} files", _REMEDY
                )
            if stat.S_ISLNK(status.st_mode):
                lines.append([name, "link", os.readlink(path)])
            elif stat.S_ISREG(status.st_mode):
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                lines.append([name, bool(status.st_mode & stat.S_IXUSR), digest])
        except OSError as error:
            raise Unusable(f"{name} cannot be read: {error.strerror}", "Check that it may be read.") from error
    return lines, size


def _refers(path: Path) -> bool:
    """Report whether a file is a text that refers to its plugin's folder."""
    try:
        if path.suffix not in _TEXTS or not path.is_file() or path.stat().st_size > _MAX_TEXT_BYTES:
            return False
        return mentions_folder(path.read_text(errors="replace"))
    except OSError:
        return False


def _walk(folder: Path) -> Iterator[Path]:
    """Yield every file and link below, in order."""
    for current, folders, names in os.walk(folder):
        look_at(current)
        links = [name for name in folders if os.path.islink(os.path.join(current, name))]
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and name not in links)
        yield from (Path(current) / name for name in sorted((*names, *links)))
