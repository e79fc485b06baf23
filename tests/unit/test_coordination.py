"""Coordination, purely: what a coordinator is held to, from its journal.

Tests of swarm/agent/coordination/ledger.py, swarm/agent/coordination/rules.py, swarm/agent/coordination/messages.py,
swarm/runtime/evidence.py, swarm/tools/agents.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from swarm.agent.coordination.ledger import read_verdict
from swarm.agent.coordination.messages import SENT_BACK
from swarm.agent.coordination.rules import Review, find_gap, find_unverified, overlap, review_orders
from swarm.agent.decision import CallModel, End, Say, next_action
from swarm.agent.entries import Assistant, Entry, Mail, Prompt, Spawned, Started, ToolFinished
from swarm.agent.history import History, fold
from swarm.agent.prompts import system_prompt
from swarm.agent.spec import AgentSpec
from swarm.core.ids import child_agent_id
from swarm.definitions.catalogue import Catalogue, load_catalogue
from swarm.definitions.markdown import read_markdown
from swarm.definitions.model import AgentDefinition, Rule
from swarm.models import Usage
from swarm.runtime.evidence import add_to_report, list_commands
from swarm.runtime.spawner import plan_children
from swarm.tools.agents import AGENT, naming_types

ALL: list[Rule] = list(get_args(Rule))
ROOT = "agent-0000000000000000"
GOOD = "In src/till/tax.py:12 `round_half` rounds before the sum; round after it instead, add a test to tests/test_tax.py, and run it."
TOOLS = ["Agent", "SendMessage", "ScratchpadWrite", "WaitAgents"]


class Coordinator:
    """A coordinator's life, lived by hand."""

    def __init__(self, rules: Sequence[Rule] = ALL, tools: Sequence[str] = TOOLS) -> None:
        definition = AgentDefinition(name="lead", description="Leads.", prompt="Lead.", coordination=list(rules))
        spec = AgentSpec(
            agent_id=ROOT,
            job_id="job-0",
            definition=definition,
            description="d",
            prompt="p",
            model="claude-test",
            workspace="/w",
        )
        schemas = [{"name": name, "description": "", "input_schema": {"type": "object"}} for name in tools]
        self.history: History = fold(ROOT, [Started(spec=spec, tools=schemas), Prompt(text="go")])
        self._number = 0

    def says(self, *calls: dict[str, Any], text: str = "") -> list[dict[str, Any]]:
        content = ([{"type": "text", "text": text}] if text else []) + list(calls)
        stop = "tool_use" if calls else "end_turn"
        self.live(Assistant(content=content, stop_reason=stop, usage=Usage(), model="m"))
        return list(self.history.pending.values())

    def live(self, *entries: Entry) -> None:
        for entry in entries:
            self.history.apply(entry)

    def call(self, tool: str, **given: Any) -> dict[str, Any]:
        self._number += 1
        return {"type": "tool_use", "id": f"toolu_{self._number}", "name": tool, "input": given}

    def order(self, phase: str | None = "implementation", prompt: str = GOOD, **given: Any) -> dict[str, Any]:
        given = {"description": f"part {self._number + 1}", "prompt": prompt, **given}
        if phase == "implementation":
            given = {"files": ["src/till/tax.py"], "done_when": "the test passes", **given}
        return self.call("Agent", **given, **({} if phase is None else {"phase": phase}))

    def review(self, *calls: dict[str, Any]) -> Review:
        return review_orders(self.says(*calls), self.history)

    def refusal(self, call: dict[str, Any]) -> str:
        """Why this order is refused; the refusal is journaled."""
        text = self.review(call).refused.get(call["id"], "")
        if text:
            self.live(ToolFinished(tool_use_id=call["id"], text=text, is_error=True))
        else:
            self.start(call)
        return text

    def start(self, *calls: dict[str, Any], background: bool = False) -> list[str]:
        children = {call["id"]: call["input"].get("agent_id") or child_agent_id(ROOT, call["id"]) for call in calls}
        self.live(Spawned(children=children, background=list(children) if background else []))
        if background:
            self.live(*(ToolFinished(tool_use_id=i, text="Started in the background") for i in children))
        return list(children.values())

    def report(self, call: dict[str, Any], text: str = "done", *, state: str = "completed", tools: int = 3) -> None:
        head = f"[worker {child_agent_id(ROOT, call['id'])}: {state}, {tools} tool calls, 9 tokens, 1.0 s]"
        self.live(ToolFinished(tool_use_id=call["id"], text=f"{head}\n\n{text}", is_error=state != "completed"))

    def run(self, call: dict[str, Any], text: str = "done", **given: Any) -> None:
        """Give an order in the foreground, and take its report."""
        self.says(call)
        self.start(call)
        self.report(call, text, **given)

    def conclude(self) -> None:
        call = self.call("ScratchpadWrite", page="plan", text="so")
        self.says(call)
        self.live(ToolFinished(tool_use_id=call["id"], text="written"))


