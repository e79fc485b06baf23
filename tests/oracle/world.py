"""The cases that the oracle is asked about, and the small folder in which both systems answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import yaml

HERE = Path(__file__).parent
ANSWERS = HERE / "answers.json"
"""The oracle's answers, which `python -m tests.oracle.record` writes."""
_TABLE = ("allow", "ask", "deny", "defaultMode")
_SKILL = "---\nname: {}\ndescription: d\n---\nbody\n"
WORLD = {
    **dict.fromkeys(
        ("a.txt", "sub/a.txt", "src/a.py", "sub/src/a.py", "docs/a.md", "sub/docs/a.md", "README.md"), "x\n"
    ),
    **dict.fromkeys((".env", "sub/.env", ".env.local", "secrets/k", "sub/secrets/k", "key.pem", "sub/key.pem"), "k\n"),
    "sub/x.key": "k\n",
    ".claude/skills/dep/SKILL.md": _SKILL.format("dep"),
    ".claude/skills/dirn/SKILL.md": _SKILL.format("shownname"),
    ".claude/skills/other/SKILL.md": _SKILL.format("other"),
}
_ABOUT = "---\n{}description: {}\n---\nbody\n"
TEXTS = {
    "CLAUDE.md": "MARK-root\n\n<!-- MARK-comment -->\n\n@docs/imported.md\n`@docs/code.md`\n",
    "docs/imported.md": "MARK-imported @code2.md\n",
    "docs/code2.md": "MARK-imported-twice\n",
    "docs/code.md": "MARK-in-code\n",
    ".claude/CLAUDE.md": "MARK-dot-claude\n",
    "CLAUDE.local.md": "MARK-local\n",
    "AGENTS.md": "MARK-agents-beside-claude\n",
    ".claude/rules/all.md": "MARK-rule\n",
    ".claude/rules/deep/all.md": "MARK-deep-rule\n",
    ".claude/rules/some.md": "---\npaths: ['src/**']\n---\nMARK-rule-about-paths\n",
    "sub/CLAUDE.md": "MARK-sub\n",
    "sub/.claude/CLAUDE.md": "MARK-sub-dot-claude\n",
    "sub/CLAUDE.local.md": "MARK-sub-local\n",
    "sub/.claude/rules/all.md": "MARK-sub-rule\n",
    "sub/.claude/rules/some.md": "---\npaths: ['none/**']\n---\nMARK-sub-rule-about-other-paths\n",
    "sub/.claude/skills/below/SKILL.md": _ABOUT.format("name: below\n", "MARK-skill-below"),
    ".claude/skills/plain/SKILL.md": _ABOUT.format("name: plain\n", "MARK-skill"),
    ".claude/skills/person/SKILL.md": _ABOUT.format("disable-model-invocation: true\n", "MARK-skill-for-people"),
    ".claude/skills/model/SKILL.md": _ABOUT.format("user-invocable: false\n", "MARK-skill-for-agents"),
    ".claude/commands/fix.md": _ABOUT.format("", "MARK-command"),
}
"""Texts that both systems may give to a model, each with a mark."""
OWN_TEXTS = {
    ".claude/CLAUDE.md": "MARK-own\n",
    ".claude/rules/all.md": "MARK-own-rule\n",
    ".claude/skills/mine/SKILL.md": _ABOUT.format("name: mine\n", "MARK-own-skill"),
}
READS = {"begun": None, "sub": "sub/a.txt", "src": "src/a.py"}
"""Occasions on which a model is given texts: the beginning, and the first read of a file."""
LINKS = {"link.txt": ".env", "linked": "secrets"}
PROGRAMS = ("npm", "npx", "curl", "docker", "ssh", "sudo", "make", "watch")
"""Programs that do nothing in the oracle's world."""


class Case(NamedTuple):
    """One call, and the rules to judge it by."""

    set: str
    tool: str
    subject: str


@cache
def read_sets() -> Mapping[str, Mapping[str, Any]]:
    """Read the sets of cases, by name."""
    return yaml.safe_load((HERE / "cases.yaml").read_text())


def list_cases(name: str) -> list[Case]:
    """List the cases of a set, in their order."""
    found = read_sets()[name]
    return [
        Case(name, tool, str(subject)) for tool, listed in found.items() if tool not in _TABLE for subject in listed
    ]


def build_world(workspace: Path, home: Path, name: str) -> None:
    """Write the files of the world with the rules of a set into two empty folders."""
    build_files(workspace)
    permissions = {key: value for key, value in read_sets()[name].items() if key in _TABLE}
    text = json.dumps({"permissions": permissions})
    (workspace / ".claude/settings.json").write_text(fill(text, workspace, home))
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("k\n")
    (home / "x").write_text("x\n")


def build_files(workspace: Path) -> None:
    """Write the files of the world into an empty folder."""
    for path, text in WORLD.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text)
    for link, target in LINKS.items():
        (workspace / link).symlink_to(target)


def build_texts(workspace: Path, home: Path) -> None:
    """Write the marked texts into two empty folders."""
    for base, texts in ((workspace, {"sub/a.txt": "x", "src/a.py": "x"} | TEXTS), (home, OWN_TEXTS)):
        for path, text in texts.items():
            (base / path).parent.mkdir(parents=True, exist_ok=True)
            (base / path).write_text(text)


def find_marks(text: str) -> set[str]:
    """Return the marks of the texts in a text."""
    return set(re.findall(r"MARK-([\w-]+)", text))


def fill(text: str, workspace: Path, home: Path) -> str:
    """Insert the two folders into a rule or a call."""
    return (
        text.replace("//{workspace}", "/" + str(workspace))
        .replace("{workspace}", str(workspace))
        .replace("{home}", str(home))
    )


def make_input(case: Case, workspace: Path, home: Path) -> dict[str, Any]:
    """Return the input of a case's call; relative paths of files become absolute, as both systems' tools want them."""
    subject = fill(case.subject, workspace, home)
    match case.tool:
        case "Read" | "Edit" | "Write":
            path = subject if subject.startswith(("/", "~")) else f"{workspace}/{subject}"
            more = {"Write": {"content": "y"}, "Edit": {"old_string": "x", "new_string": "y"}}
            return {"file_path": path, **more.get(case.tool, {})}
        case "WebFetch":
            return {"url": subject, "prompt": "what is it"}
        case "Bash":
            return {"command": subject, "description": "a command"}
        case "Skill":
            return {"skill": subject}
    return {"what": subject}


@contextmanager
def two_folders() -> Iterator[tuple[Path, Path]]:
    """Yield an empty workspace and an empty home."""
    with TemporaryDirectory(prefix="oracle-") as folder:
        workspace, home = Path(folder).resolve() / "w", Path(folder).resolve() / "h"
        workspace.mkdir()
        home.mkdir()
        yield workspace, home
