"""Texts of the runtime for an agent at work: requests, refusals, and its own results.

The only decision here is how often an agent may repeat a denied call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from swarm.agent.entries import Answered, Finished, Prompt
from swarm.agent.spec import AgentSpec
from swarm.core.records import AgentView
from swarm.models import Block

# -- about calls that were not run, or not again ---------------------------------------------------------------

_SHOWN_FILES = 20
_SHOWN_SETUP = 2_000
INTERRUPTED = (
    "This call was interrupted while it ran (its worker stopped). It may have taken effect, wholly or in part. "
    "It was not run again. Check its effects before you repeat it."
)
UNDONE = (
    "This call was interrupted while it ran (its worker stopped). Its changes to files of the workspace are undone. Its effects "
    "elsewhere (other folders, the network, other services) may have happened, wholly or in part. It was not run again."
)
OUT_OF_TIME = "This call was not run: the time limit is reached."
STOPPED = "This call was not run: you were stopped before it. Make it again if it is still needed."
CUT_OFF = "This call was not run: the reply was cut off at its length limit. Make the call again, in smaller parts."
NOT_RUN = "This call was not run: the reply ended before it was whole."
NO_IMAGE = "[An image stood here. The model's server could not use it, so it was taken out.]"
NO_TOOLS_LEFT = "No tools are left to you: this call was not run."
FORKED = "This call went to the agent that you were forked from. You are the fork: your own task follows."
REFUSED_BY_HOOK = "The call was not run: a hook refused it."
STOPPED_BY_HOOK = "Not run: a hook has ended this run."
NOT_APPROVED = "The call was not run. Find another way that is allowed, or say in your answer what is needed."
NOBODY_TO_ASK = "It needs a person's permission, and no one can be asked."
NOBODY_ANSWERED = "It needed a person's answer, and none came in time."

# -- about repeated denials -----------------------------------------------------------------------------------

TOLD_AT = 3
"""Denials of one kind in a run, the last of which carries a warning."""
STOPPED_AT = 6
"""Denials of one kind after which the agent is stopped, because further tokens would be lost."""
_MAX_DENIED = 200


def denied_as(tool: str, about: str) -> str:
    """Return the key of equal denials: the tool, and the denying rule or the call's subject."""
    return f"{tool} {' '.join(about.split())}".strip()[:_MAX_DENIED]


def advise_denied(count: int) -> str:
    """Return the advice for the `count`th denial of one kind; mostly empty."""
    if count != TOLD_AT:
        return ""
    return (
        f" This is the {TOLD_AT}rd time, and it will not be allowed: do not try it again in other words. Do the work that is possible "
        f"without it; if there is none, end now and say what is needed. After {STOPPED_AT} times you are stopped."
    )


def note_stubborn(denials: Mapping[str, int]) -> str:
    """Explain why an agent is stopped; empty if it is not."""
    kind = next((kind for kind, count in denials.items() if count >= STOPPED_AT), "")
    return f"it was stopped because it repeated a denied call {STOPPED_AT} times: {kind}" if kind else ""


# -- about files that follow their agent -----------------------------------------------------------------------


def files_left_out(reasons: Mapping[str, str]) -> str:
    """Note that files of the workspace are not kept; empty for none."""
    if not reasons:
        return ""
    shown = "\n".join(f"- {path}: {reason}" for path, reason in list(reasons.items())[:_SHOWN_FILES])
    more = f"\n- and {len(reasons) - _SHOWN_FILES:,} more" if len(reasons) > _SHOWN_FILES else ""
    return (
        "Note from the runtime: these are not kept with the workspace. They exist as long as you continue on this host, and are no "
        f"part of the job's result:\n{shown}{more}"
    )


def files_too_many(why: str) -> str:
    """Note that a call's file changes could not be kept, because the job has used up its space."""
    return (
        "Note from the runtime: the hub takes no more of this job's files, so this call's changes to the workspace are undone. Write "
        f"less, or to ignored folders, or finish with the work done so far. ({why[-300:]})"
    )


