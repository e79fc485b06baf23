"""The shipped scenario `tree`: a tree of agents of any depth and width that counts its agents.

For a prompt `TREE depth=2 fanout=3 steps=1` the agent spawns three children with depth 1, and so on. Each leaf makes `steps` tool calls,
one a turn. With `write=1` each call adds a line to `effects.log`; with `write=2`, to a file that two siblings share. Every agent answers
`DONE n`, the number of agents in its subtree, so the root's answer shows whether every agent ran exactly once for its parent.
"""

from __future__ import annotations

import re

from swarm.rehearsal.conversation import Conversation
from swarm.rehearsal.scenario import ScriptedCall, ScriptedReply

_TREE = re.compile(r"\bTREE((?:[ \t]+\w+=[\w.]+)+)")
_DONE = re.compile(r"\bDONE (\d+)")


def tree_size(depth: int, fanout: int) -> int:
    """Number of agents in such a tree, with its root: the root's answer."""
    return sum(fanout**level for level in range(depth + 1))


def answer_tree(conversation: Conversation) -> ScriptedReply | None:
    """The reply of one agent of the tree, or None if the prompt asks for no tree."""
    orders = _TREE.findall(conversation.prompt)
    if not orders:
        return None
    # The last match counts, because surrounding text may quote other prompts.
    order = dict(pair.split("=", 1) for pair in orders[-1].split())
    think = float(order.get("think", "0").rstrip(".") or 0) / 1000
    latency = (think, think) if think else None
    depth = _number(order, "depth", 0)
    if depth > 0 and conversation.turn == 0:
        return ScriptedReply(tools=tuple(_branches(order, depth)), latency_seconds=latency)
    if depth > 0:
        found = map(_DONE.search, conversation.results)
        return ScriptedReply(text=f"DONE {1 + sum(int(done[1]) for done in found if done)}", latency_seconds=latency)
    if conversation.turn < _number(order, "steps", 0):
        return ScriptedReply(tools=(_step(order, conversation.turn),), latency_seconds=latency)
    return ScriptedReply(text="DONE 1", latency_seconds=latency)


def _branches(order: dict[str, str], depth: int) -> list[ScriptedCall]:
    kept = "".join(f" {key}={order[key].rstrip('.')}" for key in ("write", "think") if key in order)
    fanout, steps = _number(order, "fanout", 1), _number(order, "steps", 0)
    return [
        ScriptedCall(
            name="Agent",
            input={
                "description": f"tree branch {branch}",
                "prompt": f"TREE depth={depth - 1} fanout={fanout} steps={steps}{kept} id={_id(order)}.{branch}",
                "subagent_type": "general-purpose",
            },
        )
        for branch in range(fanout)
    ]


def _step(order: dict[str, str], step: int) -> ScriptedCall:
    if write := _number(order, "write", 0):
        file = "effects.log" if write == 1 else _file_of_two(_id(order))
        return ScriptedCall(name="Bash", input={"command": f"echo {_id(order)}-{step} >> {file}"})
    return ScriptedCall(name="LS", input={"path": "."})


def _file_of_two(leaf: str) -> str:
    """Name a file shared with one sibling: both create it in their copies, so the copies conflict."""
    parent, _, branch = leaf.rpartition(".")
    return f"effects-{parent}.{_number({'branch': branch}, 'branch', 0) // 2}.log"


def _id(order: dict[str, str]) -> str:
    return order.get("id", "0").rstrip(".")


def _number(order: dict[str, str], key: str, default: int) -> int:
    digits = re.match(r"\d+", order.get(key, ""))
    return int(digits[0]) if digits else default
