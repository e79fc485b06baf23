"""What a call that starts an agent can ask for, reading along, going on after a stop, plan mode, addressing, teams.

Tests of swarm/definitions/mentions.py, swarm/runtime/spawn_options.py, swarm/tools/reading_agents.py.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from swarm import Job
from swarm.agent.history import History, fold
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.core.errors import ConfigurationError
from tests.fleet import Fleet
from tests.waiting import wait_for


def _results(fleet: Fleet, agent_id: str) -> list[str]:
    return [entry.text for entry in fleet.swarm.journal(agent_id) if entry.kind == "tool_finished"]


def _run(fleet: Fleet, scenario: str, *, agent: str = "general-purpose", **given: Any) -> tuple[Job, list[str]]:
    server = fleet.rehearse(f"\nname: asked\nrules:{scenario}")
    job = fleet.submit("go", server, agent=agent, **given)
    view = job.wait(60)
    assert view.state == "completed", view.reason
    assert server.stats()["unmatched"] == []
    return job, _results(fleet, view.root_id)


def _history(fleet: Fleet, agent_id: str) -> History:
    return fold(agent_id, fleet.swarm.journal(agent_id), fleet.swarm.journal)


def _spec(fleet: Fleet, agent_id: str) -> Any:
    return next(iter(fleet.swarm.journal(agent_id))).spec  # type: ignore[union-attr]


def test_a_call_says_model_effort_mode_and_folder_and_gets_no_more_than_there_is(at_work: Fleet) -> None:
    inner = at_work.workspace / "lib" / "inner"
    inner.mkdir(parents=True)
    (inner / "a.txt").write_text("found in inner")
    (at_work.workspace / "a.txt").write_text("found at the top")
    job, told = _run(
        at_work,
        """
  - when: {prompt: '^look', turn: 0}
    reply: {tools: [
      {name: Read, input: {file_path: a.txt}}, {name: Bash, input: {command: 'pwd; cat a.txt'}},
      {name: Glob, input: {pattern: '*.txt'}}, {name: Write, input: {file_path: b.txt, content: x}}]}
  - when: {prompt: '^look'}
    reply: {text: looked}
  - when: {turn: 0}
    reply: {tools: [
      {name: Agent, input: {description: a, prompt: look, model: haiku, effort: high, mode: plan, cwd: lib/inner}},
      {name: Agent, input: {description: b, prompt: look, model: gpt-9}},
      {name: Agent, input: {description: c, prompt: look, mode: bypassPermissions}},
      {name: Agent, input: {description: d, prompt: look, cwd: ../..}},
      {name: Agent, input: {description: e, prompt: look, cwd: nowhere}}]}
  - reply: {text: done}
""",
    )
    [child] = [agent for agent in job.agents() if agent.parent_id]
    spec = _spec(at_work, child.id)
    assert (spec.definition.effort, spec.mode, spec.cwd) == ("high", "plan", "lib/inner") and "haiku" in spec.model
    read, shell, found, written = _results(at_work, child.id)
    assert "found in inner" in read and "lib/inner\n" in shell and "found in inner" in shell
    assert "lib/inner/a.txt" in found and "\na.txt" not in f"\n{found}"
    assert "plan mode" in written and not (inner / "b.txt").exists()
    refused = [text for text in told if "looked" not in text]
    assert len(refused) == 4
    assert "'gpt-9' is not known here" in refused[0] and "claude-" in refused[0]
    assert "permits more than this agent may be given (acceptEdits)" in refused[1]
    assert "is not in the workspace" in refused[2] and "is not a folder" in refused[3]


def test_a_rule_holds_for_whoever_begins_in_a_folder_of_the_workspace(at_work: Fleet) -> None:
    folder = at_work.workspace / "lib"
    folder.mkdir()
    for place in (folder, at_work.workspace):
        (place / "secret.txt").write_text("hidden")
    server = at_work.rehearse("""
