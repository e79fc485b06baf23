"""Texts of coordination: prompts for a coordinator and its verifiers, and refusals."""

from __future__ import annotations

from collections.abc import Sequence

SENT_BACK = "This order was sent back:"
"""Prefix of a refused prompt's result; refusals are counted by it."""
VERDICT_LINE = (
    "End your report with one line of its own: `VERDICT: PASS` if you saw it work, `VERDICT: FAIL` if it does not, "
    "`VERDICT: PARTIAL` if you could not see all of it. Give the commands you ran, each with its exit code."
)
"""Addition by the runtime to a verifier's prompt."""

_RULES = {
    "self-contained": (
        "A prompt that refers to information its worker cannot see is sent back. One for implementation names files or symbols, and has "
        "`done_when`."
    ),
    "synthesis": (
        "No implementation starts while research runs, nor before you have written your conclusions from the last report to a page of the "
        "scratchpad. Give workers the page's name if they need all of it."
    ),
    "leases": "Each implementation names the `files` it will change; while it runs, no other is started on the same ones.",
    "verification": (
        "You cannot end before another agent has verified each implementation after its end. That takes an order "
        "of the phase `verification` whose report ends with `VERDICT: PASS` and which used its tools."
    ),
    "hints": "You are notified when a worker of yours knows the files of a new order: continue it with `agent_id` if its context helps.",
}


def explain(rules: Sequence[str]) -> str:
    """Describe a coordinator's rules to it."""
    head = (
        "The runtime holds you to these rules; a call that breaks one returns an error and starts nothing. Every Agent call says its "
        "`phase`: `research` (its agent can change nothing), `implementation`, or `verification`. Synthesis is yours."
    )
    return "\n".join([head, *(f"- {_RULES[rule]}" for rule in _RULES if rule in rules)])


def explain_servers(names: Sequence[str]) -> str:
    """Name the MCP servers whose tools the coordinator lacks and its agents can have."""
    return (
        f"Agents that you start can have the tools of these MCP servers, which you lack: {', '.join(names)}. They have them unless "
        "their type lists its tools without them. Order work that needs a server from such an agent, and name the server."
    )


def sent_back(gap: str) -> str:
    """Refuse a prompt that cannot stand alone."""
    return f"{SENT_BACK} {gap}. Nothing was started."


def let_through(gap: str) -> str:
    """Note that a prompt was let through after two refusals."""
    return f"Note from the runtime: this order was let through after it had been sent back twice ({gap})."


def research_runs(who: Sequence[str]) -> str:
    """Refuse an implementation while research runs."""
    return (
        f"Nothing was started: research still runs ({', '.join(who)}). Wait for its reports, draw your conclusions, and then "
        "order the implementation."
    )


NO_SYNTHESIS = (
    "Nothing was started: reports have come in since you last wrote to the scratchpad. First write down your conclusions (the changes, "
    "their places and order, and when they count as done), and then order the implementation."
)
NO_FILES = "Nothing was started: an implementation lists in `files` the files it will change, so that no two change the same one."
SAME_HANDS = "Nothing was started: {who} has built it, so it cannot verify it. Start a new agent for that."
NO_PHASE = "Nothing was started: say in `phase` what this order is: research, implementation or verification."


def file_is_held(file: str, who: str, description: str) -> str:
    """Refuse a second writer of a file."""
    return (
        f"Nothing was started: {file} is being changed by {who} ({description}). Wait for its end, give this order other files, or "
        "have that agent do it as well."
    )


def not_verified(what: Sequence[str]) -> str:
    """Refuse an end before verification."""
    return (
        f"This cannot be the end yet: no one but its author has verified {'; '.join(what)}. Order a verification (phase `verification`) "
        "from a new agent that runs it and tries to break it, and read its verdict. Failed work goes back to implementation first."
    )


def ended_unverified(what: Sequence[str]) -> str:
    """Note that the coordinator insisted on an end."""
    return f"not independently verified: {'; '.join(what)}"


def knows_files(who: str, description: str, known: int, of: int) -> str:
    """Note that an existing agent has the context."""
    return f"Note from the runtime: {who} ({description}) has worked on {known} of these {of} files; `agent_id` would have continued it."


def can_go_on(who: str, files: Sequence[str]) -> str:
    """Return the note that follows an implementation's report."""
    return (
        f"[{who} knows {', '.join(files[:5])}{' …' if len(files) > 5 else ''}. To correct or extend this, continue it (`agent_id`); "
        "to verify it, start a new agent.]"
    )
