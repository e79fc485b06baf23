"""The fold: from a journal to the agent's state. Pure.

`History.apply` takes in one entry; `swarm.agent.decision` chooses the next action. Both depend on nothing but the journal (and the kinds
of tools), so the next turn, a restart after a crash and a wake a week later are one code path.

Guarantees: no `tool_use` is ever sent without its `tool_result`; results come first in the user message that answers them;
messages only grow at the end, so a request begins with the last one's bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice

from swarm.agent import notes
from swarm.agent.blocks import drop_images, replace_result, size_of
from swarm.agent.coordination.ledger import WorkLedger
from swarm.agent.cut import (
    TOO_LARGE,
    BindingText,
    Cut,
    cut_messages,
    find_words,
    inherit_context,
    note_cut,
    note_failure,
)
from swarm.agent.entries import (
    Advanced,
    Answered,
    Assistant,
    Compacted,
    CompactionFailed,
    Entry,
    Exchanged,
    Finished,
    Grading,
    Hooked,
    HooksBegun,
    Mail,
    ModelFailed,
    Parked,
    Prompt,
    Redefined,
    Replayed,
    Resumed,
    Ruled,
    Spawned,
    Started,
    Switched,
    ToolFinished,
    ToolStarted,
    Verdict,
)
from swarm.agent.state import HistoryState, ReplyText
from swarm.core.errors import JournalError
from swarm.core.usage import Charge
from swarm.definitions.tools import Kind, row_of
from swarm.models import Block

BAD_IMAGE = "bad_image"
"""Error kind: the model's server cannot use an image of the conversation."""
UNFIT = "unfit"
"""Error kind: a refusal that told facts about the model; the next request is fit."""
LOST = "lost"
"""Error kind: the reply was lost with its worker or its run. It says nothing about the model, so it is no failure to wait after."""
OVERFLOWED = "model_context_window_exceeded"
"""Stop reason of a reply that had no room left."""


