"""Approvals: rules and modes decide about each call before it runs, and may ask somebody.

The agent parks on a question, so it holds no process while it waits. The answer enters the journal; the call then runs, or is refused
with the reason as its result. A denial never looks like success.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from swarm.agent import notes
from swarm.agent.entries import Answered, Entry, Hooked, ToolFinished
from swarm.agent.history import History
from swarm.agent.spec import AgentSpec
from swarm.core.ids import question_id
from swarm.definitions.model import PermissionMode
from swarm.definitions.tools import Kind, row_of
from swarm.mailbox import render_event, write_out
from swarm.models import Block
from swarm.permissions.judge import JudgedCall, Judgement, find_plain_look, judge
from swarm.permissions.lasting_rules import always_rule
from swarm.permissions.modes import AFTER_PLAN, at_most
from swarm.permissions.rules import Rules
from swarm.runtime.auto_mode import AutoMode
from swarm.runtime.segment import Segment
from swarm.runtime.toolbox import Toolbox, from_workspace
from swarm.store.questions import MAX_DETAIL_CHARACTERS, Ask, Question
from swarm.tools.registry import load_tool

REQUEST_SECONDS = 3_600.0
"""Time limit for another agent's answer to a plan or a shutdown request."""


@dataclass
class Decision:
    """The decision about some calls."""

    run: list[Block] = field(default_factory=list)
    settled: list[Answered | ToolFinished] = field(default_factory=list)
    """Entries for the journal: answers, and the results of calls that do not run."""
    denied: list[tuple[Block, str]] = field(default_factory=list)
    """Denied calls with reasons, to show to people."""
    questions: list[tuple[str, Ask, str]] = field(default_factory=list)
    """The open questions: each one's id, the question, and the id of its call."""

    @property
    def question(self) -> tuple[str, Ask, str] | None:
        """The first open question."""
        return self.questions[0] if self.questions else None


