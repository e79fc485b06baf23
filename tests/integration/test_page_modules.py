"""The page's JavaScript and the steps' Lua, read by the checkers of these languages; and the page's folds, as Node runs them.

Tests of swarm/web/static, swarm/store/library.py, tests/page.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from swarm.store.library import STEPS
from tests.mcp_world import FOLDER as NPM
from tests.needs import need, need_program

TOP = Path(__file__).parents[2]
SCRIPTS = sorted(
    path
    for folder in ("swarm/web/static", "examples", "tests/page")
    for path in (TOP / folder).rglob("*.mjs")
    if "vendor" not in path.parts
)
PARSE = """
import { readFileSync } from "node:fs";
import { SourceTextModule } from "node:vm";
for (const path of process.argv.slice(1)) new SourceTextModule(readFileSync(path, "utf8"), { identifier: path });
"""
"""As `node --check` does, in one process for all of them."""
ESLINT = NPM / "node_modules" / ".bin" / "eslint"


def run(*argv: str | Path, text: str | None = None) -> str:
    """Return what a checker says; nothing if it is content."""
    ran = subprocess.run(
        argv, input=text, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100
    )
    return ran.stdout if ran.returncode else ""


def test_each_module_of_the_page_can_be_parsed() -> None:
    command = [
        need_program("node"),
        "--experimental-vm-modules",
        "--input-type=module",
        "--eval",
        PARSE,
        "--",
        *SCRIPTS,
    ]
    assert len(SCRIPTS) > 20 and not (faults := run(*command)), faults


def test_no_module_of_the_page_names_what_is_not_there_or_is_not_used() -> None:
    need_program("node")
    need_program("node")
    need(ESLINT.exists(), "eslint", "npm install --prefix build/mcp-servers eslint@9 was not run")
    assert not (faults := run(ESLINT, "--config", "tests/page/eslint.config.mjs", *SCRIPTS)), faults


def test_the_pages_folds_do_what_they_say() -> None:
    assert not (faults := run(need_program("node"), "--test", *sorted((TOP / "tests/page").glob("*.test.mjs")))), faults


def test_the_swarms_steps_name_nothing_that_is_not_there_and_nothing_in_vain() -> None:
    options = ["--std", "lua51", "--read-globals", "redis", "cjson", "LIBRARY", "--no-max-line-length", "--no-color"]
    # 431 and 432: an inner name may hide an outer one.
    command = [need_program("luacheck"), *options, "--ignore", "43.", "--no-unused-args", "--quiet", "-"]
    lines = STEPS.source.splitlines()
    told = run(*command, text=STEPS.source).splitlines()
    faults = [f"{line}: {lines[int(line.split(':')[1]) - 1]}" for line in told if line.strip().startswith("stdin:")]
    assert not told, "\n".join(faults or told)
