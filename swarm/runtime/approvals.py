"""The gate before every tool call: rules and modes decide, and where they say so, a person is asked.

A question is asked by parking, so that an agent that waits for an answer holds no process; the answer enters the journal, and the
call is then run, or refused with the reason as its result. A denial never looks like success.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from swarm.agent.entries import Answered, ToolFinished
from swarm.definitions.model import PermissionMode
from swarm.errors import ToolError
from swarm.ids import question_id
from swarm.models import Block
from swarm.permissions.judge import Verdict, judge, may_read
from swarm.permissions.modes import always_rule, at_most
from swarm.permissions.rules import Rule, Rules
from swarm.runtime.journal import Journal
from swarm.runtime.messaging import REQUEST_SECONDS
from swarm.store.questions import MAX_DETAIL_CHARACTERS, Ask, Question, Questions
from swarm.tools.asking import ASK_TOOL, ASK_USER, EXIT_PLAN_MODE, PLAN_TOOL
from swarm.tools.registry import validate_input

AFTER_PLAN: PermissionMode = "acceptEdits"
"""The mode that an approved plan is carried out in, unless the answer names another."""


@dataclass
class Admission:
    """What becomes of some calls."""

    run: list[Block] = field(default_factory=list)
    settled: list[Answered | ToolFinished] = field(default_factory=list)
    """To be journaled: answers, and the results of calls that are not run."""
    denied: list[tuple[Block, str]] = field(default_factory=list)
    """Calls that may not be run, and why: for people to see."""
    question: tuple[str, Ask, str] | None = None
    """The id of the first question that is still open, what is asked, and the call it is about."""


class Gate:
    """Decides about the calls of one running agent."""

    def __init__(self, journal: Journal, *, has_effects: Callable[[str], bool], sandboxed: Callable[[], bool]) -> None:
        self._journal, self._has_effects, self._sandboxed = journal, has_effects, sandboxed
        self._spec = journal.claim.spec
        self._workspace = Path(self._spec.workspace)
        self._questions = Questions(journal.store)

    def admit(self, calls: Sequence[Block]) -> Admission:
        """Decide about each call; those that must be asked about are asked about one at a time."""
        admission = Admission()
        for call in calls:
            if call["name"] in (PLAN_TOOL, ASK_TOOL) and call["name"] in self._journal.life.tool_names():
                self._ask_in_words(call, admission)
                continue
            verdict = self._judge(call)
            if verdict.action == "allow":
                admission.run.append(call)
            elif verdict.action == "deny":
                admission.settled.append(_refusal(call, f"Not allowed: {verdict.reason}."))
                admission.denied.append((call, verdict.reason))
            else:
                self._ask_leave(call, verdict, admission)
        return admission

    def _judge(self, call: Block) -> Verdict:
        mode = self._journal.life.mode
        given = call["input"] if isinstance(call["input"], dict) else {}
        sandboxed = self._sandboxed()
        return judge(
            call["name"],
            given,
            rules=self._rules,
            mode=mode,
            workspace=self._workspace,
            effects=self._has_effects(call["name"]),
            sandboxed=sandboxed and not self._spec.network,
            read_only_sandbox=sandboxed and (self._spec.definition.read_only or mode == "plan"),
            plan_file=Path(self._spec.plan_file) if mode == "plan" else None,
        )

    def may_read(self, path: Path) -> bool:
        """Whether no rule forbids reading this file."""
        return may_read(path, self._rules, self._workspace)

    @cached_property
    def _rules(self) -> Rules:
        stored, added, _ = self._journal.permissions
        rules = Rules.model_validate_json(stored) if stored else Rules()
        return rules + Rules(rules=tuple(Rule.model_validate_json(rule) for rule in added)) + self._spec.rules

    # -- asking --------------------------------------------------------------------------------------------

    def _ask_leave(self, call: Block, verdict: Verdict, admission: Admission) -> None:
        def ask(seconds: float) -> Ask:
            detail = json.dumps(call["input"], ensure_ascii=False, indent=2)
            return Ask(
                kind="permission",
                tool=call["name"],
                title=f"{call['name']} {_gist(call['input'])}".strip(),
                detail=f"{verdict.reason}\n\n{detail}"[:MAX_DETAIL_CHARACTERS],
                seconds=seconds,
                always=always_rule(call["name"], call["input"], workspace=self._workspace).model_dump_json(),
            )

        answer = self._answer(call, ask, admission)
        if answer is None:
            return
        if answer.allowed:
            admission.run.append(call)
        else:
            admission.settled.append(_refusal(call, f"{answer.reason} ({verdict.reason}.)"))
            admission.denied.append((call, answer.reason))

    def _ask_in_words(self, call: Block, admission: Admission) -> None:
        try:
            given = validate_input(ASK_USER if call["name"] == ASK_TOOL else EXIT_PLAN_MODE, call["input"])
            ask = self._question_ask(given) if call["name"] == ASK_TOOL else self._plan_ask(given)
        except ToolError as error:
            admission.settled.append(_refusal(call, str(error)))
            return
        answer = self._answer(call, ask, admission)
        if answer is not None:
            text = answer.reason
            if call["name"] == PLAN_TOOL:
                text = _APPROVED.format(note=text) if answer.allowed else _REJECTED.format(note=text)
            admission.settled.append(ToolFinished(tool_use_id=call["id"], text=text, is_error=not answer.allowed))

    def _question_ask(self, given: dict[str, Any]) -> Callable[[float], Ask]:
        if self._spec.parent_id is not None:
            # A fork has its parent's tools, and some of those are for nobody below the first agent.
            raise ToolError("Only the job's first agent asks the person. Say in your answer what is to be decided.")
        options = "\n".join(f"- {option}" for option in given.get("options", []))
        question = given["question"]
        title, detail = " ".join(question.split())[:200], f"{question}\n{options}"[:MAX_DETAIL_CHARACTERS]
        return lambda seconds: Ask(kind="question", tool=ASK_TOOL, title=title, detail=detail, seconds=seconds)

    def _plan_ask(self, given: dict[str, Any]) -> Callable[[float], Ask]:
        if self._journal.life.mode != "plan":
            raise ToolError("You are not in plan mode: there is nothing to leave. Go on with the work.")
        if self._spec.after_plan is None:
            raise ToolError("Your plan mode comes from above, and you cannot leave it. Give the plan as your answer.")
        plan = given.get("plan") or ""
        written = Path(self._spec.plan_file)
        if not plan.strip() and written.is_file():
            # Others can write in the workspace: what is there may be a link to what no agent may read.
            if not written.resolve().is_relative_to(self._workspace.resolve()) or not self.may_read(written):
                raise ToolError("The plan file is a link to another file: give the plan as `plan`.")
            with written.open(encoding="utf-8", errors="replace") as file:
                plan = file.read(MAX_DETAIL_CHARACTERS)
        if not plan.strip():
            raise ToolError("The plan is empty: give it as `plan`, or write it into the plan file first.")
        title = next((line.strip("# ") for line in plan.splitlines() if line.strip("# ")), "a plan")[:200]
        to = self._spec.parent_id if self._spec.teammate else None
        return lambda seconds: Ask(
            kind="plan",
            tool=PLAN_TOOL,
            title=title,
            detail=plan[:MAX_DETAIL_CHARACTERS],
            # A lead is there even where no person is.
            seconds=REQUEST_SECONDS if to and seconds <= 0 else seconds,
            to=to,
        )

    def _answer(self, call: Block, ask: Callable[[float], Ask], admission: Admission) -> Answered | None:
        """The answer about a call; None when the question is open, and then it is in the admission."""
        known = self._journal.life.answers.get(call["id"])
        if known is not None:
            return known
        seconds = self._journal.permissions[2]
        asked = ask(seconds)
        asked_id = question_id(self._spec.agent_id, call["id"])
        question = self._questions.find(asked_id)
        if question is None and seconds <= 0 and asked.to is None:
            answer = Answered(tool_use_id=call["id"], allowed=False, reason=_NOBODY)
        elif question is None or (question.state == "open" and question.expires_at > self._journal.store.now()):
            admission.question = admission.question or (asked_id, asked, call["id"])
            return None
        else:
            if question.state == "open":
                self._questions.expire(asked_id)
                question = self._questions.find(asked_id) or question
            answer = _answered(call, question, self._spec.after_plan or "plan")
        admission.settled.append(answer)
        return answer


def _answered(call: Block, question: Question, most: PermissionMode) -> Answered:
    if question.state != "answered":
        return Answered(tool_use_id=call["id"], allowed=False, reason=_EXPIRED)
    if question.kind == "question":
        return Answered(tool_use_id=call["id"], allowed=True, reason=question.answer, by=question.by)
    allowed = question.answer == "allow"
    reason = question.reason
    if question.kind == "permission" and not allowed:
        reason = f"Denied by {question.by}{f': {reason}' if reason else '.'}"
    mode: PermissionMode | None = None
    if question.kind == "plan" and allowed:
        mode = at_most(question.mode or AFTER_PLAN, most)  # type: ignore[arg-type]
    return Answered(tool_use_id=call["id"], allowed=allowed, reason=reason, by=question.by, mode=mode)


def _refusal(call: Block, text: str) -> ToolFinished:
    return ToolFinished(tool_use_id=call["id"], text=f"{text} {_NOT_RUN}", is_error=True)


def _gist(given: Any) -> str:
    if not isinstance(given, dict):
        return ""
    for name in ("command", "file_path", "notebook_path", "path", "url", "subagent_type", "to", "pattern"):
        if given.get(name):
            return " ".join(str(given[name]).split())[:200]
    return ""


_NOT_RUN = "The call was not run. Find another way that is allowed, or say in your answer what is needed."
_NOBODY = "It needs a person's permission, and nobody is there to be asked."
_EXPIRED = "It needed a person's answer, and nobody answered in time."
_APPROVED = (
    "The plan is approved. You have left plan mode: your tools now work without its limits, under the usual permissions. "
    "Carry the plan out.\n{note}"
)
_REJECTED = "The plan is not approved, and you stay in plan mode. {note}\nRevise the plan and hand it in again."
