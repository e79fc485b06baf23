"""`swarm send`, `inbox`, `compact` and `event`: messages to agents, and agents' messages to people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from swarm.cli.completion import complete_agent
from swarm.cli.lookup import find_agent, find_job, open_swarm
from swarm.cli.options import JsonOption, parse_duration, read_text
from swarm.cli.output import (
    one_line,
    output_console,
    plain,
    print_json,
    print_line,
    print_note,
    print_result,
    show_moment,
    show_number,
    show_time,
)
from swarm.cli.patience import said
from swarm.client.messages import Delivery
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import SwarmError
from swarm.local.stack import has_worker
from swarm.mailbox import MAX_BODY_BYTES, USER, Message, position_of, render_mail
from swarm.store.external_events import KEEP_SECONDS, MAX_DATA_BYTES

_SHOWN_NAMES = 20


class NoReply(SwarmError):
    """No reply arrived in time."""


def send(
    target: Annotated[
        str,
        typer.Argument(
            metavar="AGENT|JOB",
            autocompletion=complete_agent,
            help="An agent, or a job for its first one; with --job, a name or * for all.",
        ),
    ],
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="The message; - reads it from a pipe.")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="NAME", help="Name of an agent in the given job.")] = None,
    job: Annotated[
        str | None,
        typer.Option("--job", "-j", metavar="JOB", help="Job in which to find the receiver by name."),
    ] = None,
    review: Annotated[
        bool, typer.Option("--review", help="Add the unresolved review comments of its pull request.")
    ] = False,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="Have it ask this model from now on.")
    ] = None,
    wait_reply: Annotated[bool, typer.Option("--wait-reply", help="Wait for the reply, and print it.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(parser=parse_duration, metavar="TIME", help="How long to wait for the reply: 90, 90s, 10m, 2h."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write to an agent; an ended one continues with it. Prints the message's id, or the reply.

    If the agent answers with its result instead of a message, that is printed. Exit code: 0 delivered (and answered), 1 refused or not
    answered, 2 wrong usage.
    """
    if timeout is not None and not wait_reply:
        raise typer.BadParameter("it is for --wait-reply", param_hint="--timeout")
    _check_receiver(to, job, review=review)
    if model is not None and text is None and not review:
        with open_swarm() as swarm:
            _choose_model(swarm, *_find_receiver(swarm, target, to, job), model)
        return
    usage = "say something: swarm send AGENT TEXT"
    alone = review and text is None
    body = "" if alone else read_text(text, name="TEXT", usage=usage, max_bytes=MAX_BODY_BYTES)
    with open_swarm() as swarm:
        found, receiver = _find_receiver(swarm, target, to, job)
        if model is not None:
            _choose_model(swarm, found, receiver, model)
        delivery = found.send_review(body) if review else found.deliver(receiver, body)
        _note_delivery(delivery, swarm)
        described: dict[str, Any] = {"job_id": found.id, **delivery.model_dump(), "message_id": delivery.id}
        if wait_reply:
            with said(f"waiting for a reply from {', '.join(delivery.names[:_SHOWN_NAMES])}"):
                described["reply"] = _wait_reply(swarm, found, delivery, timeout)
    if as_json:
        print_json(described)
    elif wait_reply:
        print_result(described["reply"]["body"])
    else:
        print_line(delivery.id)


def _check_receiver(to: str | None, job: str | None, *, review: bool) -> None:
    if to is not None and job is not None:
        raise typer.BadParameter("it has the same meaning as --job; give one of them", param_hint="--to")
    if review and (to is not None or job is not None):
        raise typer.BadParameter("the job's first agent gets the comments; name only the job", param_hint="--review")


def _choose_model(swarm: Swarm, job: Job, receiver: str, model: str) -> None:
    for one in job.find_receivers(receiver):
        swarm.choose_model(one.id, model, by=USER)
        print_note(f"{one.name} asks {model} from its next request on")


def _find_receiver(swarm: Swarm, target: str, to: str | None, job: str | None) -> tuple[Job, str]:
    if job is not None:
        return find_job(swarm, job), target
    if to is not None:
        return find_job(swarm, target), to
    agent_id = find_agent(swarm, target)
    return swarm.job(swarm.agent(agent_id).job_id), agent_id


def _note_delivery(delivery: Delivery, swarm: Swarm) -> None:
    names = ", ".join(delivery.names[:_SHOWN_NAMES])
    more = len(delivery.names) - _SHOWN_NAMES
    print_note(f"delivered to {names}{f' and {more} more' if more > 0 else ''}")
    if delivery.left_out:
        print_note(f"not delivered (mailbox full, or ended just now): {', '.join(delivery.left_out)}")
    if not has_worker(swarm.settings):
        print_note("note: no worker answers; the message is read once one does (`swarm up`, `swarm worker`)")


def _wait_reply(swarm: Swarm, job: Job, delivery: Delivery, timeout: float | None) -> dict[str, Any]:
    receivers = list(delivery.receivers)
    sender = receivers[0] if len(receivers) == 1 else None
    try:
        reply = job.wait_reply(delivery.id, timeout, sender=sender)
    except TimeoutError as error:
        raise NoReply(str(error)) from error
    if reply is not None:
        return _describe(reply, unread=None)
    if sender is None:
        view = job.view()
        return {"from": view.root_id, "kind": "result", "state": view.state, "body": view.text or view.reason}
    agent = swarm.agent(sender)
    if agent.idle:
        print_note(f"{agent.name or sender} has nothing left to do and did not write to you")
    return {"from": sender, "kind": "result", "state": agent.state, "body": agent.text or agent.reason}


