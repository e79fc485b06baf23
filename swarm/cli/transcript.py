"""`swarm transcript`: an agent's journal, as a conversation for people or line by line for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any
from xml.etree import ElementTree  # only the runtime writes the tags, so this is not foreign XML
from xml.etree.ElementTree import Element

import typer
from rich.console import Console
from rich.text import Text

from swarm.agent.entries import (
    Answered,
    Assistant,
    Compacted,
    Entry,
    Finished,
    Hooked,
    Started,
    ToolFinished,
    Verdict,
    encode_entry,
)
from swarm.capabilities.hooks.telling import describe_hooked
from swarm.cli.completing import complete_agent
from swarm.cli.opening import find_agent, open_swarm
from swarm.cli.output import (
    one_line,
    output_console,
    plain,
    print_json_text,
    print_note,
    show_cost,
    show_count,
    show_duration,
)
from swarm.cli.patience import SILENCE_SECONDS, describe_waiting
from swarm.cli.tree_view import describe_verdict
from swarm.client.swarm import Swarm
from swarm.core.records import VerdictView
from swarm.definitions.tools import Kind, row_of

_SHOWN_LINES = 12
_SHOWN_LINE_CHARACTERS = 400
_SHOWN_INPUT_CHARACTERS = 160


def show_transcript(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[AGENT|JOB]",
            autocompletion=complete_agent,
            help="An id or the beginning of it; for a job, its first agent. Default: the newest job.",
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Cut nothing, and show the system prompt.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the agent ends.")] = False,
    since_cut: Annotated[
        bool, typer.Option("--since-cut", help="Leave out what a summary stands for, by now, in the model's eyes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one journal entry per line, as it is stored.")] = False,
) -> None:
    """Print everything an agent has lived: prompts, replies, tool calls and their results, waits, cuts of its conversation."""
    printer = TranscriptPrinter(output_console(), full=full)
    with open_swarm() as swarm:
        agent_id = find_agent(swarm, target)
        for entries in follow_journal(swarm, agent_id) if follow else [swarm.journal(agent_id)]:
            entries = _since_cut(entries) if since_cut else entries
            if as_json:
                for entry in entries:
                    print_json_text(encode_entry(entry))
            elif entries or not follow:
                printer.print(entries)


def _since_cut(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries that the model still sees as they are, and the start."""
    cut = next((entry for entry in reversed(entries) if isinstance(entry, Compacted)), None)
    if cut is None:
        return entries
    first = cut.through if cut.kept else entries.index(cut)
    return [*entries[:1], *entries[max(1, first) :]]


def follow_journal(swarm: Swarm, agent_id: str) -> Iterator[Sequence[Entry]]:
    """The agent's journal as it grows, up to its end; says on stderr what is waited for when that takes long."""
    swarm = swarm.outlasting(swarm.agent(agent_id).job_id)
    told, said_at = 0, time.monotonic()
    while True:
        # Asked for first: what was written before the end is found below.
        agent = swarm.agent(agent_id)
        entries = list(swarm.store.journals.read(agent_id, told))
        if entries:
            told, said_at = told + len(entries), time.monotonic()
            yield entries
        elif agent.ended:
            return
        elif time.monotonic() - said_at >= SILENCE_SECONDS:
            said_at = time.monotonic()
            print_note(describe_waiting([agent]))
        else:
            swarm.store.streams.wait(("journal", agent_id), f"{told}-0", 1.0)


