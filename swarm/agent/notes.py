"""What the runtime says to an agent on the way: requests, refusals, and results that it writes itself.

Words only: nothing is decided here but how often is too often for what is denied.
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
    "This call was interrupted while it ran (its worker stopped). Its changes to the files of the workspace are undone: they are as they "
    "were before it. What it did elsewhere (other folders, the network, other services) may have happened, wholly or in part. It was "
    "not run again."
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
NOBODY_TO_ASK = "It needs a person's permission, and nobody is there to be asked."
NOBODY_ANSWERED = "It needed a person's answer, and nobody answered in time."

# -- about what is denied again and again ----------------------------------------------------------------------

TOLD_AT = 3
"""Denials of one kind in a run, with the last of which it is told …"""
STOPPED_AT = 6
"""… and after which it is stopped: what it spends from there on is lost."""
_MAX_DENIED = 200


def denied_as(tool: str, about: str) -> str:
    """What denials have in common: the tool, and the rule that denied it, or else what the call was about."""
    return f"{tool} {' '.join(about.split())}".strip()[:_MAX_DENIED]


def advise_denied(count: int) -> str:
    """What is added to the words of the `count`th denial of one kind; mostly nothing."""
    if count != TOLD_AT:
        return ""
    return (
        f" This is the {TOLD_AT}rd time, and it will not be allowed: do not try it again in other words. Do what can be done without it; "
        f"if nothing can, end now and say what is needed. After {STOPPED_AT} times you are stopped."
    )


def note_stubborn(denials: Mapping[str, int]) -> str:
    """Why an agent is stopped; empty if it is not."""
    kind = next((kind for kind, count in denials.items() if count >= STOPPED_AT), "")
    return f"it was stopped, for it tried {STOPPED_AT} times what is denied: {kind}" if kind else ""


# -- about files that follow their agent -----------------------------------------------------------------------


def files_left_out(reasons: Mapping[str, str]) -> str:
    """Files of the workspace are not kept; empty for none."""
    if not reasons:
        return ""
    shown = "\n".join(f"- {path}: {reason}" for path, reason in list(reasons.items())[:_SHOWN_FILES])
    more = f"\n- and {len(reasons) - _SHOWN_FILES:,} more" if len(reasons) > _SHOWN_FILES else ""
    return (
        "Note from the runtime: these are not kept with the workspace. They are there as long as you go on on this host, and are no "
        f"part of the job's result:\n{shown}{more}"
    )


def files_too_many(why: str) -> str:
    """What a call did to files could not be kept, as the job has used up its room."""
    return (
        "Note from the runtime: the hub takes no more of this job's files, so what this call changed in the workspace is undone. Write "
        f"less, or to folders that are ignored, or come to an end with what there is. ({why[-300:]})"
    )


def host_changed(host: str) -> str:
    """The agent goes on on another host than the one it began on."""
    return (
        f"Note from the runtime: you go on on another host ({host}). The workspace has the files that it had; what git ignores there "
        "(installed packages, virtual environments, build results) and commands in the background stayed behind. Make anew what you "
        "need of it."
    )


def setup_done(source: str) -> str:
    """The workspace's setup was run on the new host."""
    return f"The setup of the workspace ({source}) was run here."


def setup_failed(source: str, why: str, output: str) -> str:
    """The workspace's setup was run in this checkout, in vain."""
    shown = output if len(output) <= _SHOWN_SETUP else f"…{output[-_SHOWN_SETUP:]}"
    printed = f" It printed:\n<setup-output>\n{shown}\n</setup-output>" if shown else ""
    return (
        f"Note from the runtime: the setup of the workspace ({source}) failed on this host: {why}. It is not run again here; do what "
        f"you need of it yourself.{printed}"
    )


def files_unsettled(paths: Sequence[str]) -> str:
    """Files were written while they were kept; empty for none."""
    if not paths:
        return ""
    shown = ", ".join(paths[:_SHOWN_FILES]) + (
        f" and {len(paths) - _SHOWN_FILES:,} more" if len(paths) > _SHOWN_FILES else ""
    )
    return f"Note from the runtime: something still writes to {shown}; what was kept of it may be incomplete until your next call."


def event_missed(key: str, seconds: float) -> str:
    """The result of a call that has waited for an event in vain."""
    return f"The event {key!r} did not come within {seconds:.0f} seconds. Wait for it again, or go on without it."


