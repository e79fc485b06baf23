"""The programs of harnesses on this host: where they are, their versions, and the commands that install them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

_SECONDS = 20


class KnownProgram(NamedTuple):
    """A harness that the project knows."""

    program: str
    install: str


KNOWN = {
    "claude-code": KnownProgram("claude", "npm install -g @anthropic-ai/claude-code"),
    "codex": KnownProgram("codex", "npm install -g @openai/codex"),
    "opencode": KnownProgram("opencode", "npm install -g opencode-ai"),
    "gemini": KnownProgram("gemini", "npm install -g @google/gemini-cli"),
}


class FoundProgram(NamedTuple):
    """A program on this host."""

    path: str
    version: str
    """Empty if it does not tell."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that a box shows it: its own, with all packages beside it. A home is never shown."""
        real, named, home = Path(os.path.realpath(self.path)), Path(self.path), Path.home()
        packages = next((part for part in real.parents if part.name == "node_modules"), real.parent)
        shown = ((packages, real), (named.parent, named))
        return tuple(file if folder in (home, *home.parents) else folder for folder, file in shown)


def find_programs(settings: Mapping[str, str]) -> dict[str, FoundProgram]:
    """Return the harnesses that are here, by name as definitions need them; `settings` are programs by name."""
    found: dict[str, FoundProgram] = {}
    for name, known in KNOWN.items():
        path = settings.get(name) or shutil.which(known.program)
        if path and os.access(path, os.X_OK):
            found[name] = FoundProgram(path, read_version(path))
    for name, path in settings.items():
        if name not in KNOWN and os.access(path, os.X_OK):
            found[f"acp:{name}"] = FoundProgram(path, read_version(path))
    return found


@cache
def read_version(path: str) -> str:
    """Return a program's version, from its package or from `--version`."""
    real = Path(os.path.realpath(path))
    for folder in list(real.parents)[:3]:
        try:
            package = json.loads((folder / "package.json").read_text())
            if package.get("bin") or package.get("name"):
                return str(package["version"])
        except (OSError, ValueError, KeyError, AttributeError):
            continue
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    number = re.search(r"\d+(\.\d+)+", said)
    return number[0] if number else ""
