"""The tools about other agents: start them, wait for them, list them, stop them.

The runtime itself carries out `Agent`, because it changes the tree. It parks the agent until the condition of `WaitAgents` holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from swarm.agent.history import History
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.core.errors import BadName, ToolError, UnknownReceiver
from swarm.core.records import AgentView
from swarm.definitions.model import (
    DEFAULT_TYPE,
    REMOTE_SECONDS,
    AgentDefinition,
    Effort,
    Execution,
    Isolation,
    PermissionMode,
    Phase,
)
from swarm.definitions.tools import CLEAN
from swarm.store.store import Store
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.schemas import boolean, choice, number, string, strings
from swarm.workspace.merge import Strategy

MIN_WAIT_SECONDS, DEFAULT_WAIT_SECONDS, MAX_WAIT_SECONDS = 10, 30, 3_600
WAITING: dict[str, Any] = {
    "mode": choice(["any", "all"], "Wait for the first or for all of them; default all."),
    "timeout_seconds": number(f"Default {DEFAULT_WAIT_SECONDS}.", minimum=MIN_WAIT_SECONDS, maximum=MAX_WAIT_SECONDS),
}
"""The parameters of all tools that wait."""
MAX_TYPES_CHARACTERS = 11_000
"""Limit of the list of types in the tool's description: about 3 500 tokens, sent with every request of every agent."""
SEARCH_MARK = "?"
"""Prefix of a `subagent_type` that is a search."""
_MAX_SENTENCE = 160
_SHOWN = 100
_RESTATED = 20
"""Ended agents that are listed again after a summary."""


def naming_types(tool: Tool, definitions: Sequence[AgentDefinition], *, coordinated: bool = False) -> Tool:
    """Return the tool with the types that agents of this job can start, in a text of bounded size.

    A coordinator also sees the types' tools, and states the purpose of each order.
    """
    if coordinated:
        tool = ordering(tool)
        definitions = [d.model_copy(update={"description": f"{d.description} ({_tools_of(d)})"}) for d in definitions]
    return replace(tool, description=f"{tool.description}\nTypes:\n{_list_types(definitions)}")


def ordering(tool: Tool) -> Tool:
    """Return the tool with the additional parameters of a coordinator's orders."""
    return replace(tool, parameters={**tool.parameters, **_ORDER}, required=[*tool.required, "phase"])


def _tools_of(definition: AgentDefinition) -> str:
    listed = "all" if definition.tools is None else ", ".join(definition.tools) or "none"
    return f"tools: {listed}" + ("; changes nothing, its shell cannot write" if definition.read_only else "")


def find_types(words: str, definitions: Sequence[AgentDefinition]) -> str:
    """The types whose name or description has all the words, as an answer to the model."""
    wanted = words.lower().split()
    found = [d for d in definitions if all(word in f"{d.name} {d.description}".lower() for word in wanted)]
    if not found:
        return f"No type has {words.strip()!r} in its name or description. Search with other words, or a single one."
    return "Nothing was started. Types found; call again with the name of one:\n" + _fit(
        [_describe_type(d) for d in found], "search with more words"
    )


def _list_types(definitions: Sequence[AgentDefinition]) -> str:
    full = "\n".join(_describe_type(d) for d in definitions)
    if len(full) <= MAX_TYPES_CHARACTERS:
        return full
    # The project's own texts mention the shipped types.
    ordered = sorted(definitions, key=lambda d: (d.source != "shipped", d.name))
    share = MAX_TYPES_CHARACTERS // len(ordered) - 1
    if share >= 2 * _MAX_SENTENCE:
        lines = [line if len(line) <= share else f"{line[: share - 1]}…" for line in map(_describe_type, ordered)]
    else:
        lines = [f"- {d.name}: {_first_sentence(d.description)}" for d in ordered]
    if sum(map(len, lines)) + len(lines) > MAX_TYPES_CHARACTERS:
        lines = [f"- {d.name}" for d in ordered]
    search = f'`subagent_type: "{SEARCH_MARK}keyword"` searches names and whole descriptions, and starts nothing'
    return f"{_fit(lines, 'search for them')}\n({search}.)"


def _fit(lines: Sequence[str], remedy: str) -> str:
    kept, size = 0, 0
    while kept < len(lines) and size + len(lines[kept]) < MAX_TYPES_CHARACTERS:
        size += len(lines[kept]) + 1
        kept += 1
    more = len(lines) - kept
    return "\n".join([*lines[:kept], *([f"… and {more} more: {remedy}"] if more else [])])


def _describe_type(definition: AgentDefinition) -> str:
    return f"- {definition.name}: {' '.join(definition.description.split())}"


def _first_sentence(description: str) -> str:
    text = " ".join(description.split())
    return re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0][:_MAX_SENTENCE]


def find_child(store: Store, spec: AgentSpec, who: str, *, teammates: bool = True) -> str:
    """The id of an agent that this one started, by id or name. Raises `UnknownReceiver` for any other."""
    found = store.mail.directory(spec.job_id).find_agent(who, spec.agent_id)
    [agent] = store.agents.find([found.id])
    if agent is None or agent.parent_id != spec.agent_id:
        raise UnknownReceiver(f"{found.name} is not an agent that you started")
    if agent.teammate and not teammates:
        raise BadName(f"{found.name} is a teammate: give it more work with SendMessage or on the board")
    return found.id


