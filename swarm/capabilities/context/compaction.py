"""Compaction: replace a conversation that has become too long by a summary.

Its call is like any other: its cost is reserved before, charged after, and the call is made again after a rescue. Only the entry with the
summary changes the conversation, so a crash costs at most the call.

There are three ways:

- The server's own block; the last turn is kept as it was.
- A small model, if the conversation has left the prompt cache and would be charged in full.
- An ordinary reply, if the server makes no blocks.

After the latter two the last turn is rendered as text, because its thinking belongs to a conversation that no longer exists.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm.agent.blocks import BYTES_PER_TOKEN, size_of, text_of
from swarm.agent.compaction import SUMMARY_TOKENS, Compact, cut_of
from swarm.agent.cut import instructions, summary_request
from swarm.agent.decision import CallModel
from swarm.agent.entries import Compacted, CompactionFailed
from swarm.agent.history import BAD_IMAGE, History
from swarm.agent.snapshot import foresee
from swarm.capabilities.context.restoration import restate, tell_tail
from swarm.core.errors import ConfigurationError, PermanentModelError, TransientModelError
from swarm.core.ids import traceparent
from swarm.core.log import EventLog
from swarm.models import Block, ModelRequest, Reply
from swarm.models.catalogue import price_of, resolve_model
from swarm.runtime.budget import CACHE_SECONDS, Prices, reservation_aside
from swarm.runtime.model_call import ModelCall, Reserved, awaited
from swarm.runtime.side_requests import complete_aside
from swarm.runtime.steps import Step, Turn

log = EventLog("swarm.compaction")
_NOT_OURS = frozenset({"authentication", "billing", "spend_limit", BAD_IMAGE})
"""Failures that every request would have; the next reply reports them."""
_NO_SUMMARY = "no_summary"


@dataclass(frozen=True)
class _Plan:
    """The plan for one summary."""

    model: str
    block: bool
    """Whether the server makes a block; else the reply is the summary."""
    kept: int
    """How many of the last replies lie after the summarized part."""
    cached: bool
    """Whether the conversation is read from the prompt cache."""
    own: bool = True
    """Whether the agent's own model makes the summary."""

    @property
    def replays(self) -> int:
        """How many of the kept replies stay as they were."""
        return self.kept if self.block and self.own else 0


