"""Asks the oracle about every case and writes its answers: `python -m tests.oracle.record [SET …]`."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.oracle.claude_code import ask, find_program, read_version
from tests.oracle.codex import ask_codex
from tests.oracle.codex import find_program as find_codex
from tests.oracle.opencode import SETS, ask_opencode
from tests.oracle.opencode import find_program as find_opencode
from tests.oracle.world import (
    ANSWERS,
    READS,
    build_texts,
    build_world,
    find_marks,
    list_cases,
    make_input,
    read_sets,
    two_folders,
)


def ask_about(program: str, name: str) -> dict[str, dict[str, str]]:
    """Return the oracle's decisions about the cases of a set, by tool and subject."""
    with two_folders() as (workspace, home):
        build_world(workspace, home, name)
        cases = list_cases(name)
        servers = {case.tool.split("__")[1] for case in cases if case.tool.startswith("mcp__")}
        calls = [(case.tool, make_input(case, workspace, home)) for case in cases]
        found: dict[str, dict[str, str]] = {}
        for case, decision in zip(cases, ask(program, workspace, home, calls, servers=servers).decisions, strict=True):
            found.setdefault(case.tool, {})[case.subject] = decision
        return found


def ask_for_texts(program: str) -> dict[str, list[str]]:
    """Return the marks of the texts that the oracle's model is given, by occasion."""
    with two_folders() as (workspace, home):
        build_texts(workspace, home)
        reads = {name: [("Read", {"file_path": f"{workspace}/{path}"})] if path else [] for name, path in READS.items()}
        found = {name: find_marks(ask(program, workspace, home, calls).told) for name, calls in reads.items()}
        return {name: sorted(marks - found["begun"] if READS[name] else marks) for name, marks in found.items()}


def main(names: list[str]) -> None:
    """Write the answers about these sets, or about all."""
    program = find_program()
    if program is None:
        raise SystemExit("no `claude` here: npm install @anthropic-ai/claude-code, and name it in SWARM_ORACLE_CLAUDE")
    known: dict[str, Any] = json.loads(ANSWERS.read_text())
    known["rules"] = known["rules"] if names else {}
    wanted = names or list(read_sets())
    with ThreadPoolExecutor(2) as pool:
        for name, found in zip(wanted, pool.map(lambda name: ask_about(program, name), wanted), strict=True):
            known["rules"][name] = found
            print(name, sum(map(len, found.values())), file=sys.stderr)
    known["texts"], known["version"] = ask_for_texts(program), read_version(program)
    if codex := find_codex():
        known["codex"] = ask_codex(codex)
    if opencode := find_opencode():
        known["opencode"] = {"version": read_version(opencode), **{name: ask_opencode(opencode, name) for name in SETS}}
    ANSWERS.write_text(json.dumps(known, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
