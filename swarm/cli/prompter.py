"""Ask the person at the terminal the questions of a watched job, while the job continues.

Guarantee: nothing here blocks. The terminal is read by lines, when one is complete. Input typed before a question is shown is discarded,
so a key meant for something else never answers.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from swarm.cli.interrupts import Interrupts
from swarm.cli.options import ANSWER_MODES
from swarm.cli.output import one_line, print_note, show_duration, show_number
from swarm.cli.question_view import is_cut, read_always, show_detail, show_heading
from swarm.client.swarm import Swarm
from swarm.core.errors import QuestionClosed, UnknownQuestion
from swarm.core.records import Event
from swarm.store.questions import Question

_MAX_LINE_BYTES = 4_096
_SYNONYMS = {"yes": "approve", "no": "reject"}


def open_terminal(opened: contextlib.ExitStack) -> TextIO | None:
    """Open the terminal for questions, because stdin may be a pipe with the prompt."""
    if not sys.stderr.isatty():
        return None
    if sys.stdin is not None and sys.stdin.isatty():
        return sys.stdin
    try:
        return opened.enter_context(open(os.ctermid()))
    except OSError:
        return None


class Prompter:
    """Asks one job's questions one after the other, and sends the answers."""

    def __init__(self, swarm: Swarm, terminal: TextIO, interrupts: Interrupts) -> None:
        self._swarm, self._interrupts = swarm, interrupts
        self._terminal = terminal.fileno()
        self._known: set[str] = set()
        self._waiting: dict[str, Question] = {}
        self._current: Question | None = None
        self._shown = False
        self._take: Callable[[str], None] = self._take_choice
        self._broken = False

    def take_in(self, events: Sequence[Event]) -> bool:
        """Record new and closed questions; returns whether one needs the terminal now."""
        asked: list[str] = []
        for event in events:
            question_id = event.fields.get("question", "")
            if event.kind == "question" and question_id not in self._known:
                asked.append(question_id)
            elif event.kind == "answered":
                self._drop(question_id, event)
        for question_id in asked:
            question = self._swarm.questions.find(question_id)
            if question is not None and question.state == "open" and not question.to:
                self._waiting[question_id] = question
            # Last, because after an interrupting Ctrl-C the events come again.
            self._known.add(question_id)
        return (self._current is not None or bool(self._waiting)) and not self._broken and self._in_foreground()

    def go_on(self) -> None:
        """Show the question once, and process a typed line."""
        if self._current is None:
            question_id = next(iter(self._waiting))
            self._current = self._waiting.pop(question_id)
            self._shown, self._take = False, self._take_choice
        if not self._shown:
            self._show(self._current)
        line = self._read_line()
        if line is None:
            return
        if line == "":  # the end of the input, Ctrl-D
            self._skip()
        else:
            self._take(line.strip())

    def put_back(self) -> None:
        """Show the question again once the terminal is free, after another use of it."""
        self._shown, self._take = False, self._take_choice

    # -- showing -------------------------------------------------------------------------------------------

    def _show(self, question: Question) -> None:
        with contextlib.suppress(termios.error):
            termios.tcflush(self._terminal, termios.TCIFLUSH)
        print_note(f"\n? {show_heading(question)}")
        self._show_lines(show_detail(question))
        left = show_duration(question.expires_at - time.time())
        more = f", {show_number(len(self._waiting), 'more question')} after it" if self._waiting else ""
        print_note(f"  ({question.id}, answer within {left}{more}; a skipped question stays open)")
        self._prompt(question)
        self._shown = True

    def _show_lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            print_note(f"  {line}")

    def _prompt(self, question: Question) -> None:
        more = "[d]etails, " if is_cut(question) else ""
        match question.kind:
            case "permission":
                rule = read_always(question)
                always = f"[a]lways (from now on in this job: {rule}), " if rule else ""
                print_note(f"  [y]es, [n]o, {always}{more}[s]kip?")
            case "plan":
                print_note(f"  [a]pprove (or: a MODE), [r]eject, {more}[s]kip?")
            case _:
                number = "a number, or " if question.options else ""
                whole = "/details, " if more else ""
                print_note(f"  {number}your answer in words ({whole}/skip leaves it open)?")

    # -- typing --------------------------------------------------------------------------------------------

    def _take_choice(self, line: str) -> None:
        question = self._current
        assert question is not None
        if question.kind == "question":
            self._take_words(question, line)
        elif question.kind == "plan":
            self._take_plan(question, line)
        else:
            self._take_permission(question, line)

    def _take_permission(self, question: Question, line: str) -> None:
        choices = ["yes", "no", *(["always"] if question.always else []), "details", "skip"]
        match _choose(line, choices):
            case "yes", "":
                self._answer("allow", told="allowed this once")
            case "always", "":
                self._answer("allow", always=True, told=f"allowed, and from now on in this job {read_always(question)}")
            case "no", "":
                self._ask_words("Why not? (Enter: no reason)")
            case "no", reason:
                self._refuse(reason)
            case choice, "":
                self._look_or_skip(question, choice)
            case _:
                self._prompt(question)

    def _take_plan(self, question: Question, line: str) -> None:
        match _choose(line, ["approve", "reject", "yes", "no", "details", "skip"]):
            case "approve", mode if mode == "" or mode in ANSWER_MODES:
                self._answer("allow", mode=mode, told=f"approved{f', in the mode {mode}' if mode else ''}")
            case "approve", mode:
                print_note(f"  no mode {one_line(mode, 40)}; one of {', '.join(ANSWER_MODES)}")
            case "reject", "":
                self._ask_words("What should be different? (Enter: nothing to say)")
            case "reject", reason:
                self._refuse(reason)
            case choice, "":
                self._look_or_skip(question, choice)
            case _:
                self._prompt(question)

    def _take_words(self, question: Question, line: str) -> None:
        options = question.options
        if line in ("/details", "/d", "/skip", "/s"):
            self._look_or_skip(question, "details" if line.startswith("/d") else "skip")
        elif line.isdecimal() and options:
            if 1 <= int(line) <= len(options):
                self._answer(options[int(line) - 1], told=f"answered {one_line(options[int(line) - 1], 200)}")
            else:
                print_note(f"  a number from 1 to {len(options)}, or words?")
        elif line:
            self._answer(line, told="answered")
        else:
            self._prompt(question)

    def _look_or_skip(self, question: Question, choice: str) -> None:
        if choice == "details":
            self._show_lines(show_detail(question, full=True))
            self._prompt(question)
        elif choice == "skip":
            self._skip()
        else:
            self._prompt(question)

    def _ask_words(self, prompt: str) -> None:
        print_note(f"  {prompt}")
        self._take = self._refuse

    def _refuse(self, reason: str) -> None:
        permission = self._current is not None and self._current.kind == "permission"
        self._answer("deny", reason=reason, told="denied" if permission else "sent back")

    def _skip(self) -> None:
        if self._current is not None:
            print_note(f"  left open; `swarm questions {self._current.id}` shows it")
        self._current = None

    def _answer(self, answer: str, *, reason: str = "", mode: str = "", always: bool = False, told: str) -> None:
        question = self._current
        assert question is not None
        with self._interrupts.held():
            self._current = None
            try:
                self._swarm.answer(question.id, answer, reason=reason, mode=mode, always=always)
            except (QuestionClosed, UnknownQuestion) as error:
                told = str(error)
            print_note(f"  {told}")

    def _drop(self, question_id: str, event: Event) -> None:
        self._waiting.pop(question_id, None)
        if self._current is not None and self._current.id == question_id:
            self._current = None
            if self._shown:
                by = one_line(event.fields.get("by", ""), 40) or "somebody else"
                why = {"expired": "no answer in time", "void": "its agent has ended"}
                print_note(f"  closed: {why.get(event.fields.get('state', ''), f'answered by {by}')}")

    # -- the terminal --------------------------------------------------------------------------------------

    def _in_foreground(self) -> bool:
        """Whether the command may use its terminal; one in the background would be stopped."""
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return False

    def _read_line(self) -> str | None:
        """Read a typed line with its end; empty at the end of the input, None if nothing was typed."""
        try:
            # A terminal is readable only once a whole line has been typed.
            if not select.select([self._terminal], [], [], 0)[0]:
                return None
            return os.read(self._terminal, _MAX_LINE_BYTES).decode(errors="replace")
        except OSError:  # the terminal is gone, and a signal will follow
            self._broken = True
            return None


def _choose(line: str, choices: Sequence[str]) -> tuple[str, str]:
    """Split a line into the one choice that its first word abbreviates (else empty), and the rest."""
    word, _, rest = line.partition(" ")
    found = [choice for choice in choices if word and choice.startswith(word.lower())]
    if len(found) != 1:
        return "", line
    return (_SYNONYMS.get(found[0], found[0]) if "approve" in choices else found[0]), rest.strip()