class TranscriptPrinter:
    """Prints a journal for a person."""

    def __init__(self, console: Console, *, full: bool) -> None:
        self._console, self._full = console, full
        self._calls: dict[str, str] = {}
        self._at, self._rehearsed = 0.0, False

    def print(self, entries: Sequence[Entry]) -> None:
        """Print all of it."""
        for entry in entries:
            self._print_entry(entry)
        if not entries:
            self._print("the agent has not begun yet", "dim")

    def _print_entry(self, entry: Entry) -> None:
        self._at = entry.at
        match entry.kind:
            case "started":
                self._print_start(entry)
            case "prompt":
                self._heading("prompt" if entry.purpose == "task" else entry.purpose.replace("_", " "))
                self._body(entry.text)
            case "assistant":
                self._print_reply(entry)
            case "model_failed":
                self._print(
                    f"! the model failed ({entry.error_kind}): {entry.error}", "red" if entry.permanent else "yellow"
                )
            case "tool_started":
                pass  # its call was told with the reply, its end follows
            case "tool_finished":
                self._print_result(entry)
            case "spawned":
                for call, child in entry.children.items():
                    self._print(f"⤷ started {child} for {self._calls.get(call, call)}", "cyan")
            case "mail":
                for heading, text in read_messages(entry.text):
                    self._heading(heading)
                    self._body(text)
            case "exchanged":
                self._heading(f"sent to {entry.to}" if entry.to else "read by the program")
                self._body(entry.text)
            case "parked":
                self._print(f"◐ waits for {entry.condition.describe()}, holding no process", "dim")
            case "answered":
                self._print_answer(entry)
            case "ruled":
                word = {"allow": "allowed", "deny": "denied", "ask": "left to a person"}[entry.answer]
                self._print(
                    f"⚖ {self._calls.get(entry.tool_use_id, 'a call')} is {word} by a small model: {one_line(entry.reason)}",
                    "dim",
                )
            case "grading":
                self._print(f"⤷ started the grader {entry.grader} for attempt {entry.attempt}", "cyan")
            case "verdict":
                self._print_verdict(entry)
            case "hooks_begun":
                pass  # what they said follows
            case "hooked":
                self._print_hooked(entry)
            case "compacted":
                self._print_cut(entry)
            case "compaction_failed":
                self._print(f"! no summary came about ({entry.error_kind}): {entry.error}", "yellow")
            case "resumed":
                self._print("▶ goes on: somebody wrote to it", "cyan")
            case "redefined":
                self._print("▶ goes on by another definition", "cyan")
                self._print_start(entry)
            case "replayed":
                self._print("▶ goes on from here: what comes before is another job's past", "cyan")
            case "finished":
                self._print_end(entry)

    def _print_start(self, entry: Started) -> None:
        spec = entry.spec
        self._print(f"{one_line(spec.label)}  ({spec.agent_id} of {spec.job_id})", "bold")
        self._print(
            f"model {spec.model}, depth {spec.depth} of {spec.limits.max_depth}, workspace {spec.workspace}", "dim"
        )
        self._rehearsed = spec.base_url is not None
        if self._rehearsed:
            self._print("rehearsed: the model's words come from a script and cost nothing", "dim")
        self._print(f"tools {', '.join(str(tool['name']) for tool in entry.tools) or 'none'}", "dim")
        if entry.guidance:
            self._print(f"instruction files: {len(entry.guidance.encode()):,} bytes", "dim")
        if self._full:
            self._heading("system")
            self._body(entry.system)
            if entry.guidance:
                self._heading("instruction files")
                self._body(entry.guidance)

    def _print_reply(self, entry: Assistant) -> None:
        cost = show_cost(0.0 if self._rehearsed else entry.cost_usd)
        spent = f"{show_count(entry.usage.total_tokens)} tokens, {cost}, {show_duration(entry.duration_seconds)}"
        self._heading(
            f"assistant ({spent}{'' if entry.stop_reason in ('end_turn', 'tool_use') else f', {entry.stop_reason}'})"
        )
        for block in entry.content:
            match block.get("type"):
                case "text":
                    self._body(str(block.get("text", "")))
                case "thinking":
                    self._body(str(block.get("thinking", "")), "dim italic")
                case "tool_use" if row_of(str(block.get("name"))).kind is Kind.SEND:
                    self._print_sending(block)
                case "tool_use":
                    call = f"{block.get('name')}({_show_input(block.get('input') or {}, full=self._full)})"
                    self._calls[str(block.get("id"))] = one_line(call, 80)
                    self._print(f"→ {call}", "cyan")
                case kind:
                    self._print(f"[{kind}]", "dim")

    def _print_sending(self, block: dict[str, Any]) -> None:
        given = block.get("input") or {}
        kind = str(given.get("kind", "message")).replace("_", " ")
        about = f" about {given['request_id']}" if given.get("request_id") else ""
        verdict = f": {'yes' if given['approve'] else 'no'}" if "approve" in given else ""
        call = one_line(f"{kind} to {given.get('to', '?')}{about}{verdict}", _SHOWN_INPUT_CHARACTERS)
        self._calls[str(block.get("id"))] = call
        self._print(f"✉ {call}", "cyan")
        self._body(str(given.get("message", "")), indent="  ")

    def _print_result(self, entry: ToolFinished) -> None:
        sort = "error" if entry.is_error else "result"
        took = f" ({show_duration(entry.duration_seconds)})" if entry.duration_seconds >= 0.05 else ""
        self._print(
            f"← {sort} of {self._calls.get(entry.tool_use_id, entry.tool_use_id)}{took}",
            "red" if entry.is_error else "green",
        )
        self._body(entry.text, indent="  ")

    def _print_cut(self, entry: Compacted) -> None:
        cost = show_cost(0.0 if self._rehearsed else entry.cost_usd)
        how = f"{entry.trigger}, {show_count(entry.tokens_before)} tokens before, by {entry.model or 'nobody'}, {cost}"
        self._heading(f"✂ the model no longer sees what stands above, but a summary of it ({how})")
        kept = (
            f"all but the last {'reply' if entry.kept == 1 else f'{entry.kept} replies'}" if entry.kept else "all of it"
        )
        self._print(f"{kept} is summarized", "dim")
        self._body(entry.summary or "(No summary could be made: it goes on from records alone.)", "italic")
        if self._full:
            self._body(entry.state, "dim")

    def _print_answer(self, entry: Answered) -> None:
        by = f" by {one_line(entry.by, 80)}" if entry.by else ""
        mode = f", and goes on in the mode {entry.mode}" if entry.mode else ""
        what = (
            f"{'answered' if entry.allowed else 'denied'}{by}: {self._calls.get(entry.tool_use_id, entry.tool_use_id)}"
        )
        self._print(f"{'✔' if entry.allowed else '✘'} {what}{mode}", "green" if entry.allowed else "red")
        if entry.reason:
            self._body(entry.reason, indent="  ")

    def _print_verdict(self, entry: Verdict) -> None:
        told = VerdictView(**{name: getattr(entry, name) for name in VerdictView.model_fields})
        took = f" ({show_duration(entry.duration_seconds)})" if entry.duration_seconds >= 0.05 else ""
        mark, colour = ("✔", "green") if entry.passed else ("✘", "red")
        self._print(f"{mark} {describe_verdict(told)}{took}", f"bold {colour}")
        if entry.report:
            self._body(entry.report, indent="  ")

    def _print_hooked(self, entry: Hooked) -> None:
        about = f" of {self._calls[entry.tool_use_id]}" if entry.tool_use_id in self._calls else ""
        bad = entry.decision in ("deny", "block") or entry.stop or any(run.why for run in entry.runs)
        style = "yellow" if bad else "" if entry.changed or entry.said else "dim"
        self._print(f"⚓ hook on {entry.name}{about}: {one_line(describe_hooked(entry), 300)}", style)
        if entry.input is not None:
            self._body(f"instead: {_show_input(entry.input, full=self._full)}", indent="  ")
        if entry.text:
            self._body(entry.text, indent="  ")

    def _print_end(self, entry: Finished) -> None:
        colour = "green" if entry.state == "completed" else "red"
        self._print(f"■ {entry.state.replace('_', ' ')}{f': {entry.reason}' if entry.reason else ''}", f"bold {colour}")

    def _heading(self, text: str) -> None:
        moment = time.strftime("  %H:%M:%S", time.localtime(self._at)) if self._at else ""
        self._print(f"\n── {text}{moment}", "bold")

    def _body(self, text: str, style: str = "", indent: str = "") -> None:
        lines = plain(text).strip("\n").split("\n")
        shown = lines if self._full else lines[:_SHOWN_LINES]
        for line in shown:
            cut = not self._full and len(line) > _SHOWN_LINE_CHARACTERS
            self._print(indent + (line[:_SHOWN_LINE_CHARACTERS] + "…" if cut else line), style)
        if len(lines) > len(shown):
            self._print(f"{indent}… {len(lines) - len(shown)} more lines (--full shows them)", "dim")

    def _print(self, text: str, style: str) -> None:
        # On a terminal lines end between words; elsewhere they are whole.
        self._console.print(Text(plain(text), style=style), soft_wrap=not self._console.is_terminal)


