"""The checker passes what a real run has left, and finds whatever is planted in it.

Tests of tests/chaos/check.
"""

from __future__ import annotations

import ast
import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.campaign import run_checker
from tests.chaos.check.dump import History, Job, read, take, write
from tests.chaos.check.judge import judge
from tests.chaos.check.lives import entries_of
from tests.chaos.plan import Talk, Tree
from tests.fleet import Fleet

FOLDER = Path(__file__).parent / "check"
TREE, TALK = Tree(depth=2, fanout=3, steps=2, think_ms=20), Talk(fanout=4, messages=120, batch=5, think_ms=20)
Plant = Callable[[Job, Job], None]
"""Changes a tree and a talk."""


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a tree and a talk have left, whose worker lost a process meanwhile."""
    path = tmp_path_factory.mktemp("left") / "clean.jsonl.gz"
    left: list[Job] = []
    with closing(Fleet()) as fleet:
        worker = fleet.start_worker(3)
        for work in (TREE, TALK):
            job = fleet.submit(work.prompt, fleet.rehearse(work.scenario), max_turns=1_000)
            worker.children()[0].kill()
            job.wait(60)
            log = fleet.workspace / "effects.log"
            left.append(take(fleet.swarm.store.keyspace.client, job.id, effects=log.read_text().splitlines()))
            log.write_text("")
    write(path, left)
    return path


@pytest.fixture
def jobs(clean: Path) -> tuple[Job, Job]:
    """The tree and the talk, to be spoilt."""
    tree, talk = read(clean)
    return tree, talk


def test_what_a_real_run_has_left_is_passed(clean: Path) -> None:
    verdict = run_checker(clean, expect_failed=0)
    assert verdict["faults"] == []
    assert verdict["agents"] == TREE.agents + TALK.agents
    assert (verdict["messages"], verdict["pairs"]) == (TALK.messages, 12)
    assert verdict["effects"] == 18 and verdict["calls"] >= TALK.messages


_ELEMENT = re.compile(r'<message from="[^"]*" agent_id="([^"]*)" kind="message".*?</message>', re.DOTALL)


def _mail_of_a_talker(talk: Job) -> tuple[list[dict[str, Any]], list[str]]:
    """The mail of one that talks, and the messages in it that one of the others sent, in order."""
    history = next(history for history in talk.lives.values() if history.id != talk.record["root"])
    mail = entries_of(history, "mail")
    found = [match for entry in mail for match in _ELEMENT.finditer(entry["text"])]
    return mail, [match[0] for match in found if match[1] == found[0][1]]


def _replace(mail: list[dict[str, Any]], changes: dict[str, str]) -> None:
    for entry in mail:
        entry["text"] = _ELEMENT.sub(lambda match: changes.get(match[0], match[0]), entry["text"])


def _lose_message(_: Job, talk: Job) -> None:
    mail, messages = _mail_of_a_talker(talk)
    _replace(mail, {messages[1]: ""})


def _double_message(_: Job, talk: Job) -> None:
    mail, messages = _mail_of_a_talker(talk)
    _replace(mail, {messages[1]: f"{messages[1]}\n\n{messages[1]}"})


def _reorder_messages(_: Job, talk: Job) -> None:
    mail, messages = _mail_of_a_talker(talk)
    _replace(mail, {messages[0]: messages[1], messages[1]: messages[0]})


def _lose_mail_entry(_: Job, talk: Job) -> None:
    history = next(history for history in talk.lives.values() if history.id != talk.record["root"])
    entry_id, _entry = history.mail[0]
    for entry in entries_of(history, "mail"):
        entry["ids"] = [mail_id for mail_id in entry["ids"] if mail_id != entry_id]


def _lose_notice(_: Job, talk: Job) -> None:
    root = talk.lives[talk.record["root"]]
    entry = next(entry for entry in entries_of(root, "mail") if "<task-notification>" in entry["text"])
    entry["text"] = entry["text"].replace("<task-notification>", "<other>", 1)


def _leaf(tree: Job) -> History:
    return next(history for history in tree.lives.values() if history.record["depth"] == "2")


def _lose_end(tree: Job, _: Job) -> None:
    history = _leaf(tree)
    history.journal.pop()
    history.record["length"] = str(len(history.journal))


def _double_end(tree: Job, _: Job) -> None:
    history = _leaf(tree)
    history.journal.append((f"{len(history.journal) + 1}-0", copy.deepcopy(history.journal[-1][1])))


def _lose_entry(tree: Job, _: Job) -> None:
    del _leaf(tree).journal[2]


def _lose_last_entry(tree: Job, _: Job) -> None:
    _leaf(tree).journal.pop()


def _double_child(tree: Job, _: Job) -> None:
    twin = copy.deepcopy(_leaf(tree))
    tree.lives["agent-twin"] = History("agent-twin", twin.record, twin.journal)


def _lose_child(tree: Job, _: Job) -> None:
    del tree.lives[_leaf(tree).id]


def _double_effect(tree: Job, _: Job) -> None:
    assert tree.effects
    tree.effects.append(tree.effects[0])


def _lose_effect(tree: Job, _: Job) -> None:
    assert tree.effects
    answered = {
        r["tool_use_id"]
        for history in tree.lives.values()
        for r in entries_of(history, "tool_finished")
        if not r["is_error"]
    }
    calls = (b for history in tree.lives.values() for e in entries_of(history, "assistant") for b in e["content"])
    sure = next(b for b in calls if b.get("type") == "tool_use" and b["name"] == "Bash" and b["id"] in answered)
    tree.effects.remove(sure["input"]["command"].split()[1])


def _double_result(tree: Job, _: Job) -> None:
    history = _leaf(tree)
    result = entries_of(history, "tool_finished")[0]
    history.journal.insert(-1, ("0-0", copy.deepcopy(result)))
    history.journal[:] = [(f"{number}-0", entry) for number, (_, entry) in enumerate(history.journal, 1)]


def _lose_result(tree: Job, _: Job) -> None:
    history = _leaf(tree)
    kept = [entry for _, entry in history.journal if entry["kind"] != "tool_finished"]
    history.journal[:] = [(f"{number}-0", entry) for number, entry in enumerate(kept, 1)]
    history.record["length"] = str(len(kept))


def _miscount(tree: Job, _: Job) -> None:
    entries_of(tree.lives[tree.record["root"]], "finished")[-1]["text"] = "DONE 12"


def _overcharge(tree: Job, _: Job) -> None:
    tree.record["output"] = str(int(tree.record["output"]) + 1)


def _write_late(tree: Job, _: Job) -> None:
    _leaf(tree).journal[-1][1]["generation"] = 0


def _leave_lease(tree: Job, _: Job) -> None:
    tree.left["leases"] = 1


PLANTS: dict[str, tuple[Plant, str]] = {
    "a message that was delivered and never read": (_lose_message, "lost:message"),
    "a message that was read twice": (_double_message, "doubled:message"),
    "two messages of one sender that were read the other way round": (_reorder_messages, "reordered:message"),
    "an entry of a mailbox that was never taken in": (_lose_mail_entry, "lost:mail"),
    "a notice that never came": (_lose_notice, "lost:notice"),
    "an agent that never ended": (_lose_end, "lost:agent"),
    "an agent that ended twice": (_double_end, "doubled:agent"),
    "an entry that is gone from a journal": (_lose_entry, "lost:entry"),
    "an entry that is gone from a journal's end": (_lose_last_entry, "lost:entry"),
    "a child that is there twice": (_double_child, "doubled:child"),
    "a child that is gone": (_lose_child, "lost:child"),
    "an effect that happened twice": (_double_effect, "doubled:effect"),
    "an effect that never happened": (_lose_effect, "lost:effect"),
    "a call with two results": (_double_result, "doubled:call"),
    "an action that began and was never heard of again": (_lose_result, "unfinished:call"),
    "an answer that counts wrong": (_miscount, "wrong:answer"),
    "a sum that the journals do not bear out": (_overcharge, "wrong:sum"),
    "an earlier claim that wrote after a later one": (_write_late, "reordered:entry"),
    "a lease that was left": (_leave_lease, "left:key"),
}


@pytest.mark.parametrize("name", PLANTS)
def test_the_checker_finds(jobs: tuple[Job, Job], name: str) -> None:
    import_past, sort = PLANTS[name]
    assert not judge(jobs).faults
    import_past(*jobs)
    assert sort in {fault.sort for fault in judge(jobs).faults}


@pytest.mark.parametrize(
    "import_past", [_lose_message, _double_effect, _reorder_messages], ids=["loss", "double", "reorder"]
)
def test_the_command_fails_because_of_what_is_planted(
    jobs: tuple[Job, Job], import_past: Plant, tmp_path: Path
) -> None:
    import_past(*jobs)
    spoilt = tmp_path / "spoilt.jsonl"
    write(spoilt, jobs)
    command = [sys.executable, "-m", "tests.chaos.check", str(spoilt)]
    ran = subprocess.run(command, cwd=FOLDER.parents[2], capture_output=True, text=True)
    assert ran.returncode == 1 and "BROKEN" in ran.stdout
    waived = run_checker(spoilt, expect_failed=0, waive=("doubled:effect",))
    assert bool(waived["waived"]) == (import_past is _double_effect) and bool(waived["faults"]) != bool(
        waived["waived"]
    )


def test_the_checker_reads_a_redis_itself(at_work: Fleet) -> None:
    job = at_work.submit(TREE.prompt, at_work.rehearse(TREE.scenario))
    job.wait(60)
    client = at_work.swarm.store.keyspace.client
    path = client.connection_pool.connection_kwargs["path"]
    command = [sys.executable, "-m", "tests.chaos.check", f"unix://{path}?db=0", "--job", job.id, "--json"]
    ran = subprocess.run(command, cwd=FOLDER.parents[2], capture_output=True, text=True)
    assert ran.returncode == 0 and json.loads(ran.stdout)["agents"] == TREE.agents, ran.stdout
    last = client.xrevrange(f"swarm:journal:{job.view().root_id}", count=1)[0][0]
    client.xdel(f"swarm:journal:{job.view().root_id}", last)
    ran = subprocess.run(command, cwd=FOLDER.parents[2], capture_output=True, text=True)
    assert ran.returncode == 1 and json.loads(ran.stdout)["lost"] == 2, "the entry, and the end that it was"


def test_the_checker_shares_no_code_with_the_product_or_the_blows() -> None:
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            strange = [name for name in names if name.split(".")[0] == "swarm"]
            strange += [
                name for name in names if name.startswith("tests") and not name.startswith("tests.chaos.check.")
            ]
            assert not strange, f"{path.name} imports {strange}"