class CompactionStep(Step):
    """The compaction of one running agent."""

    takes = (Compact,)

    @property
    def _history(self) -> History:
        return self.segment.history

    @property
    def _prices_file(self) -> Path | None:
        return self.segment.settings.prices_file

    @property
    def _call(self) -> ModelCall:
        return self.parts.model_call

    def before_request(self, action: CallModel | Compact) -> Turn | bool:
        """Compact the conversation; a failure is journaled. Raises `Interrupted`, `UnfitWorker`."""
        assert isinstance(action, Compact)
        focus = self.before(action)
        if action.bare:
            self._cut(action, Compacted(form="bare", state=self._restate(self._history.messages[-2:])))
            return True
        plan = self._plan(action)
        bounds = self._call.bounds()
        assert bounds is not None, "a compacted conversation has bounds"
        most = bounds.summary
        tokens = cut_of(self._history, plan.kept).tokens or self._history.tokens_to_send()
        reservation = reservation_aside(
            tokens,
            Prices(plan.model, self._prices_file),
            cached=tokens if plan.cached else 0,
            most=most,
            # The text after the summary is shorter than the summarized part, so this is enough.
            closing=self._call.closing(0),
        )
        reserved = self._call.reserve(reservation)
        if not isinstance(reserved, Reserved):
            return awaited(reserved) or True
        self._request(action, plan, focus, reserved.room or most)
        return True

    def _restate(self, tail: list[dict[str, Any]]) -> str:
        """Render the state from records; `tail` is the part that neither the conversation nor the summary keeps."""
        return restate(self.parts.toolbox.context_of(""), self._history, tail=tell_tail(tail) if tail else "")

    def before(self, action: Compact) -> str:
        """Run the `PreCompact` hooks before a summary. Returns what the summary must contain above all."""
        wanted = "" if action.wanted is None else action.wanted.focus
        return "\n\n".join(filter(None, [wanted, self._history.hooks.focus]))

    def _plan(self, action: Compact) -> _Plan:
        own, history = self.segment.model_id, self._history
        last = history.last
        cached = last is not None and self.segment.claim.now() - last.at < CACHE_SECONDS
        block = not history.context.text_only and self.segment.model.summarizes(own)
        if not cached and action.trigger != "overflow" and not history.context.failures:
            small = self._find_small(cut_of(history, action.kept).tokens)
            if small not in (None, own):
                return _Plan(
                    small, block and self.segment.model.summarizes(small), action.kept, cached=False, own=False
                )
        return _Plan(own, block, action.kept, cached=cached)

    def _find_small(self, tokens: int) -> str | None:
        """Return a model that reads the whole conversation for less, if there is one."""
        own, wanted = self.segment.model_id, self.segment.settings.small_model
        try:
            small = resolve_model(wanted, default=own, parent=own, prices_file=self._prices_file)
        except ConfigurationError as error:
            log.warning("compaction.no_small_model", error=error)
            return None
        ours, its = (price_of(model, prices_file=self._prices_file) for model in (own, small))
        if ours is None or its is None or its.context_window < tokens + 2 * SUMMARY_TOKENS:
            return None
        return small if its.rates_for(tokens).input < ours.rates_for(tokens).input else None

    def _request(self, action: Compact, plan: _Plan, focus: str, room: int) -> None:
        history = self._history
        messages = history.messages[: cut_of(history, plan.kept).place]
        if not plan.block:
            # The previous request, byte for byte, and one block more.
            ask = {"type": "text", "text": summary_request(focus)}
            messages = [*messages[:-1], {**messages[-1], "content": [*messages[-1]["content"], ask]}]
        request = ModelRequest(
            model=plan.model,
            system=history.system,
            messages=messages,
            tools=history.tools,
            max_tokens=room,
            tools_allowed=True,
            effort=self.segment.spec.definition.effort,
            summarize=instructions(focus) if plan.block else None,
            kept={},
            facts=self._call.facts.of(plan.model),
            traceparent=traceparent(
                self.segment.spec.job_id, self.segment.spec.agent_id, self.segment.journal.next_number
            ),
        )
        began = time.monotonic()
        self.segment.store.events.show_activity(self.segment.claim, "summarizing its conversation")
        try:
            with self.segment.stop.waiting():
                reply = self._complete(request, plan)
        except (PermanentModelError, ConfigurationError, TransientModelError) as error:
            self._note(action, plan, error)
            return
        block, summary = _read(reply, plan)
        about: dict[str, Any] = {
            "trigger": action.trigger,
            "asked": action.wanted.id if action.wanted is not None else "",
            **dict(self._call.charge(reply.model, reply.usage)),
            "request_id": reply.request_id,
        }
        if not summary:
            why = f"the reply held no summary (it stopped with {reply.stop_reason})"
            self._fail(CompactionFailed(error=why, error_kind=_NO_SUMMARY, **about))
            return
        place = cut_of(history, plan.kept).place
        kept = plan.replays if self._fits(history.messages[place:]) else 0
        entry = Compacted(
            form="block" if plan.block else "text",
            kept=kept,
            through=cut_of(history, plan.kept).entry,
            block=block,
            summary=summary,
            state=self._restate([] if kept else history.messages[place:]),
            focus=focus,
            request_sha=reply.request_sha,
            duration_seconds=time.monotonic() - began,
            **about,
        )
        self._cut(action, entry)

    def _complete(self, request: ModelRequest, plan: _Plan) -> Reply:
        if plan.own:
            return self.segment.model.complete(request, on_limits=self._call.share.heed)
        tokens = sum(size_of(block) for message in request.messages for block in message["content"])
        return complete_aside(self.segment, request, int(tokens / BYTES_PER_TOKEN))

    def _fits(self, messages: list[dict[str, Any]]) -> bool:
        """Whether these messages can stay as they were and leave room for more."""
        size = sum(size_of(block) for message in messages for block in message["content"])
        bounds = self._call.bounds()
        assert bounds is not None, "a compacted conversation has bounds"
        return size / BYTES_PER_TOKEN < bounds.hard / 2

    def _cut(self, action: Compact, entry: Compacted) -> None:
        entry = entry.model_copy(update={"tokens_before": self._history.tokens_to_send(), "trigger": action.trigger})
        entry = self.segment.journal.stamp(entry)
        entry = entry.model_copy(update={"folded": foresee(self._history, entry)})
        call = self._call.share.end(entry.usage) if entry.model == self.segment.model_id else None
        self.segment.journal.append([entry], activity="summarizing", settle=self._call.reserves, call=call)
        log.info(
            "agent.compacted",
            agent_id=self.segment.spec.agent_id,
            trigger=entry.trigger,
            form=entry.form,
            before=entry.tokens_before,
            after=self._history.tokens_to_send(),
        )

    def _note(
        self, action: Compact, plan: _Plan, error: PermanentModelError | ConfigurationError | TransientModelError
    ) -> None:
        other = not plan.own
        if (
            isinstance(error, PermanentModelError)
            and (error.kind not in _NOT_OURS or other)
            and (error.kind != "permission" or other or self.segment.spec.base_url is not None)
        ):
            asked = action.wanted.id if action.wanted is not None else ""
            self._fail(
                CompactionFailed(
                    error=str(error),
                    error_kind=error.kind,
                    trigger=action.trigger,
                    asked=asked,
                    **{**dict(self._call.charge_told(error)), "model": plan.model},
                )
            )
            return
        self._call.note_failure(error)

    def _fail(self, entry: CompactionFailed) -> None:
        log.warning("compaction.failed", agent_id=self.segment.spec.agent_id, kind=entry.error_kind, error=entry.error)
        self.segment.journal.append([entry], settle=self._call.reserves)


def _read(reply: Reply, plan: _Plan) -> tuple[Block | None, str]:
    """Return the block, if any, and the summary; an empty one if the reply holds none."""
    if plan.block:
        blocks = [block for block in reply.content if block.get("type") == "compaction" and block.get("content")]
        return (blocks[0], str(blocks[0]["content"])) if len(blocks) == 1 == len(reply.content) else (None, "")
    calls = any(block.get("type") == "tool_use" for block in reply.content)
    whole = reply.stop_reason == "end_turn" and not calls
    return None, text_of(reply.content).strip() if whole else ""