name: ruled
rules:
  - when: {prompt: '^look', turn: 0}
    reply: {tools: [{name: Read, input: {file_path: secret.txt}}, {name: Read, input: {file_path: ../secret.txt}}]}
  - when: {prompt: '^look'}
    reply: {text: looked}
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: a, prompt: look, cwd: lib}}]}
  - reply: {text: done}
""")
    job = at_work.swarm.submit(
        "go", agent="general-purpose", workspace=at_work.workspace, base_url=server.url, deny=["Read(/secret.txt)"]
    )
    assert job.wait(60).state == "completed"
    [child] = [agent for agent in job.agents() if agent.parent_id]
    outer, inner = _results(at_work, child.id)  # what is not run is settled first
    assert "hidden" in inner and "hidden" not in outer and "Not allowed" in outer


def test_a_fork_goes_on_as_another_type_with_the_same_beginning_and_that_types_tools(at_work: Fleet) -> None:
    job, told = _run(
        at_work,
        """
  - when: {last_text: '^look around', turn: 1}
    reply: {tools: [{name: Write, input: {file_path: x.txt, content: x}}, {name: LS, input: {}}]}
  - when: {last_text: '^the same'}
    reply: {text: forked as the same}
  - when: {turn: 0}
    reply: {tools: [
      {name: Agent, input: {description: a, prompt: look around, fork: true, subagent_type: explore}},
      {name: Agent, input: {description: b, prompt: the same, subagent_type: fork}},
      {name: Agent, input: {description: c, prompt: other, fork: true, effort: low}}]}
  - reply: {text: done}
""",
    )
    kinds = {agent.definition: agent.id for agent in job.agents() if agent.parent_id}
    assert set(kinds) == {"explore", "general-purpose"}
    explored, same = kinds["explore"], kinds["general-purpose"]
    wrote, listed = _results(at_work, explored)
    assert "There is no tool 'Write'" in wrote and "There is no tool" not in listed
    assert not (at_work.workspace / "x.txt").exists()
    root = _history(at_work, job.view().root_id)
    other = _history(at_work, explored)
    assert (other.system, other.tools) == (root.system, root.tools) and other.messages[0] == root.messages[0]
    assert 'your agent type is "explore"' in str(other.messages)
    assert _history(at_work, same).tool_names() == root.tool_names()
    assert any("forked as the same" in text for text in told) and any("Omit `effort`" in text for text in told)


def test_a_running_agent_is_read_and_one_that_its_parent_stopped_goes_on(at_work: Fleet) -> None:
    """Read while it runs, by page; stopped; continued by its parent, with what it knows; its result counts that run alone."""
    job, told = _run(
        at_work,
        """
  - when: {prompt: '^dig', last_text: 'go on now'}
    reply: {text: went on and finished}
  - when: {prompt: '^dig', turn: 0}
    reply: {text: I dig first, tools: [{name: LS, input: {}}]}
  - when: {prompt: '^dig'}
    reply: {text: never, latency_seconds: 100}
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: d, prompt: dig, name: digger, run_in_background: true}}]}
  - when: {turn: '1-400', last_result: '(Started in the background|0 turns|It has not begun)'}
    reply: {latency_seconds: 0.1, tools: [{name: ReadAgent, input: {agent_id: digger}}]}
  - when: {last_result: 'entries 2 to'}
    reply: {tools: [{name: ReadAgent, input: {agent_id: digger, offset: 3}}, {name: StopAgent, input: {agent_id: digger}}]}
  - when: {last_result: 'is stopped'}
    reply: {tools: [{name: Agent, input: {description: d, agent_id: digger, prompt: go on now}}]}
  - when: {last_result: 'went on and finished'}
    reply: {tools: [{name: ReadAgent, input: {agent_id: digger}}]}
  - reply: {text: done}
