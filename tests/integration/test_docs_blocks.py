"""Every block of the pages says what it is, and is that: files are read by their readers, commands by their parsers.

Tests of docs, swarm/definitions/hook_tables.py, tests/documents.py.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from swarm.capabilities.triggers.model import read_trigger
from swarm.cli.app import ListedCommand, app
from swarm.definitions.catalogue import check_path
from swarm.definitions.hook_tables import read_hooks
from swarm.definitions.mcp.formats import read_entry
from swarm.replay.sets import read_set
from swarm.tools.agents import AGENT
from swarm.tools.registry import validate_input
from tests.documents import PAGES, ROOT, Block, blocks, calls
from tests.rehearsal import load_scenario

LANGUAGES = {"sh", "python", "js", "json", "lisp", "lua", "markdown", "text", "toml", "yaml"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_says_what_it_is_and_is_that(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES and block.kind, f"{block}: say what it is; see tests/documents.py"
        try:
            check(block, tmp_path)
        except Exception as error:
            raise AssertionError(f"{block}: {error}") from error


def check(block: Block, folder: Path) -> None:
    """Raise where a block is not what its info string says. What is run, its page's test runs."""
    match block.language, block.kind:
        case "sh", _:
            check_shell(block.text)
        case "python", _:
            compile(block.text, str(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        case "json", "call":
            check_call(json.loads(block.text))
        case _, "file":
            check_file(block, folder)
        case "yaml", _:
            check_yaml(block.text)
        case "toml", _:
            tomllib.loads(block.text)
        case "js", _ if node := shutil.which("node"):
            ran = subprocess.run(
                [node, "--check", "--input-type=module", "-"], input=block.text, capture_output=True, text=True
            )
            assert ran.returncode == 0, ran.stderr


def check_shell(text: str) -> None:
    """It can be parsed, and names commands and files of the project that there are."""
    ran = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    for line in text.replace("\\\n", " ").splitlines():
        for words in calls(line):
            parse_call(words)
        for path in re.findall(r"(?<![\w/.])(?:deploy|examples|tests)/[\w./-]+", line):
            assert (ROOT / path.partition("::")[0]).exists() or path == "deploy/.env", f"there is no {path}"


def parse_call(words: list[str]) -> None:
    """Read the words as the command itself would. Raises what it would say."""
    command: Any = typer.main.get_command(app)
    context = None
    if words[:1] == ["--env"]:
        words = words[2:]
    while words and words[0] in getattr(command, "commands", {}):
        name, *words = words
        found = command.commands[name]
        command = found.load() if isinstance(found, ListedCommand) else found
        context = typer.Context(command, parent=context, info_name=name)
    assert context is not None or not words, f"there is no command {' '.join(words)!r}"
    if not hasattr(command, "commands"):
        command.make_context(command.name, list(words), parent=context and context.parent).close()


def check_call(call: dict[str, object]) -> None:
    """A call of `Agent`, with an input that it takes."""
    assert call["name"] == AGENT.name
    validate_input(AGENT, call["input"])


def check_yaml(text: str) -> None:
    """The steps of a workflow."""
    for step in yaml.safe_load(text):
        check_shell(step["run"])


def check_file(block: Block, folder: Path) -> None:
    """The reader of such files takes it, and has nothing to remark."""
    path = folder / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text, encoding="utf-8")
    match path.suffix, path.parent.name, path.name:
        case (".md", "agents", _) | (".js", "workflows", _):
            read = check_path(path)
            assert read.definitions and not read.problems, read.problems
            warnings = [one for definition in read.definitions for one in definition.warnings]
            assert not [one for one in warnings if not one.startswith("unknown tools")], warnings
        case ".md", "triggers", _:
            read_trigger(block.text, str(path))
        case ".yaml", _, "cases.yaml":
            assert read_set(path, [], {}).cases
        case ".yaml", _, _:
            load_scenario(str(path))
        case ".json", _, "settings.json":
            hooks, faults = read_hooks(json.loads(block.text)["hooks"], "user", str(path))
            assert hooks and not faults, faults
        case ".toml", ".codex", _:
            for name, table in tomllib.loads(block.text)["mcp_servers"].items():
                entry = read_entry(name, table, "codex")
                assert entry.server and not entry.notes, entry.notes
        case ".toml", _, _:
            assert tomllib.loads(block.text)["project"]["name"]
        case ".py", _, _:
            compile(block.text, str(block), "exec")
        case _:
            raise AssertionError("no reader is known for such a file: add one here")
