"""Convert journal entries to items; all decisions on what readers see are here. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swarm.agent import entries as e
from swarm.agent.items import Fate, Item, Level, MadeCall, Passage
from swarm.agent.passages import describe_images, detail, join, read_block, read_messages, write
from swarm.core.usage import Charge, dollars_known

_PURPOSES = {
    "task": "task",
    "continue": "continues",
    "warning": "warning of the runtime",
    "final_answer": "asked for its final answer",
    "schema": "the answer was sent back",
    "coordination": "the end came too early",
}
_RULINGS = {"allow": "allowed", "deny": "denied", "ask": "left to a person"}
_SWITCHES = {
    "overloaded": "it does not answer",
    "gone": "its server does not know it",
    "forbidden": "it may not be used here",
    "chosen": "a person chose so",
    "new run": "a new run begins with the first model",
}
_DECISIONS = {"deny": "denied", "block": "sent back", "ask": "wants a person asked", "allow": "allowed"}
_UNHEARD = {
    "failed": "failed",
    "timed_out": "took too long",
    "interrupted": "was interrupted",
    "not_run": "was not run",
}


class Narrator:
    """Converts one journal, entry by entry. It may begin anywhere."""

    def __init__(self) -> None:
        self._calls: dict[str, MadeCall] = {}
        self._said, self._rehearsed = "", False

    def item(self, entry: e.Entry) -> Item:
        """Return the item of the next entry."""
        item: Item = getattr(self, f"_{entry.kind}")(entry)
        calls = [self._calls[fate.call].words for fate in item.fates if fate.call in self._calls]
        return item.model_copy(update={"at": entry.at, "about": ", ".join(calls)})

    def _cost(self, entry: Charge) -> float | None:
        return dollars_known(entry.counters(), rehearsed=self._rehearsed)

    # -- the talk ----------------------------------------------------------------------------------------------

    def _started(self, entry: e.Started, title: str = "began") -> Item:
        spec = entry.spec
        self._rehearsed = spec.base_url is not None
        about = [
            f"{spec.label} ({spec.agent_id} of {spec.job_id})",
            f"model {spec.model}",
            f"mode {spec.mode}",
            f"depth {spec.depth} of {spec.limits.max_depth}",
            f"workspace {spec.workspace}",
            *(["rehearsed: the model's words come from a script and cost nothing"] if self._rehearsed else []),
        ]
        names = [str(tool["name"]) for tool in entry.tools]
        parts = [detail("tools", ", ".join(names) or "none"), detail("system prompt", entry.system)]
        if entry.guidance:
            parts.append(detail("instruction files", entry.guidance))
        return Item(
            kind="start",
            title=title,
            aside=", ".join(about),
            parts=parts,
            facts={"tools": names, "workspace": spec.workspace, "task": spec.prompt},
        )

    def _advanced(self, entry: e.Advanced) -> Item:
        made = [part for part in map(read_block, entry.calls) if isinstance(part, MadeCall)]
        self._calls.update({call.call: call for call in made})
        said = [Passage(text=f"{note.kind}: {note.text}", form="plain") for note in entry.notes]
        fates = [Fate(call=call_id, outcome="given up") for call_id in entry.dropped]
        facts = {"tool_calls": [{"tool_use_id": one["id"], **one} for one in entry.calls]}
        return Item(kind="reply", title="the program continues", parts=[*said, *made], fates=fates, facts=facts)

    def _redefined(self, entry: e.Redefined) -> Item:
        return self._started(entry, "continues with another definition")

    def _prompt(self, entry: e.Prompt) -> Item:
        limit = f"limit of {entry.limit}" if entry.limit else ""
        facts = {"purpose": entry.purpose, "text": entry.text}
        title = _PURPOSES[entry.purpose]
        return Item(kind="prompt", title=title, aside=limit, parts=[Passage(text=entry.text)], facts=facts)

    def _assistant(self, entry: e.Assistant) -> Item:
        parts = [read_block(block) for block in entry.content]
        made = [part for part in parts if isinstance(part, MadeCall)]
        self._calls.update({call.call: call for call in made})
        self._said = join(parts, "prose")
        stop = "" if entry.stop_reason in ("end_turn", "tool_use") else entry.stop_reason
        usage = entry.usage
        return Item(
            kind="reply",
            title="reply",
            aside=", ".join(filter(None, ["of a program" if entry.model == "program" else "", stop])),
            parts=parts,
            seconds=entry.duration_seconds,
            tokens={
                "read": usage.total_tokens - usage.output_tokens,
                "cached": usage.cache_read_input_tokens,
                "written": usage.output_tokens,
            },
            cost_usd=self._cost(entry),
            facts={
                "text": self._said,
                "thinking": join(parts, "thought"),
                "tool_calls": [{"tool_use_id": call.call, "name": call.name, "input": call.input} for call in made],
                **{name: getattr(entry, name) for name in ("stop_reason", "model", "usage")},
                "cost_usd": self._cost(entry),
            },
        )

    def _model_failed(self, entry: e.ModelFailed) -> Item:
        wait = entry.retry_at - entry.at
        return Item(
            kind="failure",
            title=f"the model failed ({entry.error_kind}): {entry.error}",
            aside=f"tries again after {wait:,.0f} seconds" if wait > 0 else "",
            level="bad" if entry.permanent else "doubt",
            cost_usd=self._cost(entry) if entry.usage.total_tokens else None,
            estimated_usd=0.0 if self._rehearsed else entry.estimated_usd,
            facts={name: getattr(entry, name) for name in ("error", "error_kind", "permanent")},
        )

    def _switched(self, entry: e.Switched) -> Item:
        if entry.model == entry.was and entry.passed_over:
            title = f"still asks {entry.model}, although {entry.why or 'a person'} chose another model"
        elif entry.model == entry.was:
            title = f"asks {entry.model} in later runs, too: {_SWITCHES[entry.reason]}"
        else:
            title = f"asks {entry.model} from now on, no longer {entry.was}: {_SWITCHES[entry.reason]}"
        passed = [f"{model} was passed over: {why}" for model, why in entry.passed_over.items()]
        return Item(
            kind="note",
            title=title,
            aside="; ".join(filter(None, [entry.why, *passed])),
            level="doubt" if entry.reason in ("overloaded", "gone", "forbidden") else "",
            facts={"model": entry.model, "was": entry.was, "reason": entry.reason, "why": entry.why},
        )

    def _mail(self, entry: e.Mail) -> Item:
        return Item(kind="mail", title="mail", parts=read_messages(entry.text), facts={"ids": entry.ids})

    def _exchanged(self, entry: e.Exchanged) -> Item:
        title = f"sent to {entry.to}" if entry.to else "read by the program"
        return Item(kind="exchange", title=title, parts=[Passage(text=entry.text, form="plain")])

    def _compacted(self, entry: e.Compacted) -> Item:
        last = "the last reply" if entry.kept == 1 else f"the last {entry.kept} replies"
        above = f"the text above except {last}" if entry.kept else "the text above"
        summary = entry.summary or "(No summary could be made: it continues from records alone.)"
        how = f"{entry.trigger}, {entry.tokens_before:,} tokens before, by {entry.model or 'no model'}"
        return Item(
            kind="cut",
            title=f"the model now sees a summary instead of {above}",
            aside=how,
            parts=[Passage(text=summary), detail("state from records", entry.state)],
            cost_usd=self._cost(entry),
            facts={
                **{name: getattr(entry, name) for name in ("trigger", "form", "model")},
                "tokens_before": str(entry.tokens_before),
            },
        )

    def _compaction_failed(self, entry: e.CompactionFailed) -> Item:
        return Item(kind="note", title=f"no summary was made ({entry.error_kind}): {entry.error}", level="doubt")

    # -- calls -------------------------------------------------------------------------------------------------

    def _tool_started(self, entry: e.ToolStarted) -> Item:
        return Item(kind="begun", title="begins", fates=[Fate(call=entry.tool_use_id, outcome="running")])

    def _tool_finished(self, entry: e.ToolFinished) -> Item:
        outcome = "denied" if entry.denied else "failed" if entry.is_error else "done"
        level: Level = "good" if outcome == "done" else "bad"
        parts = [Passage(text=entry.text, form="plain"), *describe_images(entry.blocks or [])]
        call = self._calls.get(entry.tool_use_id)
        facts = {field: getattr(entry, field) for field in ("tool_use_id", "text", "is_error", "duration_seconds")}
        return Item(
            kind="result",
            title="error" if entry.is_error else "result",
            level=level,
            parts=parts,
            fates=[Fate(call=entry.tool_use_id, outcome=outcome, level=level)],
            seconds=entry.duration_seconds,
            facts={**facts, "name": call.name if call else ""},
        )

    def _spawned(self, entry: e.Spawned) -> Item:
        fates = [
            Fate(call=call, outcome="in the background" if call in entry.background else "at work", agent=child)
            for call, child in entry.children.items()
        ]
        return Item(kind="spawn", title=f"started {', '.join(entry.children.values())}", fates=fates)

    def _answered(self, entry: e.Answered) -> Item:
        by = f" by {entry.by}" if entry.by else ""
        mode = f", and continues in the mode {entry.mode}" if entry.mode else ""
        word = "answered" if entry.allowed else "denied"
        level: Level = "good" if entry.allowed else "bad"
        return Item(
            kind="answer",
            title=f"{word}{by}{mode}",
            level=level,
            parts=[Passage(text=entry.reason)] if entry.reason else [],
            fates=[Fate(call=entry.tool_use_id, outcome=word, level="" if entry.allowed else "bad")],
        )

    def _ruled(self, entry: e.Ruled) -> Item:
        word = _RULINGS[entry.answer]
        return Item(
            kind="ruling",
            title=f"{word} by a small model ({entry.reason})",
            level="quiet",
            fates=[Fate(call=entry.tool_use_id, outcome=word, level="bad" if entry.answer == "deny" else "")],
        )

    def _hooks_begun(self, entry: e.HooksBegun) -> Item:
        return Item(kind="begun", title=f"hooks run: {entry.event}")

    def _hooked(self, entry: e.Hooked) -> Item:
        call = entry.tool_use_id
        bad = entry.decision in ("deny", "block") or entry.stop or any(run.why for run in entry.runs)
        parts = []
        if entry.input is not None:
            parts.append(Passage(title="instead", text=write(entry.input), form="plain"))
        if entry.text and entry.decision != "block":
            parts.append(Passage(text=entry.text))
        denied = entry.decision == "deny"
        return Item(
            kind="hooks",
            title=f"hook on {entry.name}: {describe_hooked(entry)}",
            level="doubt" if bad else "" if entry.changed or entry.said else "quiet",
            parts=parts,
            fates=[Fate(call=call, outcome="denied" if denied else "", level="bad" if denied else "")] if call else [],
        )

    # -- runs --------------------------------------------------------------------------------------------------

    def _parked(self, entry: e.Parked) -> Item:
        waits_for = entry.condition.describe()
        title = f"waits for {waits_for}"
        fates = [Fate(call=entry.tool_use_id, outcome=title)] if entry.tool_use_id else []
        return Item(kind="wait", title=title, level="quiet", fates=fates, facts={"waits_for": waits_for})

    def _grading(self, entry: e.Grading) -> Item:
        return Item(kind="note", title=f"attempt {entry.attempt} is judged by a grader", agent=entry.grader)

    def _verdict(self, entry: e.Verdict) -> Item:
        name = "its output" if entry.by == "check" else "its findings"
        report = Passage(text=entry.report, title=name, form="plain", detail=entry.passed)
        return Item(
            kind="verdict",
            title=f"{entry.headline}: {entry.summary}",
            level="good" if entry.passed else "bad",
            parts=[report] if entry.report else [],
            seconds=entry.duration_seconds,
        )

    def _resumed(self, entry: e.Resumed) -> Item:
        return Item(kind="note", title="continues after its end: it received a message")

    def _replayed(self, entry: e.Replayed) -> Item:
        return Item(kind="note", title="continues from here: earlier entries are another job's")

    def _finished(self, entry: e.Finished) -> Item:
        text = entry.text.strip()
        parts = [Passage(text=text, repeated=text == self._said.strip())] if text else []
        if entry.data is not None:
            parts.append(detail("as data", write(entry.data)))
        return Item(
            kind="end",
            title=f"{entry.state.replace('_', ' ')}{f': {entry.reason}' if entry.reason else ''}",
            level="good" if entry.state == "completed" else "bad",
            parts=parts,
        )


def tell(entries: Iterable[e.Entry]) -> Iterator[Item]:
    """Return the items of a journal."""
    return map(Narrator().item, entries)


def since_cut(entries: list[e.Entry]) -> list[e.Entry]:
    """Return the start and the entries that the model still sees unchanged."""
    cut = next((entry for entry in reversed(entries) if isinstance(entry, e.Compacted)), None)
    if cut is None:
        return entries
    first = cut.through if cut.kept else entries.index(cut)
    return [*entries[:1], *entries[max(1, first) :]]


def describe_hooked(hooked: e.Hooked) -> str:
    """Describe the decisions, changes and faults of an event's hooks: `denied: no force pushes`."""
    told = []
    if hooked.decision:
        told.append(f"{_DECISIONS[hooked.decision]}{f': {hooked.reason}' if hooked.reason else ''}")
    if hooked.input is not None:
        told.append("changed the call's input")
    if hooked.output is not None:
        told.append("changed the call's result")
    if hooked.text and hooked.decision != "block":
        told.append("gave the agent a text")
    told += [each for each in (hooked.stop, hooked.said) if each]
    told += [
        f"{run.label} ({run.source}) {_UNHEARD[run.outcome]}{f': {run.why}' if run.why else ''}"
        for run in hooked.runs
        if run.outcome in _UNHEARD
    ]
    return "; ".join(told) or "nothing to say"
