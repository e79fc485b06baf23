"""`swarm questions`, `approve`, `deny` and `answer`: answer agents from any terminal."""

from __future__ import annotations

import time
from collections import Counter
from typing import Annotated, Any

import typer

from swarm.cli.completion import complete_question
from swarm.cli.lookup import find_job, find_question, open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.output import one_line, print_json, print_line, print_note, show_duration, show_number
from swarm.cli.question_view import read_always, show_detail, show_heading
from swarm.cli.tables import Column, Listing
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.definitions.model import PermissionMode
from swarm.store.questions import Question

_JOBS_LOOKED_AT = 50

QuestionArgument = Annotated[
    str,
    typer.Argument(
        metavar="QUESTION",
        help="A question's id or a prefix, as `swarm questions` lists it.",
        autocompletion=complete_question,
    ),
]


def list_questions(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB|QUESTION]",
            autocompletion=complete_question,
            help="A question, to show in full, or a job. Default: all jobs.",
        ),
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Include closed questions.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List agents' open questions; with a question's id, show it in full."""
    with open_swarm() as swarm:
        if target is not None and target.startswith("question-"):
            question = find_question(swarm, target)
            if as_json:
                print_json(_describe(question))
            else:
                _print_question(question)
            return
        found = _find(swarm, target, show_all=show_all)
    if as_json:
        print_json([_describe(question) for question in found])
        return
    table_of_questions(closed=show_all, now=time.time()).show(found)
    if waiting := [question.id for question in found if question.state == "open"]:
        print_note(f"`swarm questions {waiting[0]}` shows one in full and how to answer it")


def _find(swarm: Swarm, target: str | None, *, show_all: bool) -> list[Question]:
    job_id = None if target is None else find_job(swarm, target).id
    if not show_all:
        return swarm.questions.open(job_id)
    jobs = [job_id] if job_id is not None else [view.id for view in swarm.jobs(_JOBS_LOOKED_AT)]
    asked = [question for each in jobs for question in swarm.questions.of_job(each)]
    return sorted(asked, key=lambda question: question.asked_at)


def approve(
    question: QuestionArgument,
    always: Annotated[
        bool, typer.Option("--always", help="Allow calls of the same kind for the rest of the job.")
    ] = False,
    mode: Annotated[
        PermissionMode | None, typer.Option(help="Mode for carrying out a plan.", show_default="acceptEdits")
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Comment for the agent on its plan.")] = "",
) -> None:
    """Allow a call that an agent asks about, or approve its plan."""
    with open_swarm() as swarm:
        found = find_question(swarm, question)
        _require_verdict(found)
        if always and found.kind != "permission":
            raise typer.BadParameter(
                "only calls of tools can be allowed for the job; this is a plan", param_hint="--always"
            )
        if mode is not None and found.kind != "plan":
            raise typer.BadParameter("only plans have a mode; this is a call of a tool", param_hint="--mode")
        if mode == "plan":
            raise typer.BadParameter("a plan cannot be carried out in plan mode", param_hint="--mode")
        swarm.answer(found.id, "allow", reason=reason, mode=mode or "", always=always)
    print_line(f"approved: {one_line(found.title, 200)}")
    if always:
        print_line(f"from now on in {found.job_id}: {read_always(found)}")


def deny(
    question: QuestionArgument,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason or wanted changes, for the agent.")] = "",
) -> None:
    """Refuse a call that an agent asks about, or send its plan back."""
    with open_swarm() as swarm:
        found = find_question(swarm, question)
        _require_verdict(found)
        swarm.answer(found.id, "deny", reason=reason)
    print_line(f"denied: {one_line(found.title, 200)}")


def answer(
    question: QuestionArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer, or the number of an option.")],
) -> None:
    """Answer an agent's question in words."""
    if not text.strip():
        raise typer.BadParameter("give an answer", param_hint="TEXT")
    with open_swarm() as swarm:
        found = find_question(swarm, question)
        _refuse_event(found)
        if found.kind != "question":
            raise ConfigurationError(
                f"{found.id} is not answered in words; use `swarm approve {found.id}` or `swarm deny {found.id} --reason TEXT`"
            )
        options = found.options
        if text.isdecimal() and 1 <= int(text) <= len(options):
            text = options[int(text) - 1]
        swarm.answer(found.id, text)
    print_line(f"answered: {one_line(text)}")


def _refuse_event(question: Question) -> None:
    if question.kind == "event":
        raise ConfigurationError(
            f"{question.id} waits for an external event; report it with `swarm event {question.title} DATA`"
        )


def _require_verdict(question: Question) -> None:
    _refuse_event(question)
    if question.kind == "question":
        raise ConfigurationError(f"{question.id} asks for words; use `swarm answer {question.id} TEXT`")


def count_open(swarm: Swarm) -> Counter[str]:
    """Count the person's open questions per job."""
    return Counter(question.job_id for question in swarm.questions.open() if not question.to)


def hint_at_questions(job_id: str, count: int) -> None:
    """Point out open questions to the person, on stderr."""
    if count:
        print_note(f"{show_number(count, 'question')} for you: swarm questions {job_id}")


# -- formatting --------------------------------------------------------------------------------------------


def _describe(question: Question) -> dict[str, Any]:
    return {
        "question_id": question.id,
        **question.model_dump(exclude={"id", "always"}),
        "options": question.options,
        "always": read_always(question),
    }


def table_of_questions(*, closed: bool, now: float) -> Listing[Question]:
    """A table with one row per question; with its outcome if closed ones are listed."""
    outcome = Column[Question]("outcome", _outcome, drop=2)
    return Listing[Question](
        Column("question", lambda question: question.id),
        Column("kind", lambda one: f"{one.kind} (to its lead)" if one.kind == "plan" and one.to else one.kind, drop=1),
        Column("job", lambda question: question.job_id, drop=4),
        Column("asked by", lambda question: question.label, drop=5),
        Column(
            "expires", lambda one: f"in {show_duration(one.expires_at - now)}" if one.state == "open" else "", drop=3
        ),
        *([outcome] if closed else []),
        Column("about", lambda question: question.title, flexible=True),
        otherwise="nothing was asked" if closed else "no question waits for an answer",
    )


def _print_question(question: Question) -> None:
    print_line(f"{question.id} of {question.job_id}: {_outcome(question)}")
    print_line(show_heading(question))
    for line in show_detail(question, full=True):
        print_line(f"  {line}")
    if question.state != "open":
        if question.reason:
            print_line(f"comment: {question.reason}")
        return
    if question.kind == "event":
        print_line(f"waits {show_duration(question.expires_at - time.time())} for:")
        print_line(f"  swarm event {one_line(question.title, 200)} DATA")
        return
    print_line(f"answer within {show_duration(question.expires_at - time.time())}:")
    if question.kind == "question":
        print_line(f"  swarm answer {question.id} TEXT")
        return
    print_line(f"  swarm approve {question.id}")
    if rule := read_always(question):
        print_line(f"  swarm approve {question.id} --always   (from now on in this job: {rule})")
    print_line(f"  swarm deny {question.id} --reason TEXT")


def _outcome(question: Question) -> str:
    match question.state:
        case "answered":
            verdicts = {} if question.kind in ("question", "event") else {"allow": "approved", "deny": "denied"}
            said = verdicts.get(question.answer, f"answered {one_line(question.answer, 80)!r}")
            return f"{said} by {one_line(question.by, 40) or 'somebody'}"
        case "expired":
            return "it did not arrive in time" if question.kind == "event" else "no answer in time"
        case "void":
            return "void: its agent has ended"
        case _:
            return "waits for the event" if question.kind == "event" else "waits for an answer"
