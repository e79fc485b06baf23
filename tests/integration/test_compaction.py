"""Conversations that become too long for their model, played over real HTTP against a server that refuses what the API would.

Tests of swarm/runtime/facts.py, swarm/agent/cut.py, swarm/capabilities/context/compaction.py, swarm/web/transcripts.py.
"""

from __future__ import annotations

import json
import struct
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import anthropic
import httpx2
import pytest

from swarm import Job, Limits, stream
from swarm.agent.blocks import hold_image
from swarm.agent.cut import SUMMARIZE
from swarm.agent.entries import Assistant, Compacted, CompactionFailed, Entry
from swarm.agent.history import History, fold
from swarm.cli.doctor import run_checks
from swarm.core.errors import AgentCancelled, ConfigurationError, UnknownAgent
from swarm.core.ids import root_agent_id
from swarm.models.anthropic import AnthropicModel
from swarm.models.facts import ModelFacts
from swarm.replay.past import read_past
from swarm.replay.resumption import Resumption, go_on
from swarm.runtime.loop import Loop
from swarm.runtime.segment import Ended, Outcome, Waits
from swarm.store.spending import ModelStore
from swarm.store.values import Claim
from swarm.web.transcripts import read_journal
from tests.e2e.prepared import prepared_swarm
from tests.fleet import Fleet
from tests.rehearsal import RehearsalServer
from tests.segments import make_segment

PAGE = "".join(f"line {number} of a page that is read again and again\n" for number in range(150))


@pytest.fixture(scope="module")
def short() -> Iterator[Fleet]:
    """A fleet whose conversations are cut early."""
    with closing(Fleet(compact_tokens=12_000)) as fleet:
        (fleet.workspace / "page.txt").write_text(PAGE)
        yield fleet


@pytest.fixture(scope="module")
def roomy() -> Iterator[Fleet]:
    """A fleet whose conversations are cut only when they do not fit: its table of prices knows no windows so small."""
    with closing(Fleet(compact_tokens=0)) as fleet:
        (fleet.workspace / "page.txt").write_text(PAGE)
        yield fleet


class Play:
    """One job's root, run in this process, and every request that it made."""

    def __init__(
        self,
        fleet: Fleet,
        scenario: str,
        prompt: str = "Read the page, again and again.",
        *,
        ask_seconds: float = 0.0,
        server: RehearsalServer | None = None,
        **limits: Any,
    ) -> None:
        self.fleet, self.bodies = fleet, list[dict[str, Any]]()
        self.raw = list[bytes]()
        self.betas = list[str]()
        self.server: RehearsalServer = server or fleet.rehearse(scenario)
        self.job: Job = fleet.swarm.submit(
            prompt,
            agent="general-purpose",
            workspace=fleet.workspace,
            base_url=self.server.url,
            ask_seconds=ask_seconds,
            limits=Limits(**{"max_turns": 1_000, "max_depth": 1, **limits}),
        )
        self.agent_id = root_agent_id(self.job.id)
        hooks: dict[str, Any] = {"request": [self._note]}
        http = anthropic.DefaultHttpxClient(transport=httpx2.HTTPTransport(), trust_env=False, event_hooks=hooks)
        client = anthropic.Anthropic(base_url=self.server.url, api_key="k", max_retries=0, http_client=http)
        self.model = AnthropicModel(fleet.settings, client=client)

    def _note(self, request: httpx2.Request) -> None:
        if request.url.path.endswith("/messages"):
            self.raw.append(request.read())
            self.bodies.append(json.loads(request.content))
            self.betas.append(request.headers.get("anthropic-beta", ""))

    def run(self, *, later: float = 0.0) -> Outcome:
        """A segment; `later`: the time is so many seconds later."""
        store = self.fleet.swarm.store
        claim = store.agents.claim(self.agent_id, "test", 600.0)
        assert isinstance(claim, Claim), claim
        clock = claim.clock
        claim = replace(claim, clock=lambda: clock() + later)
        return Loop(make_segment(claim, store, self.fleet.settings, self.model), draining=str).run()

    def completed(self, text: str = "all read") -> History:
        """Run to the end."""
        outcome = self.run()
        assert isinstance(outcome, Ended) and outcome.state == "completed", outcome
        assert self.job.view().text == text
        return self.history()

    def journal(self) -> list[Entry]:
        return list(self.fleet.swarm.journal(self.agent_id))

    def cuts(self) -> list[Compacted]:
        return [entry for entry in self.journal() if isinstance(entry, Compacted)]

    def failed(self) -> list[CompactionFailed]:
        return [entry for entry in self.journal() if isinstance(entry, CompactionFailed)]

    def history(self) -> History:
        """What is loaded from the last cut on, which is what all of the journal tells."""
        history = self.fleet.swarm.store.journals.history(self.agent_id)
        assert history == fold(self.agent_id, self.journal())
        return history