# -- prompts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prompt",
    [
        f"Based on your findings, fix it. {GOOD}",
        f"Based on the earlier research, go on. {GOOD}",
        f"{GOOD} Do it as we discussed.",
        f"{GOOD} The places are listed above.",
        f"Fix the bug we found. {GOOD}",
        f"Correct the function that you identified. {GOOD}",
        f"{GOOD} Use your previous analysis.",
        f"Read src/a.py and fix it accordingly. {GOOD}",
    ],
)
def test_a_prompt_that_hands_the_understanding_on_is_sent_back(prompt: str) -> None:
    assert "refers to something that the worker cannot see" in find_gap({"prompt": prompt, "phase": "research"})


@pytest.mark.parametrize(
    "prompt",
    [
        GOOD,
        "Find every caller of legacy_login and say what each passes. The issue that users found is a login that never returns.",
        "Requests above 1 MB are refused in src/limits.py; find out where the limit comes from and whether tests cover it.",
        "The format is described in docs/format.md; as described in RFC 9110, a date has three forms. Say which are read.",
    ],
)
def test_a_prompt_that_says_what_it_means_is_not(prompt: str) -> None:
    assert find_gap({"prompt": prompt, "phase": "research"}) == ""


def test_one_that_implements_says_where_and_what_counts_as_done() -> None:
    done = {"phase": "implementation", "done_when": "tests pass"}
    vague = "Please make the totals right for all customers, whatever the rounding is, and see to it that nothing else is changed by that."
    assert "names no file" in find_gap({"prompt": vague, **done})
    assert "characters" in find_gap({"prompt": "Fix src/a.py", **done})
    assert "`done_when`" in find_gap({"prompt": GOOD, "phase": "implementation"})
    assert find_gap({"prompt": GOOD, **done}) == ""


def test_after_two_refusals_it_is_let_through_with_a_note() -> None:
    lead = Coordinator()
    for _ in range(2):
        assert lead.refusal(lead.order("research", "As discussed, look at the places listed above.")).startswith(
            SENT_BACK
        )
    call = lead.order("research", "As discussed, look at the places listed above.")
    review = lead.review(call)
    assert not review.refused and "sent back twice" in review.notes[call["id"]]
    # A new count begins with it.
    lead.start(call)
    lead.report(call)
    assert lead.refusal(lead.order("research", "As discussed.")).startswith(SENT_BACK)


def test_a_worker_that_goes_on_has_its_context() -> None:
    lead = Coordinator()
    first = lead.order("research", "Find every place in src/till that rounds, and say what each does.")
    lead.run(first)
    assert not lead.refusal(
        lead.order("research", "And as discussed, the tests.", agent_id=child_agent_id(ROOT, first["id"]))
    )


# -- synthesis -------------------------------------------------------------------------------------------------

RESEARCH = "Find every place in src/till that rounds an amount, and say with file and line what each does."


def test_no_implementation_starts_while_research_runs_nor_before_a_conclusion_is_written() -> None:
    lead = Coordinator()
    research = lead.order("research", RESEARCH)
    lead.says(research)
    [researcher] = lead.start(research, background=True)
    assert "research still runs" in lead.refusal(lead.order())
    notice = f"<task-notification>\n<task-id>{researcher}</task-id>\n<status>completed</status>\n<result>x</result>\n</task-notification>"
    lead.live(Mail(text=notice, cursor="1-0"))
    assert "since you last wrote to the scratchpad" in lead.refusal(lead.order())
    lead.conclude()
    assert lead.refusal(lead.order()) == ""


def test_research_and_implementation_of_one_reply_are_no_order() -> None:
    lead = Coordinator()
    research, build = lead.order("research", RESEARCH), lead.order()
    assert list(lead.review(research, build).refused) == [build["id"]]


def test_who_has_no_scratchpad_need_not_write_to_it_and_a_small_job_needs_no_research() -> None:
    lead = Coordinator(tools=["Agent"])
    lead.run(lead.order("research", RESEARCH))
    assert lead.refusal(lead.order()) == ""
    small = Coordinator()
    assert small.review(small.order()).refused == {}