class Approvals:
    """Decides about the calls of one running agent."""

    def __init__(self, segment: Segment, toolbox: Toolbox, auto: AutoMode | None = None) -> None:
        self._segment, self._toolbox, self._auto = segment, toolbox, auto
        self._questions = segment.store.questions
        self._looked: dict[str, str] = {}
        self._foreseen: dict[str, str] = {}

    def decide(self, calls: Sequence[Block]) -> Decision:
        """Decide about each call. A model's questions are asked one at a time, a program's all at once."""
        decision = Decision()
        for call in calls:
            if call["name"] not in self._segment.history.tool_names():
                decision.run.append(call)  # which refuses it
            elif row_of(call["name"]).kind is Kind.ASK:
                self._put_question(call, decision)
            else:
                self._decide(call, decision)
        return decision

    def decide_outside(self, call: Block) -> Decision:
        """Decide about a call that another program makes and carries out, and so is neither tried nor foreseen."""
        decision = Decision()
        self._decide(call, decision, outside=True)
        return decision

    def judge(self, call: Block) -> Judgement:
        """Judge a call by the rules and the mode in force."""
        return self._judge(call)

    def question_id(self, call: Block) -> str:
        """Return the id of the question about a call."""
        return question_id(self._segment.spec.agent_id, call["id"])

    def refuse(self, call: Block) -> str:
        """Explain why a call may not run without a question; empty if it may."""
        if call["name"] not in self._segment.history.tool_names():
            return f"You do not have the tool {call['name']}."
        verdict = self._judge(call)
        return (
            "" if verdict.action == "allow" else f"Not allowed: {verdict.reason}. Make a separate {call['name']} call."
        )

    def _describe(self, call: Block) -> JudgedCall:
        given = call["input"] if isinstance(call["input"], dict) else {}
        looks = self._segment.history.kinds.get(call["name"]) == "look"
        described = _describe(self._segment, call["name"], given, sandboxed=self._toolbox.is_sandboxed())
        names = self._toolbox.names_of(described.row, given)
        return replace(described, looks=looks, names=names) if looks or names else described

    def _judge(self, call: Block) -> Judgement:
        return judge(self._describe(call))

    def _decide(self, call: Block, decision: Decision, *, outside: bool = False) -> None:
        segment = self._segment
        verdict = _hear_hooks(self._judge(call), segment.history.hooks.leave.get(call["id"]))
        if verdict.look and not outside and not self._is_asked(call):
            looked = self._look(call)
            if isinstance(looked, ToolFinished):
                decision.settled.append(looked)
                return
            verdict = replace(verdict, reason=f"{verdict.reason}; a look was not enough: {looked}")
        if verdict.action == "ask" and not outside and isinstance(failed := self._foresee(call), ToolFinished):
            decision.settled.append(failed)
            return
        ruled = self._auto.rule(call, verdict) if verdict.action == "ask" and self._auto is not None else None
        if ruled is not None and ruled.answer != "ask":
            allowed, reason = ruled.answer == "allow", f"{ruled.reason} (a small model says so, in the mode auto)"
            words = f"Not allowed: {reason}."
        elif verdict.action == "ask":
            answer = self._find_answer(call, self._ask_leave(call, verdict), decision)
            if answer is None:
                return
            allowed, reason, words = answer.allowed, answer.reason, f"{answer.reason} ({verdict.reason}.)"
        else:
            allowed, reason = verdict.action == "allow", verdict.reason
            words = f"Not allowed: {reason}."
        if allowed and row_of(call["name"]).sets_mode:
            self._change_mode(call, row_of(call["name"]).sets_mode or "plan", decision)
        elif allowed:
            decision.run.append(call)
        else:
            about = f"({verdict.rule.text})" if verdict.rule is not None else _subject(call)
            text = f"{words} {notes.NOT_APPROVED}"
            decision.settled.append(deny(segment.history, call, text, about, decision.settled))
            decision.denied.append((call, reason))

    def _is_asked(self, call: Block) -> bool:
        """Whether a question about the call exists already."""
        asked_id = self.question_id(call)
        return call["id"] in self._segment.history.answers or self._questions.find(asked_id) is not None

    def _look(self, call: Block) -> ToolFinished | str:
        """Try a call once where it can have no effect; returns its result, or why that failed."""
        if call["id"] not in self._looked:
            self._segment.journal.flush()
            argv = None if self._toolbox.is_sandboxed() else find_plain_look(self._describe(call))
            looked = self._toolbox.look(call, argv)
            if isinstance(looked, ToolFinished):
                return looked
            self._looked[call["id"]] = looked
        return self._looked[call["id"]]

    def _foresee(self, call: Block) -> ToolFinished | None:
        """Note what a call would change, for its question; returns the result of a call that cannot work."""
        home = row_of(call["name"]).home
        if not home or load_tool(home).foresee is None or self._is_asked(call):
            return None
        self._segment.journal.flush()
        foreseen = self._toolbox.foresee(call)
        if isinstance(foreseen, ToolFinished):
            return foreseen
        self._foreseen[call["id"]] = foreseen
        return None

    def _change_mode(self, call: Block, mode: PermissionMode, decision: Decision) -> None:
        """Settle a call that only changes the mode in force. The request prefix stays as it is."""
        if self._segment.mode == mode:
            decision.settled.append(
                ToolFinished(tool_use_id=call["id"], text=f"You are in {mode} mode already.", is_error=True)
            )
            return
        decision.settled.append(Answered(tool_use_id=call["id"], allowed=True, mode=mode))
        text = notes.plan_entered(self._segment.spec.plan_file)
        decision.settled.append(ToolFinished(tool_use_id=call["id"], text=text))

    def _ask_leave(self, call: Block, verdict: Judgement) -> Ask:
        detail = json.dumps(call["input"], ensure_ascii=False, indent=2)
        foreseen = filter(None, [self._foreseen.get(call["id"])])
        why = "\n".join([verdict.reason, *foreseen, *self._weigh(call)])
        return Ask(
            kind="permission",
            tool=call["name"],
            title=f"{call['name']} {_subject(call)}".strip(),
            detail=f"{why}\n\n{detail}"[:MAX_DETAIL_CHARACTERS],
            always=always_rule(
                call["name"], call["input"], workspace=Path(self._segment.spec.workspace)
            ).model_dump_json(),
        )

    def _weigh(self, call: Block) -> list[str]:
        """Say how much a call may start, and the most that the job's limits leave for it."""
        home = row_of(call["name"]).home
        weigh = load_tool(home).weigh if home else None
        if weigh is None or not isinstance(call["input"], dict):
            return []
        limits, [job] = self._segment.spec.limits, self._segment.store.jobs.views([self._segment.spec.job_id])
        money = "without a limit of money"
        if limits.budget_usd is not None:
            money = f"for at most ${max(0.0, limits.budget_usd - job.reckoned_usd):.2f}"
        rest = max(0, limits.max_agents - job.agents)
        # First, so that no text of the call can push it out.
        return [f"it can start at most {rest:,} agents, {money}", *filter(None, [weigh(call["input"])])]

    def _put_question(self, call: Block, decision: Decision) -> None:
        """Settle a call whose result is the answer to a question of its own."""
        ask = self._toolbox.find_question(call)
        if isinstance(ask, ToolFinished):
            decision.settled.append(ask)
            return
        answer = self._find_answer(call, ask, decision)
        if answer is not None:
            text = write_out(answer.reason) if ask.to and ask.kind != "event" else answer.reason
            if ask.kind == "event":
                came = answer.allowed
                text = render_event(ask.title, text, answer.by) if came else notes.event_missed(ask.title, ask.seconds)
            elif ask.kind == "plan":
                text = notes.PLAN_IS_ANSWER if answer.plan else notes.plan_answered(answer.allowed, text)
            is_error = not (answer.allowed or answer.plan or ask.kind == "event")
            decision.settled.append(ToolFinished(tool_use_id=call["id"], text=text, is_error=is_error))

    def _find_answer(self, call: Block, ask: Ask, decision: Decision) -> Answered | None:
        """Find the answer about a call; None while its question, now in the decision, is open."""
        known = self._segment.history.answers.get(call["id"])
        if known is not None:
            return known
        if ask.kind != "event":
            seconds = self._segment.ask_seconds
            # A lead can answer even if no person does.
            ask = ask.model_copy(update={"seconds": REQUEST_SECONDS if ask.to and seconds <= 0 else seconds})
        asked_id = self.question_id(call)
        question = self._questions.find(asked_id)
        if question is None and ask.seconds <= 0:
            answer = Answered(tool_use_id=call["id"], allowed=False, reason=notes.NOBODY_TO_ASK)
            answer = answer.model_copy(update={"plan": _plan_of(call, ask)})
        elif question is None or (question.state == "open" and question.expires_at > self._segment.store.now()):
            decision.questions.append((asked_id, ask, call["id"]))
            return None
        else:
            if question.state == "open":
                self._questions.expire(asked_id)
                question = self._questions.find(asked_id) or question
            answer = _answered(call, question, self._segment.history)
            if question.state != "answered":
                answer = answer.model_copy(update={"plan": _plan_of(call, ask)})
        decision.settled.append(answer)
        return answer