def reading(turns: int, more: str = "", **about: Any) -> str:
    """A scenario of an agent that thinks and reads for so many turns."""
    head = "".join(f"{name}: {json.dumps(value)}\n" for name, value in about.items())
    return f"""
name: reading
{head}rules:
{more}
  - when: {{turn: '0-{turns - 1}'}}
    reply: {{thinking: 'thinking of {{turn}}', tools: [{{name: Read, input: {{file_path: page.txt}}}}]}}
  - reply: {{text: all read}}
"""


def said(body: dict[str, Any]) -> str:
    """All text of a request's last message."""
    return "\n".join(block.get("text", "") for block in body["messages"][-1]["content"])


def test_a_long_life_is_cut_where_the_last_request_is_read_from_the_cache(short: Fleet) -> None:
    play = Play(short, reading(24))
    history = play.completed()
    cuts = play.cuts()
    assert len(cuts) >= 3 and {cut.form for cut in cuts} == {"block"}
    assert history.turns == 25 and not play.failed()
    for number, body in enumerate(play.bodies):
        if "compaction" not in body:
            continue
        # It repeats the request before, byte for byte, whose reply comes first in what is kept.
        asked = b'"stream":true,"messages":'
        assert play.raw[number].split(asked)[1] == play.raw[number - 1].split(asked)[1]
        after = play.bodies[number + 1]
        assert [block["type"] for block in after["messages"][0]["content"]] == ["compaction"]
        assert [block["type"] for block in after["messages"][1]["content"]] == ["thinking", "tool_use"]
        assert "Read the page, again and again." in said(after)
    for cut in cuts:
        assert cut.usage.cache_read_input_tokens and not cut.usage.cache_creation_input_tokens + cut.usage.input_tokens
    assert play.betas[0] == "" and set(play.betas[-5:]) == {"compact-2026-09-04"}, "the header, once begun, for ever"
    view = play.job.view()
    assert view.usage == history.usage, "summaries are paid for"
    assert sum(play.server.stats()["tokens"].values()) == view.usage.total_tokens
    assert view.turns == 25, "and are no turns"

    def sent() -> list[str]:
        return [entry.request_sha for entry in play.journal() if isinstance(entry, Assistant)]

    # From a turn after a cut, in another job: the very same requests, and the next cuts.
    before, past = sent(), read_past(short.swarm.store, play.job.id)
    play.job = go_on(short.swarm, past, Resumption(past.root, 20, files="here"), lambda _: play.server.url).job
    play.agent_id = play.job.view().root_id
    play.completed()
    assert sent() == before and len(play.cuts()) == len(cuts)


def test_where_the_server_makes_no_blocks_a_message_does_it(short: Fleet) -> None:
    play = Play(short, reading(16, summarizes=False))
    play.completed()
    cuts = play.cuts()
    assert len(cuts) >= 2 and {(cut.form, cut.kept) for cut in cuts} == {("text", 0)}
    asked = next(body for body in play.bodies if SUMMARIZE in said(body))
    assert "compaction" not in asked and set(play.betas) == {""}
    after = play.bodies[play.bodies.index(asked) + 1]["messages"]
    assert len(after) == 1 and after[0]["role"] == "user"
    assert "line 149 of a page" in said({"messages": after}), "what was read last is told as text"
    assert all(cut.usage.cache_read_input_tokens > 0.9 * cut.tokens_before * 0.7 for cut in cuts)