def inbox(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB|AGENT]",
            autocompletion=complete_agent,
            help="A job (messages to you) or agent (its mailbox). Default: newest job.",
        ),
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show read messages, too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the messages to you from a job's agents and mark them read, or show an agent's mailbox."""
    with open_swarm() as swarm:
        agent_id = None if target is None else find_agent(swarm, target)
        if target is not None and agent_id is not None and not _names_job(swarm, target, agent_id):
            box = swarm.mailbox(agent_id)
            _print(box.messages, {message.id for message in box.messages if not box.is_read(message)}, as_json=as_json)
            return
        job = find_job(swarm, target)
        read_up_to = job.read_up_to()
        messages = job.inbox("0-0" if show_all else read_up_to)
        unread = {message.id for message in messages if message.position > position_of(read_up_to)}
        _print(messages, unread, as_json=as_json)
        if unread:
            job.mark_read(messages[-1].id)
        elif not messages:
            print_note(f"no {'' if show_all else 'unread '}message in {job.id}")


def _names_job(swarm: Swarm, target: str, agent_id: str) -> bool:
    """Whether the target named the job, rather than its root agent."""
    agent = swarm.agent(agent_id)
    job_id = agent.job_id
    return target.startswith("@") or (
        agent.parent_id is None and (job_id.startswith(target) or job_id.partition("-")[2].startswith(target))
    )


def _print(messages: Sequence[Message], unread: set[str], *, as_json: bool) -> None:
    if as_json:
        print_json([_describe(message, unread=message.id in unread) for message in messages])
        return

    console = output_console()
    for message in messages:
        head = f"{'●' if message.id in unread else '○'} {show_moment(message.sent_at)}  {describe_sender(message)}"
        console.print(Text(plain(head), style="bold" if message.id in unread else ""), soft_wrap=True)
        body = render_mail([message]) if message.kind == "notification" else message.body
        for line in plain(body).strip("\n").split("\n"):
            console.print(Text(f"  {line}"), soft_wrap=True)


def describe_sender(message: Message) -> str:
    """A message's sender, kind, and the message it replies to, on one line."""
    who = message.sender_name if message.sender_name == message.sender else f"{message.sender_name} ({message.sender})"
    kind = "" if message.kind == "message" else f", {message.kind.replace('_', ' ')}"
    return one_line(f"{who}{kind}{f', about {message.reply_to}' if message.reply_to else ''}  {message.id}", 300)


def _describe(message: Message, *, unread: bool | None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "message_id": message.id,
        "id": message.id,
        "from": message.sender,
        "from_name": message.sender_name,
        "kind": message.kind,
        "body": message.body,
        "reply_to": message.reply_to,
        "sent_at": message.sent_at,
    }
    return described if unread is None else {**described, "unread": unread}


def hint_at_unread(job_id: str, unread: int) -> None:
    """Point out unread messages to the person, on stderr."""
    if unread:
        print_note(f"{show_number(unread, 'unread message')} for you: swarm inbox {job_id}")


def compact(
    target: Annotated[
        str,
        typer.Argument(
            metavar="AGENT|JOB",
            autocompletion=complete_agent,
            help="An id or a prefix; for a job, its first agent.",
        ),
    ],
    focus: Annotated[str, typer.Option("--focus", metavar="TEXT", help="Subject that the summary must keep.")] = "",
) -> None:
    """Summarize an agent's conversation before its next turn; a waiting agent is not woken.

    The journal keeps everything: `swarm transcript` shows the replaced part. An agent with fewer than two replies since the last summary
    is summarized once it has them. Exit code: 0 requested, 1 not possible, 2 wrong usage.
    """
    with open_swarm() as swarm:
        agent_id = find_agent(swarm, target)
        state = swarm.compact(agent_id, focus)
        when = "when it continues" if swarm.agent(agent_id).ended or state == "parked" else "before its next turn"
        print_line(f"{agent_id} ({state.replace('_', ' ')}) will have its conversation summarized {when}")


def tell_event(
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="Key that agents wait for, such as deploy/1234."),
    ],
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help="Data for the waiting agents; - reads a pipe.")
    ] = None,
    keep: Annotated[
        float | None,
        typer.Option(
            parser=parse_duration,
            metavar="TIME",
            help="How long to keep it for later waits.",
            show_default="24h",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Report an external event: agents that wait for it (the tool WaitFor) continue.

    A key's first event is kept until it expires. Exit code: 0 reported, 1 the key had one already, 2 wrong usage.
    """
    text = "" if data is None else read_text(data, name="DATA", usage="give data", max_bytes=MAX_DATA_BYTES)
    seconds = KEEP_SECONDS if keep is None else keep
    with open_swarm() as swarm:
        told = swarm.event(key, text, keep_seconds=seconds)
    if as_json:
        print_json(told.model_dump(mode="json"))
    elif told.new:
        print_line(
            f"reported {key}: {show_number(len(told.woken), 'agent')} waited for it; it is kept for {show_time(seconds)}"
        )
    else:
        came = f"{show_moment(told.at)}, from {one_line(told.by)}, with {one_line(told.data) or 'no data'}"
        print_note(f"nothing was changed: {key} was reported at {came}")
    if not told.new:
        raise typer.Exit(1)