# -- about starting agents -------------------------------------------------------------------------------------

TOO_MANY_CHILDREN = (
    "You have as many agents as one agent may have: this one was not started. "
    "Have one of yours start it, or do the work yourself."
)
TOO_DEEP = "The nesting limit is reached: you cannot start agents. Do the work yourself."
NO_TEAM = (
    "There is no team for teammates to join: found one with TeamCreate first, or start an agent without `teammate`."
)


def other_team(asked: str, name: str) -> str:
    """Somebody was to join a team that the job does not have."""
    return (
        f"There is no team {asked!r}: a job has one team at a time, and this one's is {name}. Name that, or dissolve it "
        "first (TeamDelete)."
    )


def too_many(max_agents: int) -> str:
    """The job has as many agents as it may have."""
    return f"The job's limit of {max_agents} agents is reached: this one was not started. Do it yourself."


def name_taken(name: str) -> str:
    """Another agent of the job has, or had, that name."""
    return f"The name {name!r} is taken in this job, and names are not reused. Choose another one."


def cannot_go_on(agent_id: str, state: str) -> str:
    """An agent that was to be continued cannot be; without a state it is somebody else's."""
    if state == "worn out":
        return f"{agent_id} has gone on as often as the job allows: do not write to it again. Start a new agent, or finish."
    return f"{agent_id} is {state or 'not yours'}: it cannot go on. Start a new agent."


def started_in_background(agent_id: str) -> str:
    """A child that is not waited for has started."""
    return (
        f"Started in the background: {agent_id}. Its result will arrive by itself as a task-notification; "
        "go on with other work, or wait with WaitAgents. Do not ask for its state again and again."
    )


def child_result(record: AgentView, note: str = "") -> tuple[str, bool]:
    """A finished child as the text its parent gets, and whether it is an error; `note` is about its work."""
    text, failed = record.text.strip(), record.state != "completed"
    # Of one that went on: what this run took.
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
    """What whoever wrote to an agent is told when it has ended without reading that."""
    why = f": {finished.reason}" if finished.reason else ""
    return (
        f"Your message to {spec.called} was not read. It ended ({finished.state}{why}). Write again to have it go on."
    )


# -- about copies ----------------------------------------------------------------------------------------------

MERGED = "[It worked on a copy of your folder. What it changed there is merged into your folder.]"
NOTHING_TO_MERGE = "[It worked on a copy of your folder and left nothing there that your folder does not have.]"
NOTHING_KEPT = "[It had not begun to work on its copy of your folder.]"
_LISTED_CHANGES = 30


def no_copy(why: str) -> str:
    """A child's copy cannot be made."""
    return (
        f"This agent was not started: a copy of the workspace cannot be made ({why}). Start it with `isolation: none`."
    )


def list_changes(changes: Mapping[str, str]) -> str:
    """What a merge changed, by path: `A`dded, `M`odified, `D`eleted, `T`: of another type."""
    lines = [f"{kind} {path}" for path, kind in sorted(changes.items())[:_LISTED_CHANGES]]
    more = len(changes) - len(lines)
    return "".join(f"\n{line}" for line in [*lines, *([f"… and {more} more"] if more > 0 else [])])


def not_merged(agent_id: str) -> str:
    """A child that did not complete left work behind."""
    return f"[What it did in its copy of your folder is kept and not merged. MergeAgent (agent_id {agent_id}) takes it over.]"


def left_in_copy(agent_id: str) -> str:
    """A child that was not waited for has a result, and its work is still in its copy."""
    call = json.dumps({"agent_id": agent_id})
    return (
        f"What {agent_id} changed is in its copy of your folder, and not in yours. To take it over, call MergeAgent with {call}. "
        "Where both of you changed the same, that writes both versions into the file between markers, unless you add a `strategy`: "
        "`ours` or `theirs`."
    )


def links_left_out(found: Mapping[str, str]) -> str:
    """What of a copy was not merged; empty for nothing."""
    if not found:
        return ""
    shown = ", ".join(f"{path} ({why})" for path, why in list(found.items())[:_LISTED_CHANGES])
    more = f" and {len(found) - _LISTED_CHANGES:,} more" if len(found) > _LISTED_CHANGES else ""
    return f"\n[Left out, for it leads out of your folder: {shown}{more}.]"


