"""Dialogs of `swarm top`: a line of text, a confirmation, the answer to a question."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from swarm.cli.question_view import read_always, show_detail, show_heading
from swarm.store.questions import Question

Answer = tuple[str, dict[str, Any]]
"""An answer, and further arguments of `Swarm.answer`."""


class LineDialog(ModalScreen[str | None]):
    """Asks for a line of text; None if the person cancels."""

    BINDINGS: ClassVar = [("escape", "dismiss(None)", "back")]
    CSS = "LineDialog { align: center bottom; } LineDialog Static { width: 100%; } LineDialog Input { width: 100%; }"

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        """Show the heading and the line."""
        yield Static(Text(self._title), id="asked")
        yield Input(id="line")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the line at Enter."""
        self.dismiss(event.value.strip() or None)


class ConfirmDialog(ModalScreen[bool]):
    """Asks for a confirmation; any key but y means no."""

    CSS = "ConfirmDialog { align: center middle; } ConfirmDialog Static { width: auto; padding: 1 2; background: $panel; }"

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Show the question."""
        yield Static(Text(f"{self._question}  [y]es, any other key: no"), id="asked")

    def on_key(self, event: Any) -> None:
        """Return the answer."""
        event.stop()
        self.dismiss(event.key == "y")


class QuestionDialog(ModalScreen[Answer | None]):
    """Shows a question in full and takes its answer; Escape leaves it open."""

    BINDINGS: ClassVar = [
        ("escape", "dismiss(None)", "leave it open"),
        ("a", "allow", "approve"),
        ("d", "deny", "deny"),
        ("w", "always", "always"),
    ]
    CSS = """
    QuestionDialog { align: center middle; }
    QuestionDialog VerticalScroll { width: 90%; height: 80%; background: $panel; padding: 1 2; }
    """

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Show the question, its keys, and an input line if it is answered in words."""
        question = self._question
        with VerticalScroll():
            yield Static(Text(show_heading(question), style="bold"), id="asked")
            yield Static(Text("\n".join(show_detail(question, full=True))), id="detail")
            yield Static(Text(f"\n{self._keys()}", style="dim"))
            if question.kind == "question":
                yield Input(placeholder="your answer, or an option's number", id="line")

    def on_mount(self) -> None:
        """Focus the input line, if there is one, so that keys reach the right widget."""
        if self._question.kind == "question":
            self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return an answer in words, or the option with the typed number."""
        text, options = event.value.strip(), self._question.options
        if text.isdecimal() and 1 <= int(text) <= len(options):
            text = options[int(text) - 1]
        if text:
            self.dismiss((text, {}))

    def action_allow(self) -> None:
        """Allow the call, or approve the plan."""
        if self._question.kind != "question":
            self.dismiss(("allow", {}))

    def action_always(self) -> None:
        """Allow the call, and calls of the same kind from now on."""
        if self._question.kind == "permission" and self._question.always:
            self.dismiss(("allow", {"always": True}))

    def action_deny(self) -> None:
        """Ask for a reason, and refuse the call."""
        if self._question.kind != "question":
            self.app.push_screen(LineDialog("Why not? (Enter: no reason)"), self._deny)

    def _deny(self, reason: str | None) -> None:
        self.dismiss(("deny", {"reason": reason or ""}))

    def _keys(self) -> str:
        if self._question.kind == "question":
            return "Enter answers, Escape leaves it open"
        rule = read_always(self._question)
        return (
            f"a approves{f', w also from now on in this job ({rule})' if rule else ''}, d denies, Escape leaves it open"
        )
