"""A question of an agent as a request to the editor, and the editor's reply as an answer. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from swarm.agent.items import MadeCall
from swarm.api.acp.updates import as_content, find_diffs, kind_of
from swarm.definitions.tools import row_of
from swarm.store.questions import Question

Params = dict[str, Any]
_PLAN_ANSWERS = (
    ("acceptEdits", "Approve, and edit files without asking", "allow_always"),
    ("default", "Approve, and ask before each change", "allow_once"),
)
_ALLOW, _ALWAYS, _DENY = "allow", "always", "deny"
_CHOICE, _WORDS = "choice", "words"


class EditorAnswer(NamedTuple):
    """The answer of a person in an editor."""

    answer: str
    mode: str = ""
    always: bool = False


class EditorQuestion(NamedTuple):
    """A question as a request of the protocol."""

    method: str
    params: Params


class PlacedQuestion(NamedTuple):
    """A question, and its place in the thread."""

    question: Question
    session: str
    call_id: str
    call: MadeCall | None
    """The call that it is about, if it is known."""
    prefix: str
    """Mark of the asking agent, if it shares the session with others."""
    place: Callable[[str], str]
    """Finds a path of the agent in the person's folder."""


def ask_person(asked: PlacedQuestion, *, forms: bool) -> EditorQuestion | None:
    """Return the request that brings a question to the person; None if only words can answer it and the editor has no forms."""
    if asked.question.kind == "question":
        if forms:
            return EditorQuestion("elicitation/create", _make_form(asked.question, asked.session, asked.prefix))
        if not asked.question.options:
            return None
    return EditorQuestion("session/request_permission", _ask_permission(asked))


def _ask_permission(asked: PlacedQuestion) -> Params:
    question, session, call_id, call, prefix, place = asked
    row = row_of(question.tool)
    about: Params = {
        "toolCallId": call_id,
        "title": prefix + question.title,
        "name": question.tool,
        "kind": kind_of(row),
    }
    about["status"] = "pending"
    match question.kind:
        case "permission":
            reasons, given = question.call
            about["rawInput"] = call.input if call is not None else given
            content = as_content(reasons)
            path = given.get(row.subject) if isinstance(given, dict) and row.matching == "edited" else None
            if isinstance(path, str):
                content += find_diffs(given, place(path))
            always = question.lasting_rule
            options = [(_ALLOW, "Allow", "allow_once")]
            options += [(_ALWAYS, f"Allow in this job: {always}", "allow_always")] if always else []
            options += [(_DENY, "Deny", "reject_once")]
        case "plan":
            content = as_content(question.detail)
            options = [*_PLAN_ANSWERS, (_DENY, "Keep planning", "reject_once")]
        case _:
            content = as_content(question.detail)
            options = [(option, option, "allow_once") for option in question.options]
    return {
        "sessionId": session,
        "toolCall": {**about, **({"content": content} if content else {})},
        "options": [{"optionId": each, "name": name, "kind": kind} for each, name, kind in options],
        "_meta": {"swarm": {"question": question.id, "agent": question.agent_id, "expiresAt": question.expires_at}},
    }


def _make_form(question: Question, session: str, prefix: str) -> Params:
    fields: Params = {}
    if question.options:
        fields[_CHOICE] = {"type": "string", "title": "Answer", "enum": question.options}
    words = {"type": "string", "title": "In your own words" if question.options else "Answer"}
    required = {} if question.options else {"required": [_WORDS]}
    text = question.detail.rsplit("\n", len(question.options))[0] if question.options else question.detail.rstrip("\n")
    return {
        "sessionId": session,
        "mode": "form",
        "message": prefix + (text or question.title),
        "requestedSchema": {"type": "object", "properties": {**fields, _WORDS: words}, **required},
    }


def read_answer(question: Question, asked: EditorQuestion, result: Params) -> EditorAnswer | None:
    """Return the answer in the editor's reply; None if the person gave none, so that the question stays open."""
    if asked.method == "elicitation/create":
        content = result.get("content") if result.get("action") == "accept" else None
        found = (content or {}).get(_WORDS) or (content or {}).get(_CHOICE)
        return EditorAnswer(str(found)) if found and str(found).strip() else None
    outcome = result.get("outcome") or {}
    option = str(outcome.get("optionId")) if outcome.get("outcome") == "selected" else ""
    offered = [one["optionId"] for one in asked.params["options"]]
    if option not in offered:
        return None
    if question.kind == "question":
        return EditorAnswer(option)
    if option == _DENY:
        return EditorAnswer("deny")
    return EditorAnswer("allow", mode=option if question.kind == "plan" else "", always=option == _ALWAYS)


def tell_in_words(question: Question, prefix: str) -> str:
    """Return a question that the person answers with the next message."""
    return f"{prefix}{question.detail.strip() or question.title}\n\n(Your next message is the answer.)"
