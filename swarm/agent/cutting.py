"""Cutting a conversation: what its requests hold after a summary has taken the place of its beginning. Pure.

What is kept of it stays byte for byte what it was, and follows the block at once: thinking in it is bound to what came before.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import replace
from typing import Any

from swarm.agent.context import Context, Cut, Said
from swarm.agent.entries import Compacted, CompactionFailed
from swarm.agent.summaries import summary_message

LEAST_GAIN = 0.3
"""What a summary must save of the conversation at least, to count as a success."""
TOO_LARGE = "too_large"
"""The kind of a failure that says: the conversation does not fit the model."""
_NO_BLOCK = frozenset({"bad_request", "not_found", "permission", "no_summary"})
"""Kinds of failures after which a summary is asked for as an ordinary message."""
_MESSAGE = re.compile(r'<message [^>]*?\bagent_id="([^"]*)"[^>]*>\n.*?\n</message>', re.DOTALL)
"""As they are rendered: only the runtime can write these tags."""


def cut_messages(
    messages: list[dict[str, Any]], cuts: list[Cut], entry: Compacted, last_words: str
) -> tuple[list[dict[str, Any]], list[Cut]]:
    """The messages that are left, none of those that were given changed, and where they can be cut again.

    `last_words` is what the agent was asked for, if it was: it is asked again where nothing is kept.
    """
    place = cuts[-entry.kept].place if entry.kept else len(messages)
    head: list[dict[str, Any]] = []
    if entry.form == "block" and entry.block is not None:
        head = [{"role": "assistant", "content": [entry.block]}]
    elif entry.summary:
        head = [{"role": "user", "content": [_text(summary_message(entry.summary))]}]
    after = [_text(entry.state)]
    if last_words and not entry.kept:
        after.append(_text(last_words))
    left = head + messages[place:]
    if left and left[-1]["role"] == "user":
        left[-1] = {**left[-1], "content": [*left[-1]["content"], *after]}
    else:
        left.append({"role": "user", "content": after})
    # The block is one message.
    return left, [Cut(cut.place - place + 1, cut.entry, 0) for cut in cuts if cut.place >= place]


def note_cut(context: Context, entry: Compacted, cuts: list[Cut], *, turns: int, tokens: int) -> Context:
    """What is known after a cut that left so many tokens."""
    bare = entry.form == "bare"
    gained = bare or entry.tokens_before - tokens >= LEAST_GAIN * entry.tokens_before
    return replace(
        context,
        cuts=cuts,
        compactions=context.compactions + 1,
        tried_at=turns,
        failures=0 if gained else context.failures + 1,
        earlier=0,
        fresh=True,
        # One that could only not be summarized because it is a single turn goes on.
        bare=context.bare or (bare and (context.overflows > 1 or context.failures > 0)),
        asked=entry.asked or context.asked,
    )


def note_failure(context: Context, entry: CompactionFailed, turns: int) -> Context:
    """What is known after an attempt that failed."""
    return replace(
        context,
        tried_at=turns,
        failures=context.failures + 1,
        earlier=context.earlier + (entry.error_kind == TOO_LARGE),
        text_only=context.text_only or entry.error_kind in _NO_BLOCK,
        asked=entry.asked or context.asked,
    )


def inherit_context(parent: Context, task: str) -> Context:
    """What a fork knows of the conversation that it begins with, which was about its parent's `task`."""
    return Context(
        cuts=[replace(cut, entry=0) for cut in parent.cuts],
        text_only=parent.text_only,
        said=[Said(0, f"The task of the agent that you were forked from:\n{task}"), *parent.said],
        standing=dict(parent.standing),
    )


def find_words(mail: str, run: int, superiors: Set[str]) -> list[Said]:
    """Those of these messages, as they were rendered, that come from one of the `superiors`: they bind, whatever a summary makes of it."""
    if not any(f'agent_id="{who}"' in mail for who in superiors):
        return []
    return [Said(run, found[0]) for found in _MESSAGE.finditer(mail) if found[1] in superiors]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
