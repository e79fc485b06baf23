"""The text of a pull request, from a job's records, and that of a review for an agent. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swarm.capabilities.repositories.forges import Comment
from swarm.core.plain import clean_text
from swarm.core.records import JobView, VerdictView

MOST_CHARACTERS = 50_000
"""GitHub takes 65,536 characters."""
MOST_TITLE = 200
MOST_FILES = 20
MOST_OF_LINE = 200


def write_title(job: JobView) -> str:
    """Return the title of a job's pull request."""
    return job.title[:MOST_TITLE] or job.id


def write_text(
    job: JobView, answer: str, verdicts: Sequence[VerdictView], risky: Mapping[str, str], link: str = ""
) -> str:
    """Return files to look at first, the results of checks, the answer, the cost, and how to go on.

    The answer is Markdown. A comment that begins in it would hide all that follows, so what warns of the work stands before it.
    """
    parts = []
    if risky:
        lines = [f"- {_code(path)}: {_code(why)}" for path, why in sorted(risky.items())[:MOST_FILES]]
        lines += [f"- {more} more"] if (more := len(risky) - MOST_FILES) > 0 else []
        parts.append("\n".join(["**Look at these first:**", "", *lines]))
    if verdicts:
        lines = [f"- {one.headline}: {_code(one.summary)}" for one in verdicts]
        parts.append("\n".join(["**Checks**", "", *lines]))
    parts.append(_cut(answer.strip() or "The job left no text.", f"`swarm result {job.id}` has all of it"))
    cost = "" if job.cost_usd is None or job.rehearsed else f", ${job.cost_usd:.2f}"
    tokens = f"{job.usage.total_tokens:,} tokens"
    parts.append(
        f"<sub>{_name(job, link)}: {job.agents} agents, {tokens}{cost}. "
        f'`swarm send {job.id} "…"` goes on here; `swarm send {job.id} --review` takes in the review.</sub>'
    )
    return "\n\n".join(parts)


def write_comment(job: JobView, state: str, answer: str, link: str = "") -> str:
    """Return the comment on an issue for a job that ends in this state."""
    parts = [_cut(answer.strip() or "The job left no text.", f"`swarm result {job.id}` has all of it")]
    if state != "completed":
        parts.insert(0, f"**The work has not succeeded ({state}).**")
    if job.pull_request:
        parts.append(f"Pull request: {job.pull_request}")
    parts.append(f"<sub>{_name(job, link)}: {job.agents} agents, {job.usage.total_tokens:,} tokens.</sub>")
    return "\n\n".join(parts)


def write_status(job: JobView, state: str, answer: str) -> str:
    """Return one line about a job for a check of a commit; `state` is how the job ends, or empty."""
    told = " ".join(answer.split())
    return f"{state or 'at work'}: {told}" if told else f"{job.id} is {state or 'at work'}"


def link_to(page: str | None, job_id: str) -> str:
    """Return the address of a job in the page; empty if no setting has the page's."""
    return f"{page}#/{job_id}" if page else ""


def _name(job: JobView, link: str) -> str:
    return f"[`{job.id}`]({link})" if link else f"`{job.id}`"


def _code(text: str) -> str:
    """Show somebody's text as it is, in one line."""
    shown = " ".join(clean_text(text).replace("`", "'").split())
    return f"`{shown[:MOST_OF_LINE]}`" if shown else ""


def _cut(text: str, more: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}\n\n… (cut: {more})"


def write_review(address: str, comments: Sequence[Comment]) -> str:
    """Return the unresolved comments of a pull request as one message."""
    if not comments:
        return f"The pull request {address} has no unresolved review comments."
    told = [f"Unresolved review comments of {address}, as their authors wrote them:"]
    for one in comments:
        told.append(f"- {one.author}{f' at {one.place}' if one.place else ''}:\n{_quote(one.text)}")
    return _cut("\n\n".join(told), "the forge has all of them")


def _quote(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines())
