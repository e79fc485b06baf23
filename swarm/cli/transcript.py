"""`swarm transcript`: an agent's journal as a conversation, or as JSON lines for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from swarm.agent.entries import Entry, encode_entry
from swarm.agent.items import Item, MadeCall, Passage
from swarm.agent.transcript import Narrator, since_cut
from swarm.cli.completion import complete_agent
from swarm.cli.lookup import find_agent, open_swarm
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
from swarm.cli.patience import SilenceWatch, describe_waiting
from swarm.client.swarm import Swarm
from swarm.streaming.live.reader import LiveReader

_SHOWN_LINES = 12
_SHOWN_LINE_CHARACTERS = 400
_SHOWN_INPUT_CHARACTERS = 160
_HEADED = ("prompt", "reply", "mail", "exchange", "cut")
"""Kinds with long texts, which get a heading and the time."""
_BOLD = ("start", "verdict", "end")
_MARKS = {
    **dict.fromkeys(("prompt", "reply", "exchange"), ""),
    **{
        "mail": "✉ ",
        "cut": "✂ ",
        "start": "▶",
        "result": "←",
        "spawn": "⤷",
        "wait": "◐",
        "ruling": "⚖",
        "hooks": "⚓",
        "end": "■",
    },
}
_LEVEL_MARKS = {"good": "✔", "bad": "✘", "doubt": "!"}
_STYLES = {"": "", "good": "green", "bad": "red", "doubt": "yellow", "quiet": "dim"}


def show_transcript(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[AGENT|JOB]",
            autocompletion=complete_agent,
            help="An id or a prefix; for a job, its first agent. Default: the newest job.",
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Cut nothing, and show the system prompt.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until the agent ends.")] = False,
    after_cut: Annotated[
        bool, typer.Option("--since-cut", help="Leave out the part that a summary has replaced.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print stored journal entries, one per line.")] = False,
) -> None:
    """Print an agent's history: prompts, replies, tool calls and results, waits, summaries."""
    printer = TranscriptPrinter(output_console(), full=full)
    with open_swarm() as swarm:
        agent_id = find_agent(swarm, target)
        for entries in follow_journal(swarm, agent_id) if follow else [swarm.journal(agent_id)]:
            entries = since_cut(list(entries)) if after_cut else entries
            if as_json:
                for entry in entries:
                    print_json_text(encode_entry(entry))
            elif entries or not follow:
                printer.print(entries)


def follow_journal(swarm: Swarm, agent_id: str) -> Iterator[Sequence[Entry]]:
    """Yield the agent's journal as it grows, until its end; long waits are explained on stderr."""
    swarm = swarm.outlasting(swarm.agent(agent_id).job_id)
    told, silence = 0, SilenceWatch()
    while True:
        # Read the state first, so that entries written before the end are found below.
        agent = swarm.agent(agent_id)
        entries = list(swarm.store.journals.read(agent_id, told))
        if entries:
            told += len(entries)
            silence.break_off()
            yield entries
        elif agent.ended:
            return
        elif silence.is_long():
            print_note(describe_waiting(list(LiveReader(swarm.store).agents([agent_id]).values())))
        else:
            swarm.store.streams.wait(("journal", agent_id), f"{told}-0", 1.0)


class TranscriptPrinter:
    """Prints a journal for people."""

    def __init__(self, console: Console, *, full: bool) -> None:
        self._console, self._full = console, full
        self._narrator = Narrator()

    def print(self, entries: Sequence[Entry]) -> None:
        """Print these entries."""
        for entry in entries:
            self._print_item(self._narrator.item(entry))
        if not entries:
            self._print("the agent has not begun yet", "dim")

    def _print_item(self, item: Item) -> None:
        if item.kind == "begun":  # the reply has shown its call, and its end follows
            return
        if not (item.kind == "mail" and item.parts):
            self._print_title(item)
        for part in item.parts:
            if isinstance(part, MadeCall):
                self._print_call(part)
            elif not part.repeated:
                self._print_passage(part, item)

    def _print_title(self, item: Item) -> None:
        figures = [f"{show_count(item.tokens['read'] + item.tokens['written'])} tokens"] if item.tokens else []
        figures += (
            []
            if item.cost_usd is None and not item.tokens
            else [show_cost(item.cost_usd, estimated=item.estimated_usd)]
        )
        figures += [show_duration(item.seconds)] if item.seconds >= 0.05 else []
        beside = ", ".join([*([one_line(item.aside, _SHOWN_LINE_CHARACTERS)] if item.aside else []), *figures])
        title = item.heading if self._full else one_line(item.heading, _SHOWN_LINE_CHARACTERS)
        if item.agent:
            title += f" {item.agent}"
        self._print_heading(item, f"{title} ({beside})" if beside else title)

    def _print_heading(self, item: Item, text: str) -> None:
        mark = _MARKS.get(item.kind) or _LEVEL_MARKS.get(item.level, "▶")
        if item.kind not in _HEADED:
            self._print(f"{mark} {text}", f"{'bold ' if item.kind in _BOLD else ''}{_STYLES[item.level]}")
            return
        moment = time.strftime("  %H:%M:%S", time.localtime(item.at)) if item.at else ""
        self._print(f"\n── {mark}{text}{moment}", "bold")

    def _print_call(self, call: MadeCall) -> None:
        self._print(f"{'✉' if call.message else '→'} {one_line(call.words, _SHOWN_INPUT_CHARACTERS)}", "cyan")
        if call.message:
            self._body(call.message, indent="  ")
        elif self._full and call.input:
            self._body(json.dumps(call.input, ensure_ascii=False), indent="  ")

    def _print_passage(self, part: Passage, item: Item) -> None:
        if item.kind == "mail":
            self._print_heading(item, one_line(part.title, 300))
        elif part.detail and not self._full and len(part.text) > _SHOWN_LINE_CHARACTERS:
            self._print(f"{part.title}: {len(part.text):,} characters (--full shows them)", "dim")
            return
        elif part.title and part.form != "thought":
            self._print(f"{part.title}:", "dim")
        self._body(part.text, "dim italic" if part.form == "thought" else "", "" if item.kind in _HEADED else "  ")

    def _body(self, text: str, style: str = "", indent: str = "") -> None:
        lines = plain(text).strip("\n").split("\n")
        shown = lines if self._full else lines[:_SHOWN_LINES]
        for line in shown:
            cut = not self._full and len(line) > _SHOWN_LINE_CHARACTERS
            self._print(indent + (line[:_SHOWN_LINE_CHARACTERS] + "…" if cut else line), style)
        if len(lines) > len(shown):
            self._print(f"{indent}… {len(lines) - len(shown)} more lines (--full shows them)", "dim")

    def _print(self, text: str, style: str) -> None:
        # On a terminal, lines wrap between words; elsewhere they stay whole.
        self._console.print(Text(plain(text), style=style), soft_wrap=not self._console.is_terminal)