def host_changed(host: str, brought: Sequence[str]) -> str:
    """Note that the agent continues on another host; `brought` are folders that came along though Git ignores them."""
    came = f"{', '.join(brought)} came along as they were a while ago; other " if brought else ""
    return (
        f"Note from the runtime: you continue on another host ({host}). The workspace has the same files; {came}files that git ignores "
        "(installed packages, virtual environments, build results) and commands in the background stayed behind. Recreate what you "
        "need."
    )


def setup_done(source: str) -> str:
    """Note that the workspace's setup was run on the new host."""
    return f"The setup of the workspace ({source}) was run here."


def setup_failed(source: str, why: str, output: str) -> str:
    """Note that the workspace's setup failed in this checkout."""
    shown = output if len(output) <= _SHOWN_SETUP else f"…{output[-_SHOWN_SETUP:]}"
    printed = f" It printed:\n<setup-output>\n{shown}\n</setup-output>" if shown else ""
    return (
        f"Note from the runtime: the setup of the workspace ({source}) failed on this host: {why}. It is not run again here; do the "
        f"necessary parts yourself.{printed}"
    )


def files_unsettled(paths: Sequence[str]) -> str:
    """Note that files were written while they were stored; empty for none."""
    if not paths:
        return ""
    shown = ", ".join(paths[:_SHOWN_FILES]) + (
        f" and {len(paths) - _SHOWN_FILES:,} more" if len(paths) > _SHOWN_FILES else ""
    )
    return f"Note from the runtime: something still writes to {shown}; the stored copy may be incomplete until your next call."


def event_missed(key: str, seconds: float) -> str:
    """Return the result of a call whose event did not come."""
    return f"The event {key!r} did not come within {seconds:.0f} seconds. Wait for it again, or continue without it."


# -- about starting agents -------------------------------------------------------------------------------------

TOO_MANY_CHILDREN = (
    "You have as many agents as one agent may have: this one was not started. "
    "Have one of yours start it, or do the work yourself."
)
TOO_DEEP = "The nesting limit is reached: you cannot start agents. Do the work yourself."
ALLOWANCE_USED = "its workflow's allowance"
NO_ROOM = "The fleet's memory is nearly full, so no new agent can start now. Do the work yourself, or try again later."
NO_TEAM = (
    "There is no team for teammates to join: found one with TeamCreate first, or start an agent without `teammate`."
)


def other_team(asked: str, name: str) -> str:
    """Refuse a team that the job does not have."""
    return (
        f"There is no team {asked!r}: a job has one team at a time, and this one's is {name}. Name that, or dissolve it "
        "first (TeamDelete)."
    )


def too_many(max_agents: int) -> str:
    """Refuse an agent beyond the job's limit."""
    return f"The job's limit of {max_agents} agents is reached: this one was not started. Do it yourself."


def name_taken(name: str) -> str:
    """Refuse a name that another agent of the job has, or had."""
    return f"The name {name!r} is taken in this job, and names are not reused. Choose another one."


def cannot_go_on(agent_id: str, state: str) -> str:
    """Refuse to continue an agent; without a state it is somebody else's."""
    if state == "worn out":
        return f"{agent_id} has continued as often as the job allows: do not write to it again. Start a new agent, or finish."
    return f"{agent_id} is {state or 'not yours'}: it cannot continue. Start a new agent."


def started_in_background(agent_id: str) -> str:
    """Return the result of starting a child in the background."""
    return (
        f"Started in the background: {agent_id}. Its result will arrive by itself as a task-notification; "
        "continue with other work, or wait with WaitAgents. Do not ask for its state again and again."
    )