""",
    )
    looks = [text for text in told if text.startswith("[general-purpose agent-") and "entries" in text]
    assert "said: I dig first" in looks[0] and "called: LS" in looks[0] and "2. task\n" in looks[0]
    assert "2. task\n" not in looks[1] and "entries 3 to" in looks[1]
    assert "completed\n   went on and finished" in looks[-1]
    [digger] = [agent for agent in job.agents() if agent.name == "digger"]
    [head] = [text for text in told if "went on and finished" in text and "entries" not in text]
    tokens = int(re.search(r"(\d+) tokens", head)[1])  # type: ignore[index]
    assert "completed, 0 tool calls" in head and tokens < digger.usage.total_tokens
    mail = [entry.text for entry in at_work.swarm.journal(digger.id) if entry.kind == "mail"]
    assert 'from="root"' in mail[-1]


def test_an_agent_that_a_person_cancelled_is_not_continued_by_its_parent(at_work: Fleet) -> None:
    server = at_work.rehearse("""
name: cancelled
rules:
  - when: {prompt: '^hang'}
    reply: {text: never, latency_seconds: 100}
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: h, prompt: hang, name: one}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Agent, input: {description: h, agent_id: one, prompt: go on}}]}
  - reply: {text: '{last_text}'}
""")
    job = at_work.submit("go", server)
    wait_for("it runs", lambda: [one for one in job.agents() if one.name == "one" and one.state == "running"])
    [child] = [one for one in job.agents() if one.name == "one"]
    at_work.swarm.cancel(child.id)
    assert job.wait(60).state == "completed"
    assert "is cancelled: it cannot continue" in _results(at_work, job.view().root_id)[-1]


def test_agents_get_their_types_nicknames_one_each(at_work: Fleet) -> None:
    folder = at_work.workspace / ".codex" / "agents"
    folder.mkdir(parents=True)
    (folder / "scout.toml").write_text(
        'name = "scout"\ndescription = "Scouts."\ndeveloper_instructions = "Scout."\n'
        'nickname_candidates = ["Atlas", "root", "Far Out"]\n'
    )
    agents = ", ".join(
        f"{{name: Agent, input: {{description: s{n}, prompt: scout, subagent_type: scout}}}}" for n in range(3)
    )
    job, _ = _run(
        at_work,
        f"""
  - when: {{prompt: '^scout'}}
    reply: {{text: scouted}}
  - when: {{turn: 0}}
    reply: {{tools: [{agents}]}}
  - reply: {{text: done}}
""",
    )
    assert sorted(str(agent.name) for agent in job.agents() if agent.parent_id) == ["Atlas", "Far-Out", "None"]


def test_a_root_enters_plan_mode_and_comes_back_to_the_mode_it_had(at_work: Fleet) -> None:
    """Build to plan to build in one conversation: only blocks are added, tools and prompt stay as they are."""
    server = at_work.rehearse("""
name: planning
rules:
  - when: {turn: 0}
    reply: {tools: [{name: EnterPlanMode, input: {}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Write, input: {file_path: early.txt, content: x}}]}
  - when: {turn: 2}
    reply: {tools: [{name: ExitPlanMode, input: {plan: '# Write late.txt'}}]}
  - when: {turn: 3}
    reply: {tools: [{name: Write, input: {file_path: late.txt, content: x}}]}
  - reply: {text: done}
""")
    job = at_work.swarm.submit(
        "go", agent="build", workspace=at_work.workspace, base_url=server.url, ask=["EnterPlanMode"], ask_seconds=60
    )

    def answer(kind: str) -> None:
        [question] = wait_for(
            f"a {kind} question", lambda: [q for q in at_work.swarm.questions.open() if q.kind == kind]
        )
        at_work.swarm.answer(question.id, "allow")

    answer("permission")
    answer("plan")
    assert job.wait(60).state == "completed"
    entered, early, approved, _ = _results(at_work, job.view().root_id)
    assert "You are in plan mode now" in entered and "plan mode" in early and "approved" in approved
    assert not (at_work.workspace / "early.txt").exists() and (at_work.workspace / "late.txt").exists()
    history = _history(at_work, job.view().root_id)
    assert history.mode == "acceptEdits" and history.before_plan == "acceptEdits"


def test_a_prompt_that_begins_with_a_type_is_for_that_type(at_work: Fleet) -> None:
    server = at_work.rehearse("""