def left_alone(agent_id: str) -> str:
    """Nothing was to be merged."""
    return f"Nothing is merged. What {agent_id} did is kept as long as the job is."


def merge_failed(why: str) -> str:
    """Merging did not work, and no conflict is the reason."""
    return f"[What it did in its copy of your folder is kept, but could not be merged: {why}. Try it again with MergeAgent.]"


def in_the_way(agent_id: str, paths: Sequence[str]) -> str:
    """Files that git ignores stand where a child added its own."""
    told = ", ".join(paths[:_LISTED_CHANGES])
    return (
        f"[What it did in its copy of your folder is kept and not merged: these lie in the way in your folder, where Git does not hold "
        f"them: {told}. Move them away, then call MergeAgent (agent_id {agent_id}).]"
    )


def conflicting(agent_id: str, count: int) -> str:
    """A child's work cannot be merged by itself."""
    return (
        f"[What it did in its copy of your folder is NOT merged: it conflicts with your folder in {_paths(count)}, shown below. "
        f"Nothing of it is in your folder yet. Call MergeAgent (agent_id {agent_id}): strategy `merge` writes both versions into the "
        "files, for you to edit; `ours` keeps yours where they conflict, `theirs` takes the agent's.]"
    )


def with_markers(count: int) -> str:
    """A merge was made with what conflicts in it."""
    return (
        f"Merged, with conflicts in {_paths(count)}: edit the files now, so that no line of markers (<<<<<<<, |||||||, =======, >>>>>>>) "
        "is left. A binary file is as you had it; a file that only one side deleted is as the other changed it."
    )


def resolved(side: Literal["ours", "theirs"], count: int) -> str:
    """A merge was made in which one side wins."""
    whose = "your" if side == "ours" else "the agent's"
    return f"Merged; where both had changed the same, in {_paths(count)}, {whose} version was taken."


def _paths(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


# -- about plans -----------------------------------------------------------------------------------------------


PLAN_IS_ANSWER = "Nobody is there to approve the plan: it is given as your answer, and you are done."
NOBODY_FOR_PLAN = "nobody was there to approve the plan, so the plan is the answer"


def plan_entered(plan_file: str) -> str:
    """The agent has gone over to planning."""
    return (
        "You are in plan mode now: look and think, change nothing; commands cannot write. The only file that you may write is "
        f"{plan_file}. Your tools are the same as before; what they may not do in this mode is refused. Hand your plan in with "
        "ExitPlanMode; once it is approved you are back in the mode you came from, and carry it out."
    )


def plan_answered(approved: bool, note: str) -> str:
    """Whoever was asked about a plan has answered, in these words."""
    if approved:
        return (
            "The plan is approved. You have left plan mode: your tools now work without its limits, under the usual "
            f"permissions. Carry the plan out.\n{note}"
        )
    return f"The plan is not approved, and you stay in plan mode. {note}\nRevise the plan and hand it in again."


_SHOWN_CALL = 1_000


def answer_given(call: Block, answer: Answered) -> str:
    """What was answered about a call, for when neither is in the conversation any more."""
    given = json.dumps(call.get("input"), ensure_ascii=False)
    asked = given if len(given) <= _SHOWN_CALL else given[:_SHOWN_CALL] + "…"
    return f"{call['name']} {asked}\n{'Answered' if answer.allowed else 'Refused'} by {answer.by}: {answer.reason}"


# -- about limits ----------------------------------------------------------------------------------------------

CONTEXT_FULL = "the conversation no longer fits the model, and could not be summarized"
CONTEXT_LEFT = "This conversation no longer fits the model, and it could not be summarized."
GO_ON = "Your reply was cut off at its length limit. Go on exactly where it stopped."

Limit = Literal["turns", "tokens", "budget", "time", "context"]


def final_answer(limit: Limit, why: str) -> Prompt:
    """The request for a final reply, so that work at a limit is not lost."""
    text = (
        f"{why} No further tools can be used. Give your final answer now: what you found or changed, "
        "what is left to do, and anything the reader must know."
    )
    return Prompt(text=text, purpose="final_answer", limit=limit)


def nearly_used_up(limit: Literal["tokens", "budget"], share: float) -> Prompt:
    """The warning before a limit of the job is reached; `share` of it is used."""
    text = f"Note from the runtime: {share:.0%} of the job's limit is used. Come to a close soon."
    return Prompt(text=text, purpose="warning", limit=limit)