def test_a_server_that_could_not_just_now_is_asked_in_another_way(short: Fleet) -> None:
    more = "faults:\n  - {kind: compaction_unavailable, times: 1}\n"
    scenario = reading(14).replace("rules:", more + "rules:", 1)
    play = Play(short, scenario)
    play.completed()
    assert [failed.error_kind for failed in play.failed()] == ["no_summary"]
    assert play.cuts()[0].form == "text"


def test_one_that_is_away_is_waited_for_as_for_any_reply(short: Fleet) -> None:
    more = "faults:\n  - {kind: '529', times: 1, retry_after: 0.1, when: {summarizing: true}}\n"
    play = Play(short, reading(12).replace("rules:", more + "rules:", 1))
    play.completed()
    assert play.cuts() and not play.failed()


def test_woken_long_after_a_small_model_reads_what_the_cache_has_forgotten(roomy: Fleet) -> None:
    ask = """  - when: {turn: 4, uses: 1}
    reply: {thinking: who knows, tools: [{name: AskUserQuestion, input: {question: 'Which of the two?'}}]}
"""
    play = Play(roomy, reading(6, ask), ask_seconds=600.0)
    assert isinstance(play.run(), Waits)
    play.fleet.swarm.compact(play.agent_id)
    [question] = roomy.swarm.questions.open(play.job.id)
    roomy.swarm.answer(question.id, "The second one.")
    outcome = play.run(later=3_600.0)
    assert isinstance(outcome, Ended) and outcome.state == "completed", outcome
    [cut] = play.cuts()
    assert (cut.model, cut.form, cut.kept) == ("claude-haiku-5-5", "block", 0)
    after = next(body for body in play.bodies if body["messages"][0]["role"] == "assistant")
    assert after["model"] == "claude-sonnet-5-5" and len(after["messages"]) == 2
    # Nothing of the last turn is kept as it was: it is told as text, and so is what the person answered.
    assert said(after).count("The second one.") == 2 and "Which of the two?" in said(after)
    play.history()


# -- what does not fit -----------------------------------------------------------------------------------------


def test_a_conversation_that_the_model_refuses_is_cut_and_goes_on(roomy: Fleet) -> None:
    play = Play(roomy, reading(60, context_windows={"claude-sonnet-5-5": 40_000}))
    play.completed()
    triggers = [cut.trigger for cut in play.cuts()]
    assert triggers[0] == "overflow" and set(triggers[1:]) == {"auto"}, "it knows the window from then on"
    assert [entry.error_kind for entry in play.journal() if entry.kind == "model_failed"] == ["too_large"]
    assert {cut.form for cut in play.cuts()} == {"block"}, "every cut left room for a summary"
    again = Play(roomy, "", server=play.server)
    again.completed()
    assert {cut.trigger for cut in again.cuts()} == {"auto"}, "and so does the fleet"
    assert set(ModelStore(roomy.swarm.store.keyspace).all_facts().values()) == {ModelFacts(window=40_000)}
    check = next(check for check in run_checks(roomy.settings) if check.name == "models")
    assert not check.ok and "holds 40,000 tokens, by its server, and 1,000,000 by the table" in check.found


def test_one_that_fits_no_more_after_a_cut_gives_its_last_words_and_goes_on_when_written_to(roomy: Fleet) -> None:
    fault = "  - {kind: '400', times: 2, message: 'prompt is too long: 9 tokens > 8 maximum', when: {turn: '5+'}}"
    play = Play(roomy, reading(8).replace("rules:", f"faults:\n{fault}\nrules:", 1))
    outcome = play.run()
    assert isinstance(outcome, Ended) and outcome.state == "completed"
    assert play.job.view().stopped_at == "context"
    assert [cut.form for cut in play.cuts()] == ["block", "bare"]
    assert "line 149 of a page" in play.cuts()[-1].state, "what came last is told as text"
    play.job.send("root", "Go on, please.")
    play.completed()
    assert play.job.view().stopped_at == ""


