"""The tool that writes to other agents. The runtime carries it out: a message and the result of its call are one step."""

from __future__ import annotations

import json

from swarm.agent.history import History
from swarm.tools import Tool, ToolContext
from swarm.tools.schemas import boolean, choice, string


def restate_mail(context: ToolContext, history: History) -> str:
    """List unanswered requests to it and by it, and the number of unread messages."""
    stored = context.store.mail.requests(context.job_id)
    lines = []
    for request_id, document in sorted(stored.items()):
        request = json.loads(document)
        if request["state"] != "open" or request["expires"] < context.now():
            continue
        if request["to"] == context.agent_id:
            lines.append(f"{request_id}: a {request['kind']} request to you, by {request['from']}: answer it.")
        elif request["from"] == context.agent_id:
            lines.append(f"{request_id}: a {request['kind']} request of yours, to {request['to']}: no answer yet.")
    [record] = context.store.agents.find([context.agent_id])
    if record is not None and record.unread:
        lines.append(f"{record.unread} unread messages: they follow.")
    return "\n".join(lines)


MESSAGE_KINDS = ("message", "shutdown_request", "shutdown_response", "plan_response")

SEND_MESSAGE = Tool(
    name="SendMessage",
    description=(
        "Write to another agent of this job, or to the person. It is delivered between the receiver's turns, with your name on "
        "it. A receiver that has finished continues with its whole context; a stopped agent cannot be written to. Answers "
        "arrive by themselves as messages: do not poll for them. Your final answer reaches the asking agent by itself; do not "
        "send it as a message too."
    ),
    parameters={
        "to": string("A name or id, `parent`, `user` (the person), or `*` (your team; without one, all live agents)."),
        "message": string("What to say, at most 64 KiB; name files instead of quoting them."),
        "kind": choice(
            MESSAGE_KINDS,
            "`shutdown_request` asks a teammate to end; a teammate answers with `shutdown_response`, and a plan that "
            "was handed in is answered with `plan_response`. Default: message.",
        ),
        "request_id": string("Of the request that a response answers."),
        "approve": boolean("A response's yes or no; say why in `message`."),
    },
    required=["to", "message"],
)
