"""The tool that writes to other agents. The runtime carries it out: a message and the result of its call are one step."""

from __future__ import annotations

from swarm.tools import Tool

MESSAGE_KINDS = ("message", "shutdown_request", "shutdown_response", "plan_response")

SEND_MESSAGE = Tool(
    name="SendMessage",
    description=(
        "Write to another agent of this job, or to the person. It is delivered between the receiver's turns, with your name on "
        "it. A receiver that has finished goes on with its whole context; one that was stopped cannot be written to. Answers "
        "arrive by themselves as messages: do not poll for them. Your final answer goes to whoever asked you by itself; do not "
        "send it as a message too."
    ),
    parameters={
        "to": {
            "type": "string",
            "description": "A name or id, `parent`, `user` (the person), or `*` (your team; without one, all live agents).",
        },
        "message": {
            "type": "string",
            "description": "What to say, at most 64 KiB; name files instead of quoting them.",
        },
        "kind": {
            "enum": list(MESSAGE_KINDS),
            "description": (
                "`shutdown_request` asks a teammate to end; a teammate answers with `shutdown_response`, and a plan that "
                "was handed in is answered with `plan_response`. Default: message."
            ),
        },
        "request_id": {"type": "string", "description": "Of the request that a response answers."},
        "approve": {"type": "boolean", "description": "A response's yes or no; say why in `message`."},
    },
    required=["to", "message"],
)
