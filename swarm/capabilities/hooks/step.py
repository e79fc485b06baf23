"""Run the hooks of one running agent and journal their answers; only the journaled entry takes effect.

`hooks_begun` is journaled before they run, `hooked` after. If the worker dies in between, the hooks may have run. They are not run again,
and the journal says so. So no hook runs twice for one event, and each is given the event's id to recognise its own work.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, get_args

from swarm.agent import notes
from swarm.agent.compaction import WantedSummary
from swarm.agent.decision import Action
from swarm.agent.entries import CompactionFailed, Entry, Hooked, HooksBegun, ToolFinished
from swarm.agent.transcript import describe_hooked
from swarm.capabilities.hooks.answers import AFTER_CALLS, BEFORE_CALLS, HookAnswer, interrupt, put_together
from swarm.capabilities.hooks.events import HookEvent, before_answer, before_call, before_question, find_events
from swarm.capabilities.hooks.files import Managed, read_managed
from swarm.capabilities.hooks.judging import Judges
from swarm.capabilities.hooks.payloads import tell, write_transcript
from swarm.capabilities.hooks.placement import place_hook
from swarm.capabilities.hooks.runner import HookCaller, made_file
from swarm.capabilities.hooks.table import HookTable
from swarm.core.errors import ToolError
from swarm.core.log import EventLog
from swarm.core.usage import Charge
from swarm.definitions.hook_commands import read_words
from swarm.definitions.hooks import Hook, Hooks
from swarm.definitions.plugins.words import FOLDERS
from swarm.definitions.tools import Kind, all_rows
from swarm.models import Block
from swarm.runtime.approvals import deny
from swarm.runtime.parts import Parts
from swarm.runtime.scratch import home_folder
from swarm.runtime.steps import Step
from swarm.store.journals import hook_call
from swarm.store.questions import Ask
from swarm.store.values import Counters
from swarm.tools import AwaitsAnswer, Tool, ToolContext
from swarm.tools.processes import scratch_folder
from swarm.tools.registry import load_tool

log = EventLog("swarm.hooks")
CONCURRENT_HOOKS = 8
_MAX_TOLD = 500
Due = list[tuple[HookEvent, list[Hook]]]


def hooks_of(parts: Parts) -> HookStep | None:
    """Return the hook step of this agent; None without hooks, at no cost. Raises `UnreadableRecord`."""
    segment = parts.segment
    settings = segment.settings
    managed = read_managed(settings.managed_hooks) if settings.managed_hooks is not None else Managed(Hooks())
    of_job = segment.carried("hooks", Hooks, "the hooks") or Hooks()
    table = HookTable(of_job, segment.spec.definition.hooks, managed, settings.user_hooks)
    return HookStep(parts, table) if table or of_job.files or managed.hooks.hooks else None


class HookStep(Step):
    """The hooks of one running agent."""

    takes = get_args(Action)

    def __init__(self, parts: Parts, table: HookTable) -> None:
        super().__init__(parts)
        self._segment, self._table = parts.segment, table
        self._workspace = parts.segment.workspace

    def due(self, action: Action) -> Callable[[], None] | None:
        due = self._find(find_events(self._segment.history, action))
        return partial(self._act, due) if due else None

    def _act(self, due: Due) -> None:
        self._run(due)

    def guarded(self, workspace: Path) -> list[Path]:
        """The files that hooks run, in this agent's folder and in the one that the job was submitted for."""
        named = [read_words(hook, workspace).file for hook in self._table.managed.hooks.hooks]
        folders = filter(None, (str(workspace), self._table.job.workspace))
        return [Path(folder) / file for folder in folders for file in (*self._table.job.files, *named) if file]

    def before_question(self, call: Block, ask: Ask, *, in_call: bool) -> bool:
        due = self._find(before_question(call, ask, in_call=in_call))
        return bool(due and self._run(due))

    def may_answer(self, server: str) -> bool:
        return bool(self._table.choose(before_answer("", {"mcp_server_name": server}), self._workspace))

    def answer(self, awaited: AwaitsAnswer) -> str:
        due = self._find([[before_answer(awaited.question_id, awaited.told)]])
        noted = self._run(due) if due else []
        return next(("decline" if hooked.decision == "block" else hooked.output or "" for hooked in noted), "")

    def _find(self, stages: Iterable[list[HookEvent]]) -> Due:
        """Find the first stage with hooks that have not run."""
        history = self._segment.history
        for stage in stages:
            new = [event for event in stage if event.id not in history.hooks.done]
            if due := [(event, hooks) for event in new if (hooks := self._table.choose(event, self._workspace))]:
                return due
        return []

    def refuse_call(self, call: Block) -> str:
        """Return why a call within another one is refused: hooks decide only about calls that the model makes itself.

        Empty if no hook applies.
        """
        if not self._table.choose(before_call(call), self._workspace):
            return ""
        return f"Not allowed: hooks decide about {call['name']} calls. Make one of its own."

    def _run(self, due: Due) -> list[Hooked]:
        """Run the hooks and journal their answers, which it returns. Raises `Interrupted`."""
        journal, begun = self._segment.journal, self._segment.history.hooks.begun
        lost = [(event, hooks) for event, hooks in due if event.id in begun]
        fresh = [(event, hooks) for event, hooks in due if event.id not in begun]
        if lost:
            self._note([(event, [interrupt(event, hook) for hook in hooks]) for event, hooks in lost])
        if not fresh:
            return []
        told = ", ".join(dict.fromkeys(event.name for event, _ in fresh))
        labels = [HooksBegun(event=event.id) for event, _ in fresh]
        journal.append(labels, activity=f"hooks: {told}")
        key = hook_call(journal.next_number)
        said, kept = self._ask(fresh, key), self._keep(fresh)
        noted = self._note(said, kept, self.parts.side_requests.spent(key))
        if kept.text:
            self.parts.files.noted()
        else:
            self.parts.files.ran()
        return noted

    # -- running -------------------------------------------------------------------------------------------

    def _find_judges(self, context: ToolContext) -> Judges:
        names = self._segment.history.tool_names()
        looks = [row for row in all_rows() if row.kind is Kind.LOOK and row.matching == "read" and row.name in names]
        return Judges(
            consult=partial(self.parts.side_requests.asker, context.tool_use_id),
            tools=[load_tool(row.home) for row in looks],
            refuse=self.parts.refuse_call,
            find_tool=self._find_served,
        )

    def _find_served(self, name: str) -> Tool:
        found = (step.find_tool(name) for step in self.parts.steps)
        tool = next((tool for tool in found if tool is not None), None)
        if tool is None:
            raise ToolError(f"the agent has no MCP server with the tool {name}")
        return tool

    def _ask(self, due: Due, key: str) -> list[tuple[HookEvent, list[HookAnswer]]]:
        """Run all of them concurrently."""
        segment = self._segment
        context = self.parts.toolbox.context_of(key)
        judges = self._find_judges(context)
        data = segment.settings.state_folder() / "plugin-data"
        calling = HookCaller(context, home_folder(context), scratch_folder(context), segment.spec.network, judges, data)
        self.parts.files.before_call({"id": context.tool_use_id})
        plugins = context.environment.get(FOLDERS, "")
        due = [(event, [hook.at(plugins) for hook in hooks]) for event, hooks in due]
        runs = {
            hook.id: place_hook(hook, self._table, self._workspace, context.folders)
            for _, hooks in due
            for hook in hooks
        }
        text = write_transcript(segment.history).encode()
        with contextlib.ExitStack() as stack:
            folders = {"host": calling.private, "sandbox": calling.home, "off": calling.private}
            transcripts = {
                place: stack.enter_context(made_file(folders[place], "transcript.jsonl", text)).path
                for place in {run.place for run in runs.values()}
            }
            asked = [
                (hook, event, told, runs[hook.id])
                for event, hooks in due
                for hook in hooks
                for transcript in [transcripts[runs[hook.id].place]]
                for told in [tell(event, segment.spec, segment.mode, str(transcript), self._look_up(event))]
            ]
            with ThreadPoolExecutor(min(CONCURRENT_HOOKS, len(asked))) as pool:
                said = list(pool.map(lambda one: calling.run(*one), asked))
        answers = iter(said)
        return [(event, [next(answers) for _ in hooks]) for event, hooks in due]

    def _keep(self, due: Due) -> ToolFinished:
        """Keep the files that the hooks left; before a call without a commit, because the call's own commit includes them."""
        nothing = ToolFinished(tool_use_id="", text="")
        ran = any(hook.kind == "command" for event, hooks in due if event.name not in BEFORE_CALLS for hook in hooks)
        read_only = self._segment.spec.definition.read_only or self._segment.mode == "plan"
        return self.parts.files.keep(nothing) if ran and not read_only else nothing

    def _look_up(self, event: HookEvent) -> dict[str, Any]:
        spec = self._segment.spec
        member = {"teammate_name": spec.name or spec.definition.name, "team_name": spec.job_id}
        if event.name == "TeammateIdle":
            return member
        if not event.name.startswith("Task") or event.call is None or not isinstance(event.call["input"], dict):
            return {}
        given = event.call["input"].get("task_id")
        if given is None:
            words = event.call["input"]
            task = {"task_subject": words.get("subject", ""), "task_description": words.get("description", "")}
            return {"task_id": "", **task, **member}
        about: dict[str, Any] = {"task_id": str(given), "task_subject": "", "task_description": ""}
        from swarm.capabilities.team.board import Board  # the event comes from its tool alone

        with contextlib.suppress(ValueError):
            board, number = Board(self._segment.store.keyspace, spec.job_id), int(str(given))
            about["task_subject"] = next((task.subject for task in board.tasks() if task.number == number), "")
            about["task_description"] = board.texts([number])[number].description
        return about | member

    # -- journaling ----------------------------------------------------------------------------------------

    def _note(
        self,
        answers: Sequence[tuple[HookEvent, list[HookAnswer]]],
        kept: ToolFinished | None = None,
        spent: Charge | None = None,
    ) -> list[Hooked]:
        entries: list[Entry] = []
        for event, said in answers:
            hooked = put_together(event, said)
            if kept is not None and not entries:
                told = kept.text.strip() if event.name in AFTER_CALLS else ""
                text = "\n\n".join(filter(None, [hooked.text, told]))
                hooked = hooked.model_copy(update={"commit": kept.commit, "text": text, **dict(spent or Charge())})
            entries.append(hooked)
            if event.call is not None and hooked.decision == "deny":
                text = f"{notes.REFUSED_BY_HOOK} It says: {hooked.reason}"
                entries.append(deny(self._segment.history, event.call, text, now=entries))
            if event.name == "PreCompact" and hooked.decision == "block":
                entries.append(self._refuse_summary(event, hooked))
        refused = sum(isinstance(entry, ToolFinished) for entry in entries)
        paid = spent is not None and not spent.is_free
        self._segment.journal.append(entries, counters=Counters(tools=refused) if refused else None, settle=paid)
        noted = [entry for entry in entries if isinstance(entry, Hooked)]
        for entry in noted:
            self._tell(entry)
        return noted

    def _refuse_summary(self, event: HookEvent, hooked: Hooked) -> CompactionFailed:
        wanted = self._segment.journal.wanted
        asked = WantedSummary(**json.loads(wanted)).id if wanted and event.subjects == ("manual",) else ""
        why = f"a hook refused it: {hooked.reason}"
        return CompactionFailed(error=why, error_kind="hook", trigger="manual" if asked else "auto", asked=asked)

    def _tell(self, hooked: Hooked) -> None:
        """Report effects and failures of hooks to people."""
        spec, wrong = self._segment.spec, [run for run in hooked.runs if run.outcome not in ("ok", "refused")]
        if hooked.changed or hooked.said or wrong:
            why = describe_hooked(hooked)
            self._segment.store.events.emit(
                spec.job_id, "hooked", spec.agent_id, event=hooked.name, why=why[:_MAX_TOLD]
            )
        for run in wrong:
            log.warning(
                "hook.not_heard", agent_id=spec.agent_id, hook=run.label, source=run.source, why=run.why or run.outcome
            )