# -- waiting ---------------------------------------------------------------------------------------------------


def deadline_of(context: ToolContext, given: dict[str, Any]) -> float:
    """Deadline of a waiting call (Unix seconds)."""
    return context.now() + float(given.get("timeout_seconds", DEFAULT_WAIT_SECONDS))


def _await_agents(context: ToolContext, given: dict[str, Any]) -> Condition:
    if given.get("agent_ids"):
        chosen = [find_child(context.store, context.spec, who) for who in dict.fromkeys(given["agent_ids"])]
    else:
        children = context.store.agents.find(sorted(context.store.agents.children(context.agent_id)))
        chosen = [child.id for child in children if child and child.background and child.at_work]
    if not chosen:
        raise ToolError("None of your agents is at work in the background: there is nothing to wait for.")
    return Condition(children=chosen, mode=given.get("mode", "all"), mail="talk", until=deadline_of(context, given))


def _tell_waited(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    assert context.waited is not None
    lines, working = [], 0
    for agent in context.store.agents.find(context.waited.children):
        if agent is None:
            continue
        working += agent.at_work
        now: str = "idle" if agent.idle else agent.state
        if agent.at_work and agent.activity:
            now += f", {agent.activity}"
        lines.append(f"- {f'{agent.name} ' if agent.name else ''}{agent.id} ({agent.label}): {now}")
    head = f"{working} of {len(lines)} still at work." if working else "None of them is at work any more."
    return ToolResult(text="\n".join([f"{head} Results and messages follow below as they arrive.", *lines]))


# -- descendants -----------------------------------------------------------------------------------------------


def _list_agents(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    below = _below(context)
    if not below:
        return ToolResult(text="You have started no agents.")
    now = context.store.now()
    lines = [_describe(agent, now) for agent in below.values()]
    hidden = [f"… and {len(lines) - _SHOWN} older ones"] if len(lines) > _SHOWN else []
    return ToolResult(text="\n".join([*hidden, *lines[-_SHOWN:]]))


def _stop_agent(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    found = find_below(context, given["agent_id"])
    # Descendants of an ended agent may still run.
    reason = str(given.get("reason") or "stopped by the agent that started it")
    context.publish(context.store.agents.cancel(found.id, reason, by=(context.agent_id, context.generation)))
    if found.ended:
        return ToolResult(text=f"{found.called} had ended already: {found.state}.")
    return ToolResult(text=f"{found.called} is stopped, and all that it had started.")


def find_below(context: ToolContext, who: str) -> AgentView:
    """The agent of that id or name that the caller, or one of its agents, has started. Raises `ToolError` for any other."""
    found = context.store.mail.directory(context.job_id).find_agent(who, context.agent_id)
    record = _below(context).get(found.id)
    if record is None:
        raise ToolError(f"{who!r} is not below you: this is for agents that you, or agents of yours, started.")
    return record


def _below(context: ToolContext) -> dict[str, AgentView]:
    found: dict[str, AgentView] = {}
    for agent in context.store.agents.of(context.job_id, answers=False):
        # Parents come first, so one pass finds the whole subtree.
        if agent.parent_id == context.agent_id or agent.parent_id in found:
            found[agent.id] = agent
    return found


def _describe(agent: AgentView, now: float) -> str:
    name = f"{agent.name} " if agent.name else ""
    state = "idle" if agent.idle else agent.state
    age = (agent.ended_at or now) - agent.created_at
    line = f"- {name}{agent.id} ({agent.label}): {state}, {age:.0f} s, {agent.turns} turns, {agent.usage.total_tokens} tokens"
    if not agent.ended and agent.activity:
        line += f"; {agent.activity}, {now - (agent.active_at or now):.0f} s ago"
    return line


def restate_children(context: ToolContext, history: History) -> str:
    """List the agents that it started: all that still run, and the last that ended."""
    records = [
        record
        for record in context.store.agents.find(sorted(context.store.agents.children(context.agent_id)))
        if record
    ]
    over = sorted((record for record in records if record.ended), key=lambda record: record.ended_at or 0.0)
    lines = [
        f"{record.id} ({record.called}): {'idle' if record.idle else record.state}; {record.label}"
        + ("; its result will come by itself" if record.background and not record.idle else "")
        for record in records
        if not record.ended
    ]
    if len(over) > _RESTATED:
        lines.append(f"{len(over) - _RESTATED} ended earlier.")
    lines += [f"{record.id} ({record.called}): ended, {record.state}; {record.label}" for record in over[-_RESTATED:]]
    return "\n".join(lines)


AGENT = Tool(
    name="Agent",
    description=(
        "Start another agent on a part of the work and get its final answer as this call's result. It works on a process of "
        "its own with a fresh conversation, so the prompt must hold everything it needs: the goal, known facts, "
        "paths, and the form of the answer. To run several at the same time, make several Agent calls in one reply. "
        "With run_in_background the call returns at once, and the answer arrives by itself as a task-notification. Do small "
        "steps yourself: reading a file whose path you know, finding a name, looking at two or three files, saying what you know. "
        "Never start an agent to watch another: you are notified of ends."
    ),
    parameters={
        "description": string("Its purpose, in 3 to 5 words."),
        "prompt": string("The whole task: it sees nothing else.", minLength=1),
        "subagent_type": string(f"One of the types above; default {DEFAULT_TYPE}. fork: as `fork`."),
        "model": string("haiku, sonnet, opus or a full model id; default: the type's own."),
        "effort": choice(get_args(Effort), "How hard it thinks; default: the type's own."),
        "mode": choice(
            get_args(PermissionMode),
            "Its permission mode, if it is to have less than it would: plan lets it only look.",
        ),
        "cwd": string(
            "A folder of the workspace that it begins in; it may use the rest, too. Default: where you began."
        ),
        "name": string("A name to write to it by; never used twice in a job."),
        "run_in_background": boolean("Go on without waiting for it."),
        "agent_id": string(
            "The id or name of an agent that you started, also one that you stopped: it continues with `prompt` and its conversation; "
            "its type, model and name stay."
        ),
        "fork": boolean(
            "It begins with this whole conversation instead of a fresh one, and has your model. As the same type, unless "
            "`subagent_type` names another: then it has that type's instructions, and of your tools those of that type."
        ),
        "team_name": string("As `teammate`, for the team of this name."),
        "teammate": boolean(
            "It joins your team (TeamCreate), and stays when it is done: it waits for messages and tasks, in the "
            "background. Needs a name."
        ),
        "isolation": choice(
            get_args(Isolation),
            "worktree: it works on a copy of your folder as it is now, uncommitted changes included, and its changes are "
            "merged into yours with its result. remote: such a copy, on any host. none: in your folder. Default: the type's.",
        ),
        "kind": choice(
            get_args(Execution),
            f"local: it runs on the host that you run on. remote: on any host, {REMOTE_SECONDS / 60:g} minutes at most. teammate: as "
            "`teammate` says. Default: the type's, else forked: a process of its own, as all have.",
        ),
        "abort_siblings": boolean("If it fails, the agents of the same reply are ended. Default: the type's."),
        "role": string("A teammate's role: which tasks of the board are for it."),
        "result_schema": {
            "type": "object",
            "description": "A JSON schema: the answer will be one JSON document that is valid for it.",
        },
    },
    required=["description", "prompt"],
)

_ORDER: dict[str, Any] = {
    "phase": choice(
        get_args(Phase), "The order's purpose. A researcher can change nothing; a verifier has not built the change."
    ),
    "files": strings(
        "Paths, folders or patterns, from the workspace on, that an implementation will change.", maxItems=100
    ),
    "done_when": string("The check that shows that an implementation is done."),
}

WAIT_AGENTS = Tool(
    name="WaitAgents",
    description=(
        "Wait until agents that you started in the background have ended, a message arrives, or the time has passed. Costs nothing "
        "while it waits. Answers their states; their results follow as task-notifications. One long wait is better "
        "than many short ones. Not needed for agents in the foreground."
    ),
    parameters={"agent_ids": strings("Ids or names; default: all of yours that are still at work."), **WAITING},
    wait=_await_agents,
    run=_tell_waited,
)

LIST_AGENTS = Tool(
    name="ListAgents",
    description=(
        "List the agents that you started, and the agents below them: name, current state, age, last activity, tokens. States "
        "in the conversation may be old. To learn of an end, wait for it; do not list repeatedly."
    ),
    parameters={},
    run=_list_agents,
)

STOP_AGENT = Tool(
    name="StopAgent",
    description=(
        "Stop an agent that you started, and all that it started, at once; its current call is interrupted. An agent that you started "
        "yourself can continue later (Agent with agent_id), the agents below it cannot."
    ),
    parameters={"agent_id": string("Its id or name."), "reason": string("Why, in a few words.")},
    required=["agent_id"],
    run=_stop_agent,
)


def _merge_agent(context: ToolContext, given: dict[str, Any]) -> ToolResult:
    child_id = find_child(context.store, context.spec, given["agent_id"])
    if context.read_only or context.mode == "plan":
        raise ToolError("You may change nothing here, so nothing can be merged.")
    assert context.merge is not None, "only a running agent merges"
    strategy = given.get("strategy", "merge")
    return context.merge(context.store.agents.get(child_id), None if strategy == CLEAN else strategy)


MERGE_AGENT = Tool(
    name="MergeAgent",
    description=(
        "Merge into your folder the changes that an agent of yours made in its own copy (isolation), if its result did not merge "
        "them: they conflicted, the agent was in the background, or did not complete. Changes without conflict are always merged."
    ),
    parameters={
        "agent_id": string("Its id or name."),
        "strategy": choice(
            (*get_args(Strategy), CLEAN),
            "Where both changed the same: merge (default) writes both into the file between conflict markers, for you to edit; "
            "ours keeps yours, theirs takes the agent's; none merges nothing, and clean nothing if anything conflicts.",
        ),
    },
    required=["agent_id"],
    run=_merge_agent,
)