name: addressed
rules:
  - when: {definition: explore}
    reply: {text: explored}
  - when: {definition: worker}
    reply: {text: worked}
  - when: {last_text: 'Start an agent of the type worker on this'}
    reply: {tools: [{name: Agent, input: {description: w, prompt: mend it, subagent_type: worker}}]}
  - when: {turn: 0}
    reply: {text: waiting}
  - reply: {text: '{last_result}'}
""")

    def ask(prompt: str, agent: str | None = None) -> Any:
        return at_work.swarm.submit(prompt, agent=agent, workspace=at_work.workspace, base_url=server.url).wait(60)

    view = ask("@explore find the callers")
    assert view.text == "explored" and view.title == "find the callers"
    assert ask("look", agent="explore").text == "explored"
    assert ask("@src/app.py is broken").text == "waiting"
    with pytest.raises(ConfigurationError, match="only be started by other agents"):
        prepare_order(Order("x", agent="worker", workspace=at_work.workspace), at_work.settings)
    job = at_work.swarm.job(ask("hello").id)
    sent = job.send("root", "@worker mend it")
    wait_for("it has gone on", lambda: job.view().agents == 2)
    assert sent and "worked" in job.wait(60).text


def test_a_team_is_founded_with_its_members_and_others_join_it_by_its_name(at_work: Fleet) -> None:
    job, told = _run(
        at_work,
        """
  - when: {prompt: '^mate', last_text: 'request_id="(?P<id>request-\\w+)"'}
    reply: {tools: [{name: SendMessage, input: {to: lead, message: bye, kind: shutdown_response, request_id: '{id}', approve: true}}]}
  - when: {prompt: '^mate'}
    reply: {text: ready}
  - when: {turn: 0}
    reply: {tools: [{name: TeamCreate, input: {name: crew, strategy: parallel, agents: [
      {name: ada, prompt: mate one, role: builder, subagent_type: worker},
      {name: ben, prompt: mate two, mode: plan},
      {name: eve, prompt: mate three, subagent_type: nobody}]}}]}
  - when: {turn: 1}
    reply: {tools: [
      {name: Agent, input: {description: c, prompt: mate four, name: cat, team_name: crew}},
      {name: Agent, input: {description: d, prompt: mate five, name: dan, team_name: others}},
      {name: TeamCreate, input: {name: second}}]}
  - when: {turn: 2}
    reply: {tools: [{name: WaitAgents, input: {agent_ids: [ada, ben, cat], timeout_seconds: 60}}]}
  - when: {turn: 3}
    reply: {tools: [{name: TeamDelete, input: {force: true}}]}
  - reply: {text: done}
""",
        agent="build",
    )
    mates = {agent.name: agent for agent in job.agents() if agent.parent_id}
    assert set(mates) == {"ada", "ben", "cat"} and all(mate.teammate for mate in mates.values())
    assert mates["ada"].definition == "worker" and _spec(at_work, mates["ben"].id).mode == "plan"
    assert "Started: ada, ben." in told[0] and "Not started: eve: unknown agent type 'nobody'" in told[0]
    text = "\n".join(told)
    assert "There is no team 'others': a job has one team at a time, and this one's is crew" in text
    assert "he job has a team already, crew" in text


def test_members_of_a_team_are_held_to_the_rules_about_starting_agents(at_work: Fleet) -> None:
    server = at_work.rehearse("""
name: ruled
rules:
  - when: {turn: 0}
    reply: {tools: [{name: TeamCreate, input: {name: crew, agents: [{name: ada, prompt: mate, subagent_type: worker}]}}]}
  - reply: {text: done}
""")
    job = at_work.swarm.submit(
        "go", agent="build", workspace=at_work.workspace, base_url=server.url, deny=["Agent(worker)"]
    )
    assert job.wait(60).state == "completed" and job.view().agents == 1
    assert "Not started: ada: Not allowed" in _results(at_work, job.view().root_id)[0]
