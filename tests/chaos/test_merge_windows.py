"""The process dies around a merge: whenever it does, what two agents did in copies is in their parent's folder in the end, once.

Tests of swarm/runtime/isolation.py, swarm/workspace/merge.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing

import pytest
import yaml

from swarm.agent.entries import ToolFinished
from tests.chaos.crashing_worker import CrashingWorker, Order, orders_folder
from tests.fleet import Fleet


@pytest.fixture(scope="module")
def line() -> Iterator[Fleet]:
    with closing(Fleet()) as fleet:
        CrashingWorker(fleet, 2)
        yield fleet


def _agent(prompt: str) -> dict[str, object]:
    return {"name": "Agent", "input": {"description": "part", "prompt": prompt, "isolation": "worktree"}}


def _doing(prompt: str, command: str) -> list[dict[str, object]]:
    return [
        {"when": {"prompt": prompt, "turn": 0}, "reply": {"tools": [{"name": "Bash", "input": {"command": command}}]}},
        {"when": {"prompt": prompt, "turn": 1}, "reply": {"text": "done"}},
    ]


RULES = [
    {"when": {"prompt": "^lead$", "turn": 0}, "reply": {"tools": [_agent("do a"), _agent("do b")]}},
    {"when": {"prompt": "^lead$", "turn": 1}, "reply": {"text": "done"}},
    *_doing("^do a$", "echo a >> first; rm gone; echo a > both"),
    *_doing("^do b$", "echo b >> second; echo b > added; echo b > both"),
]


@pytest.mark.parametrize(
    "order",
    [
        Order("spawn", "before"),
        Order("enter", "after", depth=None),
        Order("finish", "before", depth=1),
        Order("carry_over", "before"),
        Order("read_content", "before"),
        Order("carry_over", "after"),
        Order("append", "after", kind="tool_finished", depth=0),
    ],
    ids=["kept, no children", "copy made", "before a child's end", "merged", "half applied", "applied", "told"],
)
def test_whoever_dies_around_a_merge_merges_again_with_the_same_result(line: Fleet, order: Order) -> None:
    shutil.rmtree(line.workspace)
    line.workspace.mkdir()
    for name in ("first", "second", "gone"):
        (line.workspace / name).write_text("x\n")
    shutil.rmtree(orders_folder(line), ignore_errors=True)
    died = order.give(orders_folder(line))
    job = line.submit("lead", line.rehearse(yaml.safe_dump({"name": "m", "rules": RULES})))
    assert job.wait(60).state == "completed" and died.exists()
    found = {path.name: path.read_text() for path in line.workspace.iterdir() if path.is_file()}
    assert found == {"first": "x\na\n", "second": "x\n", "both": "a\n"}
    [a, b] = [entry for entry in line.swarm.journal(job.agents()[0].id) if isinstance(entry, ToolFinished)]
    assert "merged into your folder.]\nA both\nM first\nD gone" in a.text and a.commit == b.commit != ""
    assert "both: both added it" in b.text and [one.merge for one in job.agents()[1:]] == ["merged", "conflict"]
