"""The words of coordination: what a coordinator and its verifiers are told, and why a call or an end is refused."""

from __future__ import annotations

from collections.abc import Sequence

SENT_BACK = "This order was sent back:"
"""How the refusal of a prompt begins; by it refusals are counted."""
VERDICT_LINE = (
    "End your report with one line of its own: `VERDICT: PASS` if you saw it work, `VERDICT: FAIL` if it does not, "
    "`VERDICT: PARTIAL` if you could not see all of it. Give the commands you ran, each with its exit code."
)
"""What the runtime adds to the prompt of whoever verifies."""

_RULES = {
    "self-contained": (
        "A prompt that points at what its worker cannot see is sent back. One for implementation names files or symbols, and has "
        "`done_when`."
    ),
    "synthesis": (
        "No implementation starts while research runs, nor before you have written what follows from the last report to a page of the "
        "scratchpad. Give workers the page's name if they need all of it."
    ),
    "leases": "Each implementation names the `files` it will change; while it runs, no other is started on the same ones.",
    "verification": (
        "You cannot end while something that was implemented has not passed a verification that somebody else began after it: an order "
        "of the phase `verification` whose report ends with `VERDICT: PASS` and which used its tools."
    ),
    "hints": "Where a worker of yours knows the files of a new order, you are told: have it go on with `agent_id` if its context helps.",
}


def explain(rules: Sequence[str]) -> str:
    """What a coordinator is told of the rules that it is held to."""
    head = (
        "The runtime holds you to these rules; a call that breaks one returns an error and starts nothing. Every Agent call says its "
        "`phase`: `research` (its agent can change nothing), `implementation`, or `verification`. Synthesis is yours."
    )
    return "\n".join([head, *(f"- {_RULES[rule]}" for rule in _RULES if rule in rules)])


def explain_servers(names: Sequence[str]) -> str:
    """What a coordinator is told of servers whose tools others have, and it has not."""
    return (
        f"Agents that you start can have the tools of these MCP servers, which you have not: {', '.join(names)}. They have them unless "
        "their type lists its tools without them. What only a server can tell or do, order from such an agent, and name the server."
    )


def sent_back(gap: str) -> str:
    """A prompt that cannot stand alone."""
    return f"{SENT_BACK} {gap}. Nothing was started."


def let_through(gap: str) -> str:
    """The note about a prompt that was sent back twice already."""
    return f"Note from the runtime: this order was let through after it had been sent back twice ({gap})."


def research_runs(who: Sequence[str]) -> str:
    """Implementation before the facts are there."""
    return (
        f"Nothing was started: research still runs ({', '.join(who)}). Wait for its reports, draw your conclusions, and then "
        "order the implementation."
    )


NO_SYNTHESIS = (
    "Nothing was started: reports have come in since you last wrote to the scratchpad. Write down first what follows from them (what is to "
    "be changed, where, in which order, and what counts as done), and then order the implementation."
)
NO_FILES = "Nothing was started: an implementation names in `files` what it will change, so that no two write to the same ones."
SAME_HANDS = "Nothing was started: {who} has built it, so it cannot verify it. Start a fresh agent for that."
NO_PHASE = "Nothing was started: say in `phase` what this order is: research, implementation or verification."


def file_is_held(file: str, who: str, description: str) -> str:
    """Two writers on one file."""
    return (
        f"Nothing was started: {file} is being changed by {who} ({description}). Wait for its end, give this order other files, or "
        "have that agent do it as well."
    )


def not_verified(what: Sequence[str]) -> str:
    """An end that nobody has verified."""
    return (
        f"This cannot be the end yet: nobody but its author has verified {'; '.join(what)}. Order a verification (phase `verification`) "
        "from a fresh agent that runs it and tries to break it, and read its verdict. What failed goes back to implementation first."
    )


def ended_unverified(what: Sequence[str]) -> str:
    """The note on an end that was insisted on."""
    return f"not independently verified: {'; '.join(what)}"


def knows_files(who: str, description: str, known: int, of: int) -> str:
    """Somebody has the context already."""
    return f"Note from the runtime: {who} ({description}) has worked on {known} of these {of} files; it could have gone on with `agent_id`."


def can_go_on(who: str, files: Sequence[str]) -> str:
    """What is told with the report of an implementation."""
    return (
        f"[{who} knows {', '.join(files[:5])}{' …' if len(files) > 5 else ''}. To correct or extend this, have it go on (`agent_id`); "
        "to verify it, start somebody fresh.]"
    )