def test_a_reply_without_room_is_given_again_after_a_cut(roomy: Fleet) -> None:
    more = f"  - when: {{turn: 6}}\n    uses: 1\n    reply: {{text: {'long ' * 30_000!r}}}\n"
    play = Play(roomy, reading(8, more, context_windows={"claude-sonnet-5-5": 40_000}))
    play.completed()
    assert [cut.trigger for cut in play.cuts()][:1] == ["overflow"]
    stops = [entry.stop_reason for entry in play.journal() if entry.kind == "assistant"]
    assert "model_context_window_exceeded" in stops


def test_a_single_turn_that_does_not_fit_is_told_as_text_and_the_agent_goes_on(roomy: Fleet) -> None:
    calls = ", ".join(["{name: Read, input: {file_path: page.txt}}"] * 20)
    more = f"  - when: {{turn: 0, uses: 1}}\n    reply: {{tools: [{calls}]}}\n"
    (roomy.workspace / "page.txt").write_text(PAGE * 3)
    play = Play(roomy, reading(3, more, context_windows={"claude-sonnet-5-5": 100_000}))
    play.completed()
    (roomy.workspace / "page.txt").write_text(PAGE)
    [cut] = play.cuts()
    assert (cut.form, cut.trigger) == ("bare", "overflow") and "characters left out" in cut.state
    assert play.job.view().stopped_at == ""


# -- what binds ------------------------------------------------------------------------------------------------


def test_what_binds_is_in_the_next_request(short: Fleet) -> None:
    rules = [f"Constraint {number}: the colour of part {number} is {number * 37}." for number in range(10)]
    more = """
  - when: {turn: 0}
    reply:
      tools:
        - {name: TodoWrite, input: {todos: [{content: Paint the shed, status: in_progress, activeForm: Painting}]}}
        - {name: BoardAdd, input: {subject: Weld the frame, description: Only by night.}}
        - {name: BoardClaim, input: {task_id: 1}}
        - {name: Bash, input: {command: sleep 29, description: sleep, run_in_background: true}}
        - {name: Agent, input: {description: look for paint, prompt: Find paint., name: painter, run_in_background: true}}
  - {when: {turn: 1}, reply: {tools: [{name: AskUserQuestion, input: {question: "Which colour has the door?"}}]}}
"""
    play = Play(short, reading(5, more), "Build it.\n" + "\n".join(rules), ask_seconds=600.0)
    assert isinstance(play.run(), Waits)
    [question] = play.fleet.swarm.questions.open(play.job.id)
    play.fleet.swarm.answer(question.id, "Teal, by order of the board.")
    play.job.send("root", "Never use <red>.")
    play.fleet.swarm.compact(play.agent_id, "the colours")
    play.run()
    [cut] = play.cuts()[:1]
    assert cut.trigger == "manual" and cut.focus == "the colours"
    asked = next(body for body in play.bodies if "compaction" in body)
    assert "the colours" in asked["compaction"]["instructions"]
    after = said(play.bodies[play.bodies.index(asked) + 1])
    for fact in (
        *rules,
        "Never use &lt;red&gt;.",
        "Paint the shed",
        "Weld the frame",
        "Only by night.",
        "Teal, by order",
    ):
        assert fact in after, fact
    [child] = play.fleet.swarm.store.agents.children(play.agent_id)
    assert child in after and "painter" in after and "queued" in after
    assert "running: sleep 29" in after
    assert len(play.cuts()) == 1 or play.cuts()[1].trigger == "auto", "a request by a person is carried out once"


def test_all_that_was_said_before_can_be_read_by_page(short: Fleet) -> None:
    more = """  - when: {turn: 5}
    reply: {tools: [{name: Read, input: {file_path: 'output:past', limit: 20}}]}
"""
    play = Play(short, reading(8, more))
    play.completed()
    told = [entry.text for entry in play.journal() if entry.kind == "tool_finished"][5]
    assert "Read the page, again and again." in told