def deny(history: History, call: Block, text: str, about: str = "", now: Sequence[Entry] = ()) -> ToolFinished:
    """Build the result of a denied call, counted among equal denials, of which `now` has those not yet in the history."""
    kind = notes.denied_as(call["name"], about or _subject(call))
    others = [one.denied for one in now if isinstance(one, ToolFinished)]
    count = history.context.denials.get(kind, 0) + others.count(kind) + 1
    advice = notes.advise_denied(count)
    return ToolFinished(tool_use_id=call["id"], text=f"{text}{advice}", is_error=True, denied=kind)


def _hear_hooks(verdict: Judgement, hooked: Hooked | None) -> Judgement:
    """Apply hooks' decisions. They can require a question, or allow if only the mode asks."""
    if hooked is None:
        return verdict
    if verdict.action == "deny":
        return replace(verdict, look=verdict.look and hooked.decision != "ask")
    if hooked.decision == "ask" and verdict.action == "allow":
        said = f": {hooked.reason}" if hooked.reason else ""
        return Judgement("ask", f"a hook requires a person's decision{said}", by_person=True)
    if hooked.decision == "ask":
        return replace(verdict, by_person=True, look=False)
    if hooked.decision == "allow" and verdict.action == "ask" and verdict.rule is None and not verdict.by_person:
        return Judgement("allow", f"a hook allows it{f': {hooked.reason}' if hooked.reason else ''}")
    return verdict


def judge_call(
    segment: Segment, tool: str, given: dict[str, Any], *, sandboxed: bool = False, names: tuple[str, ...] = ()
) -> Judgement:
    """Judge a call by the rules and the mode in force; `names` are further ones of its subject."""
    return judge(replace(_describe(segment, tool, given, sandboxed=sandboxed), names=names))


def _describe(segment: Segment, tool: str, given: dict[str, Any], *, sandboxed: bool) -> JudgedCall:
    return describe_call(tool, given, segment.spec, rules=segment.rules, mode=segment.mode, sandboxed=sandboxed)


def describe_call(
    tool: str, given: dict[str, Any], spec: AgentSpec, *, rules: Rules, mode: PermissionMode, sandboxed: bool
) -> JudgedCall:
    """Describe an agent's call for the judge. `sandboxed`: the kernel enforces permissions."""
    return JudgedCall(
        tool=tool,
        given=from_workspace(row_of(tool), given, spec.cwd),
        rules=rules,
        mode=mode,
        workspace=Path(spec.workspace),
        sandboxed=sandboxed and not spec.network,
        read_only_sandbox=sandboxed and (spec.definition.read_only or mode == "plan"),
        plan_file=Path(spec.plan_file) if mode == "plan" else None,
        folders=tuple(map(Path, spec.folders)),
    )


def _answered(call: Block, question: Question, history: History) -> Answered:
    if question.state != "answered":
        return Answered(tool_use_id=call["id"], allowed=False, reason=notes.NOBODY_ANSWERED)
    if question.kind in ("question", "event"):
        return Answered(tool_use_id=call["id"], allowed=True, reason=question.answer, by=question.by)
    allowed = question.answer == "allow"
    reason = question.reason
    if question.kind == "permission" and not allowed:
        reason = f"Denied by {question.by}{f': {reason}' if reason else '.'}"
    mode: PermissionMode | None = None
    if question.kind == "plan" and allowed:
        chosen = question.mode or history.before_plan or AFTER_PLAN
        mode = at_most(chosen, history.after_plan() or "plan")  # type: ignore[arg-type]
    return Answered(tool_use_id=call["id"], allowed=allowed, reason=reason, by=question.by, mode=mode)


def _plan_of(call: Block, ask: Ask) -> str:
    """The whole plan put to a person (its question holds only the beginning); else empty."""
    if ask.kind != "plan" or ask.to:
        return ""
    return str(call["input"].get("plan") or "").strip() or ask.detail


def _subject(call: Block) -> str:
    given = call["input"]
    subject = given.get(row_of(call["name"]).subject) if isinstance(given, dict) else None
    return " ".join(str(subject).split())[:200] if subject else ""