# -- leases ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("src/a.py", "src/a.py", True),
        ("./src//a.py", "src/a.py", True),
        ("src", "src/a.py", True),
        ("src/**/*.py", "src/deep/a.py", True),
        (".", "anything", True),
        ("src/a.py", "src/a.pyi", False),
        ("src/a", "src/ab", False),
        ("tests/*", "src/a.py", False),
    ],
)
def test_files_overlap_as_folders_and_patterns_do(one: str, other: str, same: bool) -> None:
    assert overlap(one, other) is same and overlap(other, one) is same


def test_while_one_writes_a_file_nobody_else_is_started_on_it() -> None:
    lead = Coordinator()
    first, second, third = lead.order(), lead.order(files=["src"]), lead.order(files=["docs/a.md"])
    assert list(lead.review(first, second, third).refused) == [second["id"]]
    [writer, _] = lead.start(first, third, background=True)
    lead.live(ToolFinished(tool_use_id=second["id"], text="refused", is_error=True))
    held = lead.refusal(lead.order())
    assert "src/till/tax.py is being changed by" in held and writer in held
    assert lead.refusal(lead.order(agent_id=writer)) == "", "its own files"
    assert "lists in `files`" in lead.refusal(lead.order(files=[]))


# -- verification ----------------------------------------------------------------------------------------------

VERIFY = "Run tests/test_tax.py and try amounts of half a cent with src/till/tax.py; say whether the sums are right."


def verdict(lead: Coordinator, word: str = "PASS", **given: Any) -> None:
    lead.run(lead.order("verification", VERIFY), f"I ran it.\n\n**VERDICT: {word}**", **given)


def ends(lead: Coordinator) -> End | Say:
    lead.says(text="all done")
    action = next_action(lead.history)
    assert isinstance(action, End | Say)
    if isinstance(action, Say):
        lead.live(action.prompt)
        assert isinstance(next_action(lead.history), CallModel)
    return action


def test_no_end_without_a_verification_by_somebody_else() -> None:
    lead = Coordinator()
    lead.run(lead.order())
    action = ends(lead)
    assert isinstance(action, Say) and "src/till/tax.py" in action.prompt.text
    verdict(lead)
    assert isinstance(ends(lead), End)


@pytest.mark.parametrize("given", [{"word": "FAIL"}, {"word": "PARTIAL"}, {"tools": 0}, {"state": "failed"}], ids=str)
def test_a_verification_counts_only_if_it_passed_and_looked(given: dict[str, Any]) -> None:
    lead = Coordinator()
    lead.run(lead.order())
    verdict(lead, **given)
    assert isinstance(ends(lead), Say)


def test_what_was_changed_after_it_must_be_verified_again() -> None:
    lead = Coordinator()
    first = lead.order(name="ada")
    lead.run(first)
    verdict(lead)
    outgoing = lead.call("SendMessage", to="ada", message="also this")
    lead.says(outgoing)
    lead.live(ToolFinished(tool_use_id=outgoing["id"], text="sent"))
    assert [order.name for order in find_unverified(lead.history.ledger)] == ["ada"]  # type: ignore[arg-type]
    verdict(lead)
    assert find_unverified(lead.history.ledger) == []  # type: ignore[arg-type]


def test_who_has_built_cannot_verify() -> None:
    lead = Coordinator()
    first = lead.order()
    lead.run(first)
    assert "has built it" in lead.refusal(
        lead.order("verification", VERIFY, agent_id=child_agent_id(ROOT, first["id"]))
    )


def test_who_insists_ends_with_a_note() -> None:
    lead = Coordinator()
    lead.run(lead.order())
    assert isinstance(ends(lead), Say) and isinstance(ends(lead), Say)
    action = ends(lead)
    assert isinstance(action, End) and action.finished.state == "completed"
    assert "not independently verified" in action.finished.reason


def test_who_only_asked_around_ends_at_once() -> None:
    lead = Coordinator()
    lead.run(lead.order("research", RESEARCH))
    action = ends(lead)
    assert isinstance(action, End) and action.finished.reason == ""


def test_the_last_verdict_line_counts() -> None:
    assert read_verdict("VERDICT: PASS\n…\nVERDICT: FAIL") == "FAIL"
    assert read_verdict("- VERDICT: **PASS**") == "PASS"
    assert read_verdict("the VERDICT: PASS line") == ""


# -- the rest --------------------------------------------------------------------------------------------------


