"""A job's agents together: who made whom, what their answers and effects add up to, and what the record says of it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from tests.chaos.check.dump import History, Job
from tests.chaos.check.lives import TERMINAL, calls_of, completed, end_of, entries_of, prompt_of, results_of
from tests.chaos.check.verdict import Fault

_TREE = re.compile(r"\bTREE((?:[ \t]+\w+=[\w.]+)+)")
_DONE = re.compile(r"\bDONE (\d+)\b")
_EFFECT = re.compile(r"^echo (\S+) >> effects\.log$")
_NANO = 1_000_000_000


def check_family(job: Job, *, expect_failed: int = 0) -> Iterator[Fault]:
    """Whatever the journals together give away; `expect_failed` agents are to have been failed by the runtime."""
    yield from _check_births(job)
    yield from _check_outcomes(job, expect_failed)
    yield from _check_answers(job)
    yield from _check_sums(job)
    yield from _check_effects(job)
    for name, size in job.left.items():
        if size:
            yield Fault("left", "key", job.id, f"{name} still holds {size}", size)


def children_of(history: History) -> dict[str, str]:
    """The child of each call that made one, or made it go on, and each grader by its attempt."""
    graders = {f"grader {e['attempt']}.{e['number']} at {e['at']}": e["grader"] for e in entries_of(history, "grading")}
    return graders | {
        call: child for entry in entries_of(history, "spawned") for call, child in entry["children"].items()
    }


def failures(job: Job) -> list[str]:
    """Those that the runtime failed because their processes died and died."""
    ends = {agent_id: end_of(history) for agent_id, history in job.lives.items()}
    return [i for i, end in ends.items() if end and end["state"] == "failed" and "killed its worker" in end["reason"]]


def _check_births(job: Job) -> Iterator[Fault]:
    born: defaultdict[str, list[str]] = defaultdict(list)
    for history in job.lives.values():
        for call, child in children_of(history).items():
            born[child].append(f"{history.id}/{call}")
    root = job.record.get("root", "")
    for agent_id in born.keys() - job.lives.keys():
        yield Fault("lost", "child", agent_id, f"{born[agent_id]} made it, and the job does not know it")
    for agent_id, history in job.lives.items():
        causes, runs = born[agent_id], len(entries_of(history, "started", "resumed"))
        if agent_id != root and not causes:
            yield Fault("doubled", "child", agent_id, "the job knows it, and no call has made it")
        if len(causes) > max(1, runs):
            yield Fault("doubled", "child", agent_id, f"made by {causes}, and lived {runs} times")
        if causes and history.record.get("parent") not in {cause.partition("/")[0] for cause in causes}:
            yield Fault(
                "wrong", "child", agent_id, f"made by {causes}, and the child of {history.record.get('parent')}"
            )
    yield from _check_order_ids(job)


def _check_order_ids(job: Job) -> Iterator[Fault]:
    # Two children of one call would have two ids, but one order.
    orders = {i: order for i, history in job.lives.items() if (order := _order(history))}
    for order_id, times in Counter(order.get("id", "0").rstrip(".") for order in orders.values()).items():
        if times > 1:
            yield Fault(
                "doubled", "child", job.id, f"{times} agents were given the order with id={order_id}", times - 1
            )


def _order(history: History) -> dict[str, str] | None:
    """What the agent of a tree was told to be."""
    first = entries_of(history, "started")[:1]
    orders = _TREE.findall(first[0]["spec"]["prompt"]) if first else []
    return dict(pair.split("=", 1) for pair in orders[-1].split()) if orders else None


def _check_outcomes(job: Job, expect_failed: int) -> Iterator[Fault]:
    known = failures(job)
    if len(known) != expect_failed:
        yield Fault("wrong", "agent", job.id, f"{len(known)} agents were quarantined instead of {expect_failed}")
    for agent_id, history in job.lives.items():
        end = end_of(history)
        if end is not None and end["state"] != "completed" and agent_id not in known and not _is_meant(history):
            yield Fault("wrong", "agent", agent_id, f"{end['state']}: {end['reason'][:200]}")
    root = job.lives.get(job.record.get("root", ""))
    end = root and end_of(root)
    if job.record.get("state") not in TERMINAL or not end or job.record["state"] != end["state"]:
        yield Fault("wrong", "answer", job.id, f"its record says {job.record.get('state')!r}, its root {end!r:.80}")
    elif job.record.get("text", end["text"]) != end["text"]:
        yield Fault("wrong", "answer", job.id, "its result is not what its root said last")


def _is_meant(history: History) -> bool:
    """Whether an agent of a workflow was told to fail, or to be too slow."""
    return prompt_of(history).startswith(("FAIL ", "SLOW "))


def _check_answers(job: Job) -> Iterator[Fault]:
    for agent_id, history in job.lives.items():
        order = _order(history)
        if order is None or not completed(history):
            continue
        children, width = children_of(history), int(order["fanout"]) if int(order["depth"]) else 0
        if len(children) != width:
            kind: Any = "lost" if len(children) < width else "doubled"
            yield Fault(
                kind, "child", agent_id, f"{len(children)} children instead of {width}", abs(len(children) - width)
            )
        told = _number((end_of(history) or {})["text"])
        if told != (wanted := 1 + sum(_answer(job, child) for child in children.values())):
            yield Fault("wrong", "answer", agent_id, f"it counts {told} agents where {wanted} have answered")
        results = results_of(history)
        for call, child in children.items():
            if call in results and _number(results[call]["text"]) != _answer(job, child):
                yield Fault("wrong", "answer", agent_id, f"the result of {call} is not what {child} said")
    yield from _check_total(job)


def _check_total(job: Job) -> Iterator[Fault]:
    root = job.lives.get(job.record.get("root", ""))
    order = _order(root) if root else None
    if root is None or order is None or not completed(root) or failures(job):
        return
    depth, width = int(order["depth"]), int(order["fanout"])
    wanted = sum(width**level for level in range(depth + 1))
    if (told := _number((end_of(root) or {})["text"])) != wanted:
        yield Fault("wrong", "answer", job.id, f"it was to count {wanted} agents, and counts {told}")


def _answer(job: Job, agent_id: str) -> int:
    history = job.lives.get(agent_id)
    return _number((end_of(history) or {})["text"]) if history and completed(history) else 0


def _number(text: str) -> int:
    found = _DONE.search(text)
    return int(found[1]) if found else 0


def _check_sums(job: Job) -> Iterator[Fault]:
    told: Counter[str] = Counter(agents=len(job.lives))
    for history in job.lives.values():
        # Summaries and models that hooks ask are paid for, and are no turns.
        for reply in entries_of(history, "assistant", "compacted", "compaction_failed", "model_failed", "hooked"):
            usage = reply.get("usage", {})
            told["turns"] += reply["kind"] == "assistant"
            told["input"] += usage.get("input_tokens") or 0
            told["output"] += usage.get("output_tokens") or 0
            told["cache_write"] += usage.get("cache_creation_input_tokens") or 0
            told["cache_read"] += usage.get("cache_read_input_tokens") or 0
            told["cost"] += round(reply.get("cost_usd", 0.0) * _NANO)
    for name, amount in told.items():
        if (counted := int(job.record.get(name) or 0)) != amount:
            yield Fault("wrong", "sum", job.id, f"the job counts {name} {counted}, its journals {amount}")


def _check_effects(job: Job) -> Iterator[Fault]:
    if job.effects is None:
        return
    asked: defaultdict[str, list[bool]] = defaultdict(list)
    for history in job.lives.values():
        results = results_of(history)
        for block in calls_of(history):
            if effect := _EFFECT.match(str(block["input"].get("command", ""))):
                result = results.get(block["id"])
                asked[effect[1]].append(result is not None and not result["is_error"])
    lines = Counter(job.effects)
    for line in asked.keys() | lines.keys():
        # A call that was interrupted may have taken effect or not; one with a result has, and none has twice.
        if (more := lines[line] - len(asked[line])) > 0:
            yield Fault("doubled", "effect", job.id, f"{line} {lines[line]} times after {len(asked[line])} calls", more)
        if (less := sum(asked[line]) - lines[line]) > 0:
            yield Fault("lost", "effect", job.id, f"{line} {lines[line]} times after {sum(asked[line])} results", less)