def dot() -> bytes:
    """An image of one pixel."""

    def part(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header, pixel = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0), zlib.compress(b"\0\0")
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", pixel) + part(b"IEND", b"")


def test_a_refused_image_is_replaced_by_words_and_the_agent_lives_on(roomy: Fleet) -> None:
    (roomy.workspace / "dot.png").write_bytes(dot())
    more = """
  - when: {turn: 1}
    reply: {thinking: look, tools: [{name: Read, input: {file_path: dot.png}}]}
"""
    fault = "faults:\n  - {kind: '400', times: 1, message: 'messages.4: Could not process image', when: {turn: 4}}\n"
    play = Play(roomy, reading(6, more).replace("rules:", fault + "rules:", 1))
    play.completed()
    assert not hold_image(play.history().messages)


def test_forks_of_one_whose_conversation_was_cut_begin_with_what_it_saw(short: Fleet) -> None:
    more = """
  - when: {last_text: 'Do your part'}
    reply: {text: my part}
  - when: {turn: 10}
    reply: {tools: [{name: Agent, input: {description: part, prompt: Do your part., fork: true}}]}
"""
    play = Play(short, reading(12, more))
    outcome = play.run()
    assert isinstance(outcome, Waits) and play.cuts()
    [child] = play.fleet.swarm.store.agents.children(play.agent_id)
    parent, play.agent_id = play.agent_id, child
    outcome = play.run()
    assert isinstance(outcome, Ended) and outcome.state == "completed", outcome
    first = play.bodies[-1]
    assert first["messages"][0]["content"][0]["type"] == "compaction"
    history = short.swarm.store.journals.history(child)
    assert history == fold(child, short.swarm.journal(child), short.swarm.store.journals.read)
    play.agent_id = parent
    assert isinstance(play.run(), Ended)


def test_a_budget_holds_for_summaries(short: Fleet) -> None:
    play = Play(short, reading(40), max_tokens=150_000)
    play.run()
    view = play.job.view()
    assert view.usage.total_tokens <= 150_000 and view.stopped_at == "tokens" and play.cuts()


# -- what people see -------------------------------------------------------------------------------------------


def command(fleet: Fleet, *words: str) -> str:
    """The `swarm` command against this fleet."""
    done = subprocess.run(
        [prepared_swarm(), *words],
        env={**fleet.environment(), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


def test_a_person_cuts_a_conversation_and_sees_the_cut_and_what_was_before(roomy: Fleet) -> None:
    play = Play(roomy, reading(3))
    told = command(roomy, "compact", play.agent_id, "--focus", "the numbers")
    assert "will have its conversation summarized" in told
    play.completed()
    [cut] = play.cuts()
    assert (cut.trigger, cut.focus) == ("manual", "the numbers")
    whole = command(roomy, "transcript", play.agent_id)
    before, _, after = whole.partition("✂ the model now sees a summary instead of the text above")
    assert "thinking of 0" in before and "Summary of 1 replies" in after and "thinking of 2" in after
    since = command(roomy, "transcript", play.agent_id, "--since-cut")
    assert "thinking of 0" not in since and "thinking of 1" in since, "the last turn is kept as it was"
    shown = next(entry for entry in read_journal(roomy.swarm, play.agent_id)["entries"] if entry["kind"] == "cut")
    assert shown["parts"][0]["text"] and "folded" not in shown
    notices = [told for told in stream(roomy.swarm, play.job) if told.type == "notice" and told.kind == "compacted"]
    assert [notice.about["trigger"] for notice in notices] == ["manual"]


def test_a_cancelled_agent_or_an_unknown_one_cannot_be_cut(roomy: Fleet) -> None:
    play = Play(roomy, reading(3))
    play.job.cancel()
    with pytest.raises(AgentCancelled):
        roomy.swarm.compact(play.agent_id)
    with pytest.raises(UnknownAgent):
        roomy.swarm.compact("agent-0000000000000000")
    with pytest.raises(ConfigurationError):
        roomy.swarm.compact(play.agent_id, "x" * 3_000)