def test_who_knows_the_files_is_named() -> None:
    lead = Coordinator()
    lead.run(lead.order(name="ada", files=["src/a.py", "src/b.py"]))
    call = lead.order(files=["src/a.py", "src/b.py", "src/c.py"])
    assert "ada (part 1) has worked on 2 of these 3 files" in lead.review(call).notes[call["id"]]


@pytest.mark.parametrize("rule", ALL)
def test_each_rule_can_be_left_out(rule: Rule) -> None:
    lead = Coordinator([other for other in ALL if other != rule])
    lead.run(lead.order("research", RESEARCH))
    if rule != "synthesis":
        lead.conclude()
    given: dict[str, Any] = {
        "self-contained": {"prompt": "As discussed, fix it."},
        "leases": {"files": []},
    }.get(rule, {})
    call = lead.order(**given)
    assert lead.refusal(call) == ""
    if rule == "verification":
        lead.report(call)
        assert isinstance(ends(lead), End)


def test_who_is_held_to_nothing_needs_no_phase() -> None:
    lead = Coordinator([])
    assert lead.history.ledger is None and lead.review(lead.order(None, "go")).refused == {}
    held = Coordinator()
    assert "say in `phase`" in held.refusal(held.order(None))


def test_research_can_change_nothing_and_who_verifies_is_told_how_its_verdict_is_read() -> None:
    lead = Coordinator()
    worker = AgentDefinition(name="general-purpose", description="d", prompt="p")
    catalogue = Catalogue(definitions={"general-purpose": worker})
    research, verify = lead.order("research", RESEARCH), lead.order("verification", VERIFY)
    plan = plan_children(lead.says(research, verify), lead.history, catalogue, lambda who: who)
    assert plan.refused == {}
    made = [plan.children[call["id"]] for call in (research, verify)]
    assert all(isinstance(child, AgentSpec) for child in made)
    assert made[0].definition.read_only and not made[1].definition.read_only  # type: ignore[union-attr]
    assert "VERDICT: PASS" in made[1].prompt and "VERDICT" not in made[0].prompt


def test_a_report_tells_what_was_really_run() -> None:
    def bash(call_id: str, command: str) -> Assistant:
        block = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}
        return Assistant(content=[block], stop_reason="tool_use", usage=Usage(), model="m")

    journal: list[Entry] = [
        bash("a", "pytest -q"),
        ToolFinished(tool_use_id="a", text="F\n[exit code 1]", is_error=True),
        bash("b", "true"),
        ToolFinished(tool_use_id="b", text="(no output)"),
    ]
    assert list_commands(journal) == ["`pytest -q`: exit code 1", "`true`: exit code 0"]
    lead = Coordinator()
    call = lead.order()
    lead.says(call)
    lead.start(call)
    text = add_to_report(lead.history, call["id"], "report", lambda who: journal)
    assert text.startswith("report\n") and "- ran `pytest -q`: exit code 1" in text and "knows src/till/tax.py" in text


def test_a_coordinator_is_told_its_rules_and_its_workers_tools(tmp_path: Path) -> None:
    catalogue = load_catalogue(None, tmp_path)
    lead = catalogue.get("coordinator")
    assert lead.coordination == ALL
    spec = Coordinator().history.spec
    assert spec is not None
    prompt = system_prompt(spec.model_copy(update={"definition": lead}), {"Agent"})
    assert "`phase`" in prompt and "VERDICT: PASS" in prompt
    tool = naming_types(AGENT, catalogue.for_spawning(), coordinated=True)
    assert "phase" in tool.required and {"files", "done_when"} <= set(tool.parameters)
    assert "tools: Read, Glob, Grep, LS, Bash" in tool.description and "its shell cannot write" in tool.description
    for name in ("verification", "code-reviewer"):
        assert catalogue.get(name).read_only and "Bash" in (catalogue.get(name).tools or [])


@pytest.mark.parametrize(
    ("written", "rules"),
    [("true", ALL), ("false", []), ("leases, self_contained", ["leases", "self-contained"]), ("[hints]", ["hints"])],
)
def test_a_definition_says_which_rules_hold(tmp_path: Path, written: str, rules: list[str]) -> None:
    path = tmp_path / "lead.md"
    path.write_text(f"---\nname: lead\ndescription: d\ncoordination: {written}\n---\nLead.\n")
    [definition] = read_markdown(path).definitions
    assert definition.coordination == rules and definition.warnings == []
    path.write_text("---\nname: lead\ndescription: d\ncoordination: lease\n---\nLead.\n")
    assert "no rule 'lease'" in str(read_markdown(path).problems[0])