def child_result(record: AgentView, note: str = "") -> tuple[str, bool]:
    """Return a finished child as text, and whether it is an error; `note` is about its work."""
    text, failed = record.text.strip(), record.state != "completed"
    # Of a continued agent: this run alone.
    seconds = max(0.0, (record.ended_at or 0) - (record.run_at or record.created_at))
    head = (
        f"[{record.label.split(':', 1)[0]} {record.id}: {record.state}, {record.tools - record.run_tools} tool calls, "
        f"{record.subtree_tokens - record.run_tokens} tokens, {seconds:.1f} s]"
    )
    if record.reason:
        head += f"\n{'Reason' if failed else 'Note'}: {record.reason}"
    if not text:
        text = "(The agent ended without any text.)" if failed else "(The agent gave an empty answer.)"
    return "\n\n".join(filter(None, [head, text, note])), failed


def refuse_mail(spec: AgentSpec, finished: Finished) -> str:
    """Return the notice to the sender of a message that an agent did not read before its end."""
    why = f": {finished.reason}" if finished.reason else ""
    return f"Your message to {spec.called} was not read. It ended ({finished.state}{why}). Write again to continue it."


# -- about copies ----------------------------------------------------------------------------------------------

MERGED = "[It worked on a copy of your folder. Its changes are merged into your folder.]"
NOTHING_TO_MERGE = "[It worked on a copy of your folder and left nothing there that your folder does not have.]"
NOTHING_KEPT = "[It had not begun to work on its copy of your folder.]"
_LISTED_CHANGES = 30


def no_copy(why: str) -> str:
    """Refuse a child whose copy cannot be made."""
    return (
        f"This agent was not started: a copy of the workspace cannot be made ({why}). Start it with `isolation: none`."
    )


def list_changes(changes: Mapping[str, str]) -> str:
    """List a merge's changes by path: `A`dded, `M`odified, `D`eleted, `T`: of another type."""
    lines = [f"{kind} {path}" for path, kind in sorted(changes.items())[:_LISTED_CHANGES]]
    more = len(changes) - len(lines)
    return "".join(f"\n{line}" for line in [*lines, *([f"… and {more} more"] if more > 0 else [])])


def not_merged(agent_id: str) -> str:
    """Note that an incomplete child left work behind."""
    return (
        f"[Its work in its copy of your folder is kept and not merged. MergeAgent (agent_id {agent_id}) takes it over.]"
    )


def left_in_copy(agent_id: str) -> str:
    """Note that a background child has a result, and its work is still in its copy."""
    call = json.dumps({"agent_id": agent_id})
    return (
        f"The changes of {agent_id} are in its copy of your folder, and not in yours. To take it over, call MergeAgent with {call}. "
        "Where both of you changed the same, that writes both versions into the file between markers, unless you add a `strategy`: "
        "`ours` or `theirs`."
    )


def links_left_out(found: Mapping[str, str]) -> str:
    """Note the parts of a copy that were not merged; empty for none."""
    if not found:
        return ""
    shown = ", ".join(f"{path} ({why})" for path, why in list(found.items())[:_LISTED_CHANGES])
    more = f" and {len(found) - _LISTED_CHANGES:,} more" if len(found) > _LISTED_CHANGES else ""
    return f"\n[Left out because it leads out of your folder: {shown}{more}.]"


def left_alone(agent_id: str) -> str:
    """Return the result of declining a merge."""
    return f"Nothing is merged. The work of {agent_id} is kept as long as the job."


def merge_failed(why: str) -> str:
    """Note that a merge failed for another reason than a conflict."""
    return (
        f"[Its work in its copy of your folder is kept, but could not be merged: {why}. Try it again with MergeAgent.]"
    )


def in_the_way(agent_id: str, paths: Sequence[str]) -> str:
    """Note that git-ignored files stand where a child added its own."""
    told = ", ".join(paths[:_LISTED_CHANGES])
    return (
        f"[Its work in its copy of your folder is kept and not merged: these files, which Git does not track, are in the way in your "
        f"folder: {told}. Move them away, then call MergeAgent (agent_id {agent_id}).]"
    )