def read_messages(rendered: str) -> list[tuple[str, str]]:
    """Heading and text of each message of a `mail` entry; what cannot be taken apart stays as it is."""
    try:
        elements = list(ElementTree.fromstring(f"<mail>{rendered}</mail>"))
    except ElementTree.ParseError:
        return [("messages", rendered)]
    return [_read_message(element) for element in elements]


def _read_message(element: Element) -> tuple[str, str]:
    if element.tag == "message":
        about = element.get("request_id") or element.get("reply_to")
        kind = str(element.get("kind")).replace("_", " ")
        sender = element.get("from")
        if element.get("agent_id") != sender:
            sender = f"{sender} ({element.get('agent_id')})"
        return f"✉ {kind} from {sender}{f', about {about}' if about else ''}", element.text or ""
    if element.tag == "task-notification":
        parts = {part.tag: part.text or "" for part in element}
        head = f"✉ notification: {parts.get('summary', '')} ({parts.get('task-id')}: {parts.get('status')})"
        rest = [parts[name] for name in ("reason", "result", "usage") if parts.get(name)]
        return one_line(head, 300), "\n".join(rest)
    return "✉ note from the runtime", element.text or ""


def _show_input(given: dict[str, Any], *, full: bool) -> str:
    text = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items())
    return text if full else one_line(text, _SHOWN_INPUT_CHARACTERS)