@dataclass
class History(HistoryState):
    """State after the entries so far; `apply` takes in the next one."""

    def apply(self, entry: Entry) -> None:
        """Take in the next entry. Raises `JournalError` for one that cannot follow."""
        if (self.finished is None) == isinstance(entry, Resumed):
            raise JournalError(
                f"agent {self.agent_id}: entry {self.length + 1} ({entry.kind}) "
                f"{'follows' if self.finished else 'does not follow'} the end of a run"
            )
        # An agent that never ran can be ended from outside, and continue.
        begins = isinstance(entry, Started) and not isinstance(entry, Redefined)
        if begins == (self.spec is not None) and not isinstance(entry, Finished | Resumed):
            raise JournalError(f"agent {self.agent_id}: entry {self.length + 1} is {entry.kind}; a history starts once")
        self.length += 1
        if self.ledger is not None:
            self.ledger.note(entry, self.length)
        self.began_at = entry.at if begins or isinstance(entry, Resumed | Replayed) else self.began_at
        self.commit = getattr(entry, "commit", "") or self.commit
        if isinstance(entry, Charge):
            for charge in (entry, *entry.beside) if isinstance(entry, Assistant | ToolFinished) else (entry,):
                if not charge.is_free:
                    self.paid += charge
        # Each kind of entry has a method of its name.
        getattr(self, f"_take_{entry.kind}")(entry)

    def inherit(self, parent: History) -> None:
        """Begin a fork: copy the parent's conversation, with a result for each unanswered call."""
        self.system, self.tools, self.kinds, self.opened = parent.system, parent.tools, parent.kinds, parent.opened
        self.servers = dict(parent.servers)
        self.messages = [dict(message) for message in parent.messages]
        self.files_read, self.guided, self.guidance = dict(parent.files_read), set(parent.guided), parent.guidance
        self.call_ids = set(parent.call_ids)
        self.known_tokens, self.new_bytes = parent.known_tokens, parent.new_bytes
        self.context = inherit_context(parent.context, "" if parent.spec is None else parent.spec.prompt)
        if parent.pending:
            results = [
                parent._results.get(
                    call["id"], {"type": "tool_result", "tool_use_id": call["id"], "content": notes.FORKED}
                )
                for call in parent._calls
            ]
            self._extend_user(results)

    def _take_started(self, entry: Started) -> None:
        self.spec, self.system, self.tools = entry.spec, entry.system, entry.tools
        self.kinds, self.offers = dict(entry.kinds), dict(entry.offers)
        self.mode, self.commit = entry.spec.mode, entry.spec.base
        self.guidance, self.hooks.profile = entry.guidance, entry.spec.profile
        if entry.guidance:
            # The first block, on its own: all agents of the job that have it begin alike.
            self._say({"type": "text", "text": entry.guidance})
        self.ledger = WorkLedger() if entry.spec.definition.coordination else None

    def _take_redefined(self, entry: Redefined) -> None:
        self.spec, self.system, self.tools = entry.spec, entry.system, entry.tools
        self.kinds, self.offers, self.opened = dict(entry.kinds), dict(entry.offers), self.length
        if entry.spec.definition.coordination and self.ledger is None:
            self.ledger = WorkLedger()

    def _take_prompt(self, entry: Prompt) -> None:
        self._say({"type": "text", "text": entry.text})
        match entry.purpose:
            case "final_answer":
                self.final_answer = entry
                # The next reply is the answer itself, not the rest of a cut one.
                self.reply_text.break_off()
            case "warning":
                self.warned.add(entry.limit)
            case "schema":
                self.corrections += 1
            case "continue":
                self.reply_text.goes_on = True

    def _take_mail(self, entry: Mail) -> None:
        self.cursor = entry.cursor
        self.mail_taken += len(entry.text)
        self._say({"type": "text", "text": entry.text})
        superiors = set() if self.spec is None else self.spec.superiors
        self.context.said += find_words(entry.text, self.context.runs, superiors)

    def _take_exchanged(self, entry: Exchanged) -> None:
        self.cursor = entry.cursor or self.cursor
        self.wrote = self.wrote or bool(entry.to)

    def _take_model_failed(self, entry: ModelFailed) -> None:
        if entry.error_kind == LOST:
            return
        self.failures += 1
        self.unanswered += entry.away_since > 0
        self.unfit += entry.error_kind == UNFIT
        self.away_since, self.failure = entry.away_since, entry
        if entry.error_kind == BAD_IMAGE and not entry.permanent:
            # A new list, because readers of the old one only look at its end.
            self.messages = drop_images(self.messages)
        self.context.overflows += entry.error_kind == TOO_LARGE

    def _take_switched(self, entry: Switched) -> None:
        self.chosen_id = entry.asked or self.chosen_id
        if entry.model == entry.was:
            if not entry.passed_over:  # The person chose the model in use: later runs keep it, too.
                self.chosen, self.switched, self.switched_in = entry.model, entry, self.context.runs
            return
        self.switched, self.switched_in = entry, self.context.runs
        self.chosen = entry.model if entry.reason == "chosen" else self.chosen
        refused = entry.reason == "overloaded" and self.failure is not None and self.failure.permanent
        if refused or entry.reason in ("gone", "forbidden"):
            self.unusable.add(entry.was)
        if entry.reason != "overloaded":  # A chain of silent models is asked no more often than one.
            self.failures, self.away_since = 0, 0.0
        self.unanswered, self.unfit, self.failure = 0, 0, None
        # The new model counts otherwise, has nothing in its cache, and may summarize in another way.
        self._recount()
        self.context = replace(self.context, text_only=False, failures=0, earlier=0, overflows=0, tried_at=-1_000)

    def _recount(self) -> None:
        """Estimate the whole conversation from its size."""
        self.known_tokens = 0
        self.new_bytes = sum(size_of(block) for message in self.messages for block in message["content"])

    def _take_compaction_failed(self, entry: CompactionFailed) -> None:
        self.context = note_failure(self.context, entry, self.turns)

    def _take_tool_started(self, entry: ToolStarted) -> None:
        self._pending_call(entry.tool_use_id)
        self.tools_started.add(entry.tool_use_id)
        self.waits.pop(entry.tool_use_id, None)

    def _take_spawned(self, entry: Spawned) -> None:
        self.spawned.update(entry.children)
        self.notes.update(entry.notes)
        self.background.update(entry.background)

    def _take_advanced(self, entry: Advanced) -> None:
        self.lived.append(entry)
        calls = {call["id"]: call for call in entry.calls}
        self.pending.update(calls)
        self.call_ids.update(calls)
        for call_id in entry.dropped:
            self.pending.pop(call_id, None)

    def _take_parked(self, entry: Parked) -> None:
        if entry.tool_use_id:
            self.waits[entry.tool_use_id] = entry.condition

    def _take_answered(self, entry: Answered) -> None:
        call = self._pending_call(entry.tool_use_id)
        self.answers[entry.tool_use_id] = entry
        if entry.reason and entry.by:
            self.context.said.append(BindingText(self.context.runs, notes.answer_given(call, entry)))
        if entry.mode == "plan" != self.mode:
            self.before_plan = self.mode
        self.mode = entry.mode or self.mode
        self.plan = entry.plan or self.plan

    def _take_ruled(self, entry: Ruled) -> None:
        self._pending_call(entry.tool_use_id)
        self.ruled[entry.tool_use_id] = entry

    def _take_grading(self, entry: Grading) -> None:
        self.grading = entry

    def _take_replayed(self, _entry: Replayed) -> None:
        self.turns_elsewhere, self.warned, self.corrections = self.turns, set(), 0
        # A branch begins with the model of its own specification.
        self.switched, self.unusable, self.chosen = None, set(), ""
        if self.final_answer_given:
            self.final_answer, self.final_answer_given = None, False

    def _take_finished(self, entry: Finished) -> None:
        self.finished = entry

    def _take_resumed(self, _entry: Resumed) -> None:
        stopped = self.finished is not None and self.finished.state == "cancelled"
        self.broken_off = set(self.pending) - self.tools_started - self.spawned.keys() if stopped else set()
        self.finished = self.final_answer = None
        self.final_answer_given = False
        self.reply_text, self.plan = ReplyText(), ""
        self._end_outage()
        self.continuations = self.corrections = 0
        self.unusable = set()
        self.turns_before = self.turns
        self.leaving = False
        self.hooks.stopped, self.hooks.sent_back = "", 0
        self.warned = set()
        self.verdicts, self.judged, self.grading = [], {}, None
        self.context.runs += 1
        self.context.denials = {}
        self.context.overflows, self.context.bare = 0, False
        if not self.pending:
            self.last = None

    def _take_verdict(self, entry: Verdict) -> None:
        self.grading = None
        self.verdicts.append(entry)
        self.judged[entry.by] = entry
        if entry.text:
            self._say({"type": "text", "text": entry.text})
            self.judged = {}
            if self.last is not None and not self.last.content:
                # The conversation does not hold an empty reply, so the verdict would seem to be about the one before.
                self.last = None
                self.reply_text.break_off()

    def _take_hooks_begun(self, entry: HooksBegun) -> None:
        self.hooks.begin(entry)

    def _take_hooked(self, entry: Hooked) -> None:
        """Apply the hooks' decisions."""
        self.hooks.end(entry)
        call_id = entry.tool_use_id
        if entry.input is not None and call_id in self.pending:
            # The conversation keeps the model's own input, because thinking depends on it.
            self.pending[call_id] = {**self.pending[call_id], "input": entry.input}
        if entry.output is not None and call_id in self._results:
            self._results[call_id] = {**self._results[call_id], "content": entry.output}
            self.new_bytes += replace_result(self.messages, self._results[call_id])
        if entry.text and entry.name != "PreCompact":
            self._say({"type": "text", "text": entry.text})
            if entry.decision == "block" and self.last is not None and not self.last.content:
                self.last = None
                self.reply_text.break_off()

    def _say(self, block: Block) -> None:
        if self.pending:
            self._held.append(block)
        else:
            self._extend_user([block])

    def _extend_user(self, blocks: list[Block]) -> None:
        self.new_bytes += sum(map(size_of, blocks))
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"].extend(blocks)
        else:
            self.messages.append({"role": "user", "content": list(blocks)})

    def _take_assistant(self, entry: Assistant) -> None:
        self.turns, self.mail_taken = self.turns + 1, 0
        if self.failures:
            self._end_outage()
        self.continuations = self.continuations + 1 if entry.stop_reason == "max_tokens" else 0
        self.reply_text.take(entry)
        self.last, self.judged = entry, {}
        self.final_answer_given = self.final_answer is not None
        if entry.usage.total_tokens:
            self.known_tokens, self.new_bytes = entry.usage.total_tokens, 0
        else:
            self.new_bytes += sum(map(size_of, entry.content))
        self.context.fresh = False
        self.context.overflows = self.context.overflows + 1 if entry.stop_reason == OVERFLOWED else 0
        if entry.content:
            before = entry.usage.total_tokens - entry.usage.output_tokens
            self.context.cuts.append(Cut(len(self.messages), self.length - 1, before))
            self.messages.append({"role": "assistant", "content": entry.content})
        self._calls = [block for block in entry.content if block.get("type") == "tool_use"]
        self._results = {}
        self.pending = {call["id"]: call for call in self._calls}
        self.call_ids.update(self.pending)
        self.tools_started = set()
        self.waits, self.answers, self.ruled = {}, {}, {}
        self.hooks.forget_turn()

    def _take_compacted(self, entry: Compacted) -> None:
        """Replace the summarized part by the summary, in new lists: others may hold the old ones."""
        words = "" if self.final_answer is None else self.final_answer.text
        self.messages, cuts = cut_messages(self.messages, self.context.cuts, entry, words)
        self._recount()
        self._end_outage()
        self.guided = set()
        self.context = note_cut(self.context, entry, cuts, turns=self.turns, tokens=self.tokens_to_send())

    def _pending_call(self, tool_use_id: str) -> Block:
        if tool_use_id not in self.pending:
            raise JournalError(f"agent {self.agent_id}: entry {self.length} names the call {tool_use_id}, not pending")
        return self.pending[tool_use_id]

    def _take_tool_finished(self, entry: ToolFinished) -> None:
        self._pending_call(entry.tool_use_id)
        block: Block = {"type": "tool_result", "tool_use_id": entry.tool_use_id, "content": entry.blocks or entry.text}
        if entry.is_error:
            block["is_error"] = True
        if entry.denied:
            self.context.denials[entry.denied] = self.context.denials.get(entry.denied, 0) + 1
        self.commit = entry.commit or self.commit
        self.files_read.update(entry.files)
        self.servers.update(entry.servers)
        self.guided.update(entry.instructions)
        self.files_seen_in.update(dict.fromkeys(entry.files, self.commit))
        self.tool_calls += 1
        if self.lived:
            self.lived.append(entry)
        self._results[entry.tool_use_id] = block
        call = self.pending.pop(entry.tool_use_id)
        # A refused call, or one that never began, took no time.
        if entry.duration_seconds or not entry.is_error or entry.tool_use_id in self.spawned:
            self.hooks.ended[entry.tool_use_id] = call
        if not entry.is_error:
            self._note_success(call)
        if not self.pending:
            self._extend_user([self._results[done["id"]] for done in self._calls])
            held, self._held = self._held, []
            self._extend_user(held)

    def _note_success(self, call: Block) -> None:
        """Record the lasting consequences of a successful call."""
        row, given = row_of(call["name"]), call["input"]
        if row.heartbeat:
            about = f" {given.get(row.subject)}" if row.heartbeat == "each" else ""
            self.context.heartbeat[f"{row.name}{about}"] = given
        if self.kind_of(call) is Kind.SEND:
            self.wrote = True
            self.leaving = self.leaving or (given.get("kind") == "shutdown_response" and given.get("approve") is True)


def fold(
    agent_id: str, entries: Iterable[Entry], journal_of: Callable[[str], Iterable[Entry]] | None = None
) -> History:
    """Fold `entries` into a history; `journal_of` returns the journal that a fork begins with."""
    history = History(agent_id)
    for entry in entries:
        history.apply(entry)
        if isinstance(entry, Started) and entry.spec.fork is not None:
            parent_id = entry.spec.parent_id
            if journal_of is None or parent_id is None:
                raise JournalError(f"agent {agent_id}: a fork needs the journal that it begins with")
            history.inherit(fold(parent_id, islice(journal_of(parent_id), entry.spec.fork)))
    return history