def conflicting(agent_id: str, count: int) -> str:
    """Note that a child's work conflicts with its parent's folder."""
    return (
        f"[Its work in its copy of your folder is NOT merged: it conflicts with your folder in {_paths(count)}, shown below. "
        f"Nothing of it is in your folder yet. Call MergeAgent (agent_id {agent_id}): strategy `merge` writes both versions into the "
        "files, for you to edit; `ours` keeps yours where they conflict, `theirs` takes the agent's.]"
    )


def with_markers(count: int, beside: Mapping[str, str]) -> str:
    """Return the result of a merge with conflict markers; `beside` maps files that cannot have any to the agent's version."""
    told = (
        f"Merged, with conflicts in {_paths(count)}: edit the files now, so that no line of markers (<<<<<<<, |||||||, =======, >>>>>>>) "
        "is left. A file that only one side deleted is as the other changed it."
    )
    for path, theirs in beside.items():
        told += f" {path} cannot have markers: it is yours, and the agent's version is {theirs}; keep one, and remove {theirs}."
    return told


def resolved(side: Literal["ours", "theirs"], count: int) -> str:
    """Return the result of a merge in which one side wins."""
    whose = "your" if side == "ours" else "the agent's"
    return f"Merged; where both had made changes, in {_paths(count)}, {whose} version was taken."


def _paths(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


# -- about plans -----------------------------------------------------------------------------------------------


PLAN_IS_ANSWER = "No one can approve the plan: it becomes your answer, and you are done."
NOBODY_FOR_PLAN = "no one could approve the plan, so the plan is the answer"


def plan_entered(plan_file: str) -> str:
    """Return the result of entering plan mode."""
    return (
        "You are in plan mode now: look and think, change nothing; commands cannot write. The only file that you may write is "
        f"{plan_file}. Your tools are the same as before; forbidden calls are refused. Hand your plan in with "
        "ExitPlanMode; once it is approved you are back in the mode you came from, and carry it out."
    )


def plan_answered(approved: bool, note: str) -> str:
    """Return the result of handing in a plan; `note` is the answer's text."""
    if approved:
        return (
            "The plan is approved. You have left plan mode: your tools now work without its limits, under the usual "
            f"permissions. Carry the plan out.\n{note}"
        )
    return f"The plan is not approved, and you stay in plan mode. {note}\nRevise the plan and hand it in again."


_SHOWN_CALL = 1_000


def answer_given(call: Block, answer: Answered) -> str:
    """Render a call and its answer, for when neither is in the conversation any more."""
    given = json.dumps(call.get("input"), ensure_ascii=False)
    asked = given if len(given) <= _SHOWN_CALL else given[:_SHOWN_CALL] + "…"
    return f"{call['name']} {asked}\n{'Answered' if answer.allowed else 'Refused'} by {answer.by}: {answer.reason}"


# -- about limits ----------------------------------------------------------------------------------------------

CONTEXT_FULL = "the conversation no longer fits the model, and could not be summarized"
CONTEXT_LEFT = "This conversation no longer fits the model, and it could not be summarized."
GO_ON = "Your reply was cut off at its length limit. Continue exactly where it stopped."

Limit = Literal["turns", "tokens", "budget", "time", "context", "space"]


def final_answer(limit: Limit, why: str) -> Prompt:
    """Ask for a final answer, so that work at a limit is not lost."""
    text = (
        f"{why} No further tools can be used. Give your final answer now: your findings or changes, "
        "the remaining work, and anything the reader must know."
    )
    return Prompt(text=text, purpose="final_answer", limit=limit)


def no_space(whose: Literal["agent", "job"]) -> Prompt:
    """Ask for a final answer because there is no space to record more."""
    held = "Your journal holds" if whose == "agent" else "The journals of this job's agents hold"
    return final_answer("space", f"{held} as much as may be kept.")


def nearly_used_up(limit: Literal["tokens", "budget"], share: float) -> Prompt:
    """Warn that a limit of the job is near; `share` of it is used."""
    text = f"Note from the runtime: {share:.0%} of the job's limit is used. Finish soon."
    return Prompt(text=text, purpose="warning", limit=limit)
