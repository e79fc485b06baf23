"""What a reader sees of a journal is decided in one place, and everybody who shows it takes it from there.

Tests of swarm/agent/transcript.py, swarm/agent/items.py, swarm/agent/passages.py.
"""

from __future__ import annotations

import ast
import io
from pathlib import Path
from typing import get_args

import pytest
from rich.console import Console

import swarm
from swarm.agent import entries as e
from swarm.agent.items import _LEFT_OUT, as_text
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.agent.transcript import Narrator, tell
from swarm.cli.transcript import TranscriptPrinter
from swarm.definitions.model import AgentDefinition
from swarm.models import Usage
from swarm.web.entries import show_item
from tests.code import nodes

_SPEC = AgentSpec(
    agent_id="agent-1",
    job_id="job-1",
    parent_id=None,
    depth=0,
    definition=AgentDefinition(name="general-purpose", description="d", prompt="p"),
    description="look",
    prompt="look",
    workspace="/w",
    model="m",
)
_CALL = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "git push"}}
_USAGE = Usage(input_tokens=1, output_tokens=1)
SAMPLES: list[e.Entry] = [
    e.Started(spec=_SPEC),
    e.Redefined(spec=_SPEC),
    e.Prompt(text="look"),
    e.Assistant(content=[{"type": "text", "text": "hm"}, _CALL], stop_reason="tool_use", usage=_USAGE, model="m"),
    e.ModelFailed(error="overloaded", error_kind="overloaded", permanent=False),
    e.Switched(model="openai:gpt-6", was="m", reason="overloaded", why="no answer", passed_over={"n": "no price"}),
    e.ToolStarted(tool_use_id="c"),
    e.ToolFinished(tool_use_id="c", text="pushed"),
    e.Spawned(children={"c": "agent-2"}),
    e.Mail(text='<message from="ada" agent_id="agent-3" kind="message">hi</message>', cursor="1-0"),
    e.Exchanged(text="a line", to="agent-2"),
    e.Advanced(
        calls=[{"type": "tool_use", "id": "c.0", "name": "Agent", "input": {"prompt": "p"}}],
        notes=[e.Note(kind="phase", text="map")],
    ),
    e.Parked(condition=Condition(question="q")),
    e.Answered(tool_use_id="c", allowed=True, by="user"),
    e.Ruled(tool_use_id="c", answer="deny", reason="it pushes"),
    e.Grading(grader="agent-4", attempt=1),
    e.Verdict(at=1.0, by="check", attempt=1, passed=False, summary="exit 1", report="no"),
    e.Compacted(form="text", summary="so far", state="records"),
    e.CompactionFailed(error="overloaded", error_kind="overloaded"),
    e.HooksBegun(event="Stop/1"),
    e.Hooked(event="Stop/1", name="Stop", runs=[], decision="block", reason="not yet"),
    e.Resumed(),
    e.Replayed(),
    e.Finished(state="completed", text="done"),
]
KINDS = {get_args(kind.model_fields["kind"].annotation)[0] for kind in get_args(get_args(e.Entry)[0])}


def test_every_kind_of_entry_has_an_item() -> None:
    assert {entry.kind for entry in SAMPLES} == KINDS
    assert {f"_{kind}" for kind in KINDS} <= set(vars(Narrator)), "each has its method"


@pytest.mark.parametrize("entry", SAMPLES, ids=lambda entry: entry.kind)
def test_every_surface_shows_an_entry_as_its_item_says(entry: e.Entry) -> None:
    item = Narrator().item(entry)
    written = io.StringIO()
    TranscriptPrinter(Console(file=written, width=10_000, color_system=None), full=True).print([entry])
    of_page = show_item(1, item)
    words = [getattr(part, "text", "") or getattr(part, "name", "") for part in item.parts]
    if item.kind not in ("begun", "mail"):
        assert item.title in written.getvalue()
    assert item.kind == "begun" or all(word in written.getvalue() for word in words)
    assert (of_page["kind"], of_page["title"]) == (item.kind, item.title)
    assert [part.get("text") or part.get("name") for part in of_page.get("parts", ())] == [
        word or None for word in words
    ]
    text = as_text(item, str)
    assert (text == "") == (item.kind in _LEFT_OUT) and (
        item.kind in ("mail", "reply") or not text or item.title in text
    )


SHOWING = ("api", "cli", "client", "streaming", "telemetry", "tools", "web")
PLAIN = {"Entry", "decode_entry", "encode_entry"}
ACTING = {
    "client/workflow_calls.py": {"Advanced", "ToolFinished"},
    "cli/demo.py": {"Prompt", "ToolFinished"},
    "client/swarm.py": {"Exchanged", "Mail"},
    "client/work.py": {"Finished"},
}
"""What reads a journal to act by it, or to count, and shows nothing of it."""


def test_no_surface_knows_the_kinds_of_entries() -> None:
    home = Path(swarm.__file__).parent
    found = {}
    for folder in SHOWING:
        for path in (home / folder).rglob("*.py"):
            names = {
                alias.name
                for node in nodes(path)
                if isinstance(node, ast.ImportFrom) and node.module == "swarm.agent.entries"
                for alias in node.names
            }
            if names - PLAIN:
                found[str(path.relative_to(home))] = names - PLAIN
    assert found == ACTING


def test_what_a_parked_agent_waits_for_is_the_same_on_the_page_and_elsewhere() -> None:
    waits = {
        "the event build/7": Condition(question="q", event="build/7"),
        "its share of the model": Condition(slot=True),
        "its batch": Condition(batch="b"),
        "2 agents or a message": Condition(children=["a", "b"], mail="any"),
    }
    for words, condition in waits.items():
        [item] = tell([e.Parked(condition=condition)])
        assert item.title == show_item(1, item)["title"] == as_text(item, str) == f"waits for {words}"


def test_a_persons_choice_of_the_model_in_use_is_told_apart_from_one_that_was_not_possible() -> None:
    kept = e.Switched(model="b-1", was="b-1", reason="chosen")
    refused = kept.model_copy(update={"passed_over": {"z-1": "its window is too small"}})
    assert [item.title for item in tell([kept, refused])] == [
        "asks b-1 in later runs, too: a person chose so",
        "still asks b-1, although a person chose another model",
    ]


def test_a_reply_that_is_the_answer_is_not_told_twice() -> None:
    reply = e.Assistant(content=[{"type": "text", "text": "done"}], stop_reason="end_turn", usage=_USAGE, model="m")
    *_, end = tell([reply, e.Finished(state="completed", text="done")])
    assert end.parts[0].repeated  # type: ignore[union-attr]
