"""Hooks as data: what of people's files is read, whom a hook is for, what its answers mean, which events a life is due.

Tests of swarm/capabilities/hooks/answers.py, swarm/capabilities/hooks/table.py, swarm/capabilities/hooks/events.py,
swarm/capabilities/hooks/files.py, swarm/capabilities/hooks/judging.py, swarm/capabilities/hooks/responses.py,
swarm/capabilities/hooks/runner.py, swarm/definitions/hook_tables.py, swarm/definitions/hook_commands.py,
swarm/definitions/hooks.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swarm.agent.decision import CallModel, Compact, End, next_action
from swarm.agent.entries import (
    Assistant,
    Entry,
    Finished,
    Hooked,
    HooksBegun,
    Mail,
    ModelFailed,
    Prompt,
    Resumed,
    Ruled,
    Started,
    ToolFinished,
)
from swarm.agent.history import History, fold
from swarm.agent.spec import AgentSpec
from swarm.capabilities.hooks.answers import HookAnswer, interrupt, put_together, read_exit, read_ruling, read_text
from swarm.capabilities.hooks.events import HookEvent, before_question, find_events, name_tool
from swarm.capabilities.hooks.files import Managed, find_hooks, read_managed
from swarm.capabilities.hooks.judging import fill_input
from swarm.capabilities.hooks.responses import describe_response, render_output
from swarm.capabilities.hooks.runner import fill
from swarm.capabilities.hooks.table import HookTable
from swarm.core.errors import ConfigurationError
from swarm.definitions.catalogue import load_catalogue
from swarm.definitions.hook_commands import UNPINNED
from swarm.definitions.hook_tables import read_hooks
from swarm.definitions.hooks import Hook, Hooks, Origin
from swarm.definitions.model import AgentDefinition
from swarm.models import Usage
from swarm.store.questions import Ask

CALL = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "git push --force"}}
BEFORE = HookEvent("PreToolUse", "c1", ("Bash",), CALL)


def hook(event: str = "PreToolUse", origin: Origin = "user", **given: Any) -> Hook:
    return Hook(
        **{"event": event, "kind": "command", "command": "x", "origin": origin, "source": f"{origin}.json", **given}
    )


def answer(event: HookEvent, document: dict[str, Any], one: Hook | None = None) -> Hooked:
    return put_together(event, [read_text(event, one or hook(event.name), json.dumps(document))])


# -- files -------------------------------------------------------------------------------------------------


def test_what_is_supported_is_read_without_a_word_and_the_rest_is_named_once() -> None:
    table = {
        "PreToolUse": [
            {
                "matcher": "Write|Edit",
                "hooks": [
                    {
                        "type": "command",
                        "command": "a",
                        "timeout": 5,
                        "onFailure": "block",
                        "statusMessage": "checks",
                        "if": "Edit(*.py)",
                    },
                    {"type": "prompt", "prompt": "ok?", "model": "haiku"},
                    {"type": "mcp_tool", "server": "s", "tool": "t", "input": {"a": "${cwd}"}},
                    {"type": "telepathy"},
                    {"type": "http", "url": "https://a.example", "headers": {"X": "$T"}, "allowedEnvVars": ["T"]},
                ],
            }
        ],
        "FileChanged": [{"hooks": [{"type": "command", "command": "b"}]}],
        "SomethingNew": [],
        "Stop": [{"hooks": [{"type": "command", "command": "c", "args": ["--x"], "async": True, "asyncRewake": True}]}],
    }
    found, faults = read_hooks(table, "user", "s")
    assert [(one.event, one.label, one.seconds) for one in found] == [
        ("PreToolUse", "a", 5.0),
        ("PreToolUse", "ok?", 30.0),
        ("PreToolUse", 's t {"a": "${cwd}"}', 600.0),
        ("PreToolUse", "https://a.example", 600.0),
        ("Stop", "c --x", 600.0),
    ]
    assert [one.required for one in found] == [True, False, False, False, False]
    assert found[-1].listens and found[0].condition == "Edit(*.py)"
    told, no_moment = faults
    assert no_moment == "hooks of `FileChanged` are not run: an agent's folders are fixed, and no one watches files"
    assert "'SomethingNew'" in told and "'telepathy' (PreToolUse)" in told and "'asyncRewake'" in told


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ([], "not a table"),
        ({"Stop": ["x"]}, "`Stop` has an entry"),
        ({"Stop": [{"hooks": [{"type": "command"}]}]}, "its `command` is not text"),
        ({"PreToolUse": [{"matcher": "(", "hooks": []}]}, "the matcher '(' of `PreToolUse` is not a valid pattern"),
        ({"Stop": [{"hooks": [{"command": "x", "timeout": "1"}]}]}, "its `timeout` is '1'"),
        ({"Stop": [{"hooks": [{"type": "http", "url": "file:///x"}]}]}, "is not a URL"),
        ({"SessionEnd": [{"hooks": [{"type": "agent", "prompt": "x"}]}]}, "a model can decide nothing there"),
        ({"Stop": [{"hooks": [{"type": "mcp_tool", "server": "s"}]}]}, "its `tool` is not text"),
        ({"PreTooluse": []}, "did you mean 'PreToolUse'?"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(table: Any, told: str) -> None:
    found, faults = read_hooks(table, "user", "s")
    assert not found and told in " ".join(faults)


@pytest.mark.parametrize(
    ("matcher", "tool", "fits"),
    [
        ("", "Bash", True),
        ("*", "Bash", True),
        ("Write|Edit", "Edit", True),
        ("Write, Edit", "Edit", True),
        ("Edit", "MultiEdit", False),
        ("Task", "Agent", True),
        ("TaskUpdate", "BoardUpdate", True),
        ("Bash", "BashOutput", False),
        ("mcp__.*__write.*", "mcp__memory__write_note", True),
        ("Notebook.*|^W", "Write", True),
    ],
)
def test_a_matcher_is_a_list_of_names_or_a_pattern(matcher: str, tool: str, fits: bool) -> None:
    assert hook(matcher=matcher).matches(*name_tool(tool)) is fits


def test_a_workspaces_hooks_are_trusted_with_the_scripts_that_they_name(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "w"
    for folder in (home, workspace):
        (folder / ".claude").mkdir(parents=True)
        table = {"Stop": [{"hooks": [{"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/check.sh --all'}]}]}
        (folder / ".claude" / "settings.json").write_text(json.dumps({"hooks": table}))
    script = workspace / "check.sh"
    script.write_text("true")
    found = find_hooks(workspace, home)
    assert [one.origin for one in found.holding(trusted=False).hooks] == ["user"]
    assert [one.origin for one in found.holding(trusted=True).hooks] == ["user", "project"]
    # The same entry in both files is run once, as the person's own.
    assert [one.origin for one in found.holding(trusted=True).of("Stop")] == ["user"]
    script.write_text("rm -r /")
    changed = find_hooks(workspace, home).grants
    # The repository's runs in the sandbox, the person's own outside of it: two things to trust.
    assert len(found.grants) == 2 and not set(changed) & set(found.grants)
    (home / ".claude" / "settings.json").write_text('{"disableAllHooks": true}')
    assert not find_hooks(workspace, home).holding(trusted=True).hooks


def test_a_definitions_hooks_are_its_own_and_count_only_where_the_workspace_is_trusted(tmp_path: Path) -> None:
    agents = tmp_path / "w" / ".claude" / "agents"
    agents.mkdir(parents=True)
    front = "name: ada\ndescription: d\nhooks:\n  Stop:\n    - hooks: [{type: command, command: ./done}]"
    (agents / "ada.md").write_text(f"---\n{front}\n---\nWork.")
    unread, read = (load_catalogue(tmp_path / "w", tmp_path, trusted=trusted) for trusted in (False, True))
    assert not unread.get("ada").hooks and not unread.get("ada").warnings
    assert [grant.text for grant in unread.grants] == [f"the hook on Stop: ./done ({UNPINNED})"]
    [done] = read.get("ada").hooks
    table = HookTable(Hooks(), [done], Managed(Hooks()))
    assert [one.command for one in table.choose(HookEvent("SubagentStop", "1", ("ada",)), tmp_path)] == ["./done"]


def test_codexs_hooks_are_read_out_of_its_configuration_too(tmp_path: Path) -> None:
    file = tmp_path / "h/.codex/config.toml"
    file.parent.mkdir(parents=True)
    table = '[[hooks.PreToolUse]]\nmatcher = "Bash"\n[[hooks.PreToolUse.hooks]]\ntype = "command"\ncommand = "guard"\n'
    file.write_text(f"{table}[hooks.state]\nx = 1\n")
    found = find_hooks(tmp_path / "w", tmp_path / "h")
    assert [(one.event, one.matcher, one.command, one.source) for one in found.own] == [
        ("PreToolUse", "Bash", "guard", "~/.codex/config.toml")
    ]
    assert found.problems == ()
    file.write_text(f"{table}[features]\nhooks = false\n")
    assert find_hooks(tmp_path / "w", tmp_path / "h").own == ()


def test_an_operators_file_is_read_whole_or_the_worker_does_not_start(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text('{"hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}, "allowManagedHooksOnly": true}')
    bad.write_text('{"hooks": {"Stopp": []}}')
    managed = read_managed(good)
    assert managed.only and [one.origin for one in managed.hooks.hooks] == ["managed"]
    assert not HookTable(Hooks(hooks=(hook(),)), (), Managed(Hooks(), only=True))
    for path in (bad, tmp_path / "none.json"):
        with pytest.raises(ConfigurationError, match="SWARM_MANAGED_HOOKS"):
            read_managed(path)


def test_a_condition_is_a_rule_about_the_call() -> None:
    table = HookTable(Hooks(hooks=(hook(condition="Bash(git push *)"),)), (), Managed(Hooks()))
    other = {**CALL, "input": {"command": "git status"}}
    hidden = {**CALL, "input": {"command": "true && git push origin"}}
    assert table.choose(BEFORE, Path("/w")) and table.choose(
        HookEvent("PreToolUse", "c", ("Bash",), hidden), Path("/w")
    )
    assert not table.choose(HookEvent("PreToolUse", "c", ("Bash",), other), Path("/w"))


def test_headers_have_only_the_variables_that_may_be_named() -> None:
    assert fill("Bearer $TOKEN ${OTHER}", ("TOKEN",), {"TOKEN": "t", "OTHER": "o"}) == "Bearer t "


# -- answers -----------------------------------------------------------------------------------------------


def test_exit_codes_mean_what_they_mean_elsewhere() -> None:
    refused = put_together(BEFORE, [read_exit(BEFORE, hook(), 2, "", "no force\n", timed_out=False)])
    assert (refused.decision, refused.reason) == ("deny", "no force")
    failed = put_together(BEFORE, [read_exit(BEFORE, hook(), 1, "", "boom", timed_out=False)])
    assert not failed.changed and failed.runs[0].why == "exit code 1: boom"
    late = put_together(BEFORE, [read_exit(BEFORE, hook(), 0, "", "", timed_out=True)])
    assert not late.changed and late.runs[0].outcome == "timed_out"
    start = HookEvent("SessionStart", "1", ("startup",), may_refuse=False)
    assert "on main" in put_together(start, [read_exit(start, hook(), 0, "on main", "", timed_out=False)]).text
    quiet = put_together(BEFORE, [read_exit(BEFORE, hook(), 0, "all is well", "", timed_out=False)])
    assert not quiet.changed


@pytest.mark.parametrize("code", [1, 127, 137])
def test_an_operators_hook_that_fails_has_refused(code: int) -> None:
    for required in (hook(origin="managed"), hook(required=True)):
        said = put_together(BEFORE, [read_exit(BEFORE, required, code, "", "", timed_out=False)])
        assert said.decision == "deny" and "required hook" in said.reason
    assert put_together(BEFORE, [read_text(BEFORE, hook(origin="managed"), "{half")]).decision == "deny"
    allowed = read_exit(BEFORE, hook(origin="managed"), code, '{"decision": "approve"}', "", timed_out=False)
    assert put_together(BEFORE, [allowed]).decision == "deny"


def test_deny_goes_before_ask_and_ask_before_allow() -> None:
    def say(decision: str, origin: Origin = "user") -> HookAnswer:
        own = {"permissionDecision": decision, "permissionDecisionReason": decision}
        return read_text(BEFORE, hook(origin=origin), json.dumps({"hookSpecificOutput": own}))

    def decide(*said: HookAnswer) -> str:
        return put_together(BEFORE, said).decision

    assert decide(say("allow"), say("ask"), say("deny")) == "deny"
    assert decide(say("allow"), say("defer")) == "ask"
    assert decide(say("allow")) == "allow"
    # An agent could change what a repository's hook runs.
    assert decide(say("allow", "project")) == "" and decide(say("deny", "project")) == "deny"
    listening = read_text(BEFORE, hook(listens=True), '{"decision": "block", "reason": "no"}')
    assert decide(listening) == ""


def test_a_changed_input_is_the_operators_before_a_persons_before_a_repositorys() -> None:
    def change(origin: Origin) -> HookAnswer:
        document = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": origin}}}
        return read_text(BEFORE, hook(origin=origin), json.dumps(document))

    assert put_together(BEFORE, [change("managed"), change("project"), change("user")]).input == {"command": "managed"}


def test_what_a_hook_says_of_a_result_is_told_and_may_take_its_place() -> None:
    after = HookEvent("PostToolUse", "c1", ("Bash",), CALL)
    blocked = answer(after, {"decision": "block", "reason": "lint <fails>"})
    assert blocked.decision == "block" and "lint &lt;fails&gt;" in blocked.text
    assert answer(after, {"hookSpecificOutput": {"updatedToolOutput": "less"}}).output == "less"
    assert "more" in answer(after, {"hookSpecificOutput": {"additionalContext": "more"}}).text


def test_continue_false_ends_the_run_but_only_lets_an_end_be_one() -> None:
    assert "enough" in answer(BEFORE, {"continue": False, "stopReason": "enough"}).stop
    stop = answer(HookEvent("Stop", "3"), {"continue": False, "decision": "block", "reason": "go on"})
    assert not stop.stop and not stop.decision and not stop.text


def test_an_end_is_sent_back_only_where_the_agent_can_go_on() -> None:
    blocked = {"decision": "block", "reason": "run the tests"}
    assert "run the tests" in answer(HookEvent("Stop", "3"), blocked).text
    over = answer(HookEvent("Stop", "3", may_refuse=False), blocked)
    assert not over.decision and not over.text


def test_an_answer_that_cannot_be_used_says_nothing_and_why() -> None:
    for document in (
        {"decision": "perhaps"},
        {"hookSpecificOutput": {"hookEventName": "Stop"}},
        {"hookSpecificOutput": {"updatedInput": "x"}},
        {"systemMessage": 3},
    ):
        said = answer(BEFORE, document)
        assert not said.changed and said.runs[0].outcome == "failed", document


def test_a_call_whose_hook_was_cut_off_is_refused_and_anything_else_goes_on() -> None:
    lost = put_together(BEFORE, [interrupt(BEFORE, hook())])
    assert lost.decision == "deny" and "interrupted" in lost.reason
    after = HookEvent("PostToolUse", "c1", ("Bash",), CALL)
    assert not put_together(after, [interrupt(after, hook())]).changed
    stop = HookEvent("Stop", "1")
    assert put_together(stop, [interrupt(stop, hook("Stop", "managed"))]).decision == "block"


@pytest.mark.parametrize(
    ("tool", "given", "text", "shape"),
    [
        ("Bash", {"command": "x"}, "(no output)", {"stdout": "", "stderr": "", "interrupted": False, "isImage": False}),
        (
            "Read",
            {"file_path": "a"},
            "     3\tx\n     4\t",
            {
                "type": "text",
                "file": {"filePath": "a", "content": "x\n", "numLines": 2, "startLine": 3, "totalLines": 4},
            },
        ),
        (
            "Read",
            {"file_path": "a"},
            "     3\tx\n[… more follows; continue with offset=4]",
            {"type": "text", "file": {"filePath": "a", "content": "x", "numLines": 1, "startLine": 3}},
        ),
        (
            "Write",
            {"file_path": "a", "content": "x"},
            "Created a (1 line).",
            {
                **{"filePath": "a", "success": True, "type": "create", "content": "x"},
                **{"structuredPatch": [], "originalFile": None},
            },
        ),
        (
            "Edit",
            {"file_path": "a", "old_string": "x", "new_string": "y"},
            "Changed a",
            {
                **{"filePath": "a", "success": True, "oldString": "x", "newString": "y"},
                **{"replaceAll": False, "userModified": False},
            },
        ),
        ("Glob", {"pattern": "*"}, "a\nb", {"filenames": ["a", "b"], "numFiles": 2, "truncated": False}),
        ("Grep", {"pattern": "x"}, "a", {"mode": "files_with_matches", "filenames": ["a"], "numFiles": 1}),
        (
            "Grep",
            {"pattern": "x"},
            "Nothing matches 'x'.",
            {"mode": "files_with_matches", "filenames": [], "numFiles": 0},
        ),
        (
            "Agent",
            {"prompt": "p", "description": "d"},
            "done",
            {
                **{"status": "completed", "agentId": "b", "prompt": "p", "description": "d"},
                "content": [{"type": "text", "text": "done"}],
            },
        ),
        ("mcp__a__b", {}, "x", [{"type": "text", "text": "x"}]),
    ],
)
def test_a_result_is_told_in_the_shape_that_hooks_expect(
    tool: str, given: dict[str, Any], text: str, shape: Any
) -> None:
    assert describe_response({"name": tool, "input": given}, text, "b") == shape


def test_a_shape_in_a_results_place_is_read_as_the_text_in_it() -> None:
    assert render_output({"stdout": "out\n", "stderr": "err"}) == "out\nerr"
    assert render_output({"type": "text", "file": {"content": "x"}}) == "x"
    assert render_output([{"type": "text", "text": "x"}]) == "x"
    assert render_output({"a": 1}) == '{"a": 1}'


def test_a_models_refusal_means_at_each_event_what_it_means_elsewhere() -> None:
    def rule(event: str, **given: Any) -> Hooked:
        subject = HookEvent(event, "c1", ("Bash",), CALL if event == "PreToolUse" else None)
        asked = hook(event, kind="prompt", prompt="ok?", **given)
        return put_together(subject, [read_ruling(subject, asked, ok=False, reason="no")])

    assert (rule("PreToolUse").decision, rule("PreToolUse").stop) == ("deny", "")
    assert (rule("Stop").decision, rule("Stop").stop) == ("block", "") and "no" in rule("Stop").text
    assert rule("PostToolUse").stop == "a hook ended it: no" and not rule("PostToolUse", goes_on=True).stop
    assert rule("UserPromptSubmit").stop and rule("PostToolBatch").stop


def test_an_input_holds_the_events_fields_and_keeps_their_types() -> None:
    told = {"cwd": "/w", "tool_input": {"paths": ["a"], "n": 1}}
    given = {"a": "${tool_input.paths}", "b": "in ${cwd}: ${tool_input.n}${nothing.here}", "c": [3]}
    assert fill_input(given, told) == {"a": ["a"], "b": "in /w: 1", "c": [3]}


def test_what_a_person_has_trusted_stays_so_as_hooks_get_new_fields() -> None:
    assert set(hook().model_dump()) == {
        *("event", "matcher", "kind", "command", "args", "url", "headers", "variables", "condition", "seconds"),
        *("listens", "origin", "source"),
    }


# -- a life ------------------------------------------------------------------------------------------------


def live(*entries: Entry, parent: str | None = None) -> History:
    spec = AgentSpec(
        agent_id="a",
        job_id="j",
        parent_id=parent,
        depth=1 if parent else 0,
        definition=AgentDefinition(name="ada", description="d", prompt="p"),
        description="d",
        prompt="do it",
        model="m",
        workspace="/w",
    )
    return fold(
        "a",
        [
            Started(spec=spec, tools=[{"name": "Bash"}, {"name": "BoardComplete"}, {"name": "BoardAdd"}]),
            Prompt(text="do it"),
            *entries,
        ],
    )


def reply(*blocks: Any) -> Assistant:
    stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    return Assistant(content=list(blocks), stop_reason=stop, usage=Usage(), model="m")


def due(history: History) -> list[str]:
    stages = find_events(history, next_action(history))
    return [event.id for stage in stages for event in stage if event.id not in history.hooks.done]


def heard(event: str, **given: Any) -> Hooked:
    return Hooked(event=event, name=event.split()[0], runs=[], **given)


TEXT = {"type": "text", "text": "done"}


def test_a_life_is_due_each_event_once_however_often_it_is_asked() -> None:
    assert due(live()) == ["SessionStart 1", "UserPromptSubmit 1"]
    assert due(live(parent="p")) == ["SubagentStart 1"]
    begun = [heard("SessionStart 1"), heard("UserPromptSubmit 1"), reply(CALL)]
    assert due(live(*begun)) == ["PreToolUse c1"]
    ran = [*begun, heard("PreToolUse c1", tool_use_id="c1"), ToolFinished(tool_use_id="c1", text="x")]
    assert due(live(*ran)) == ["PostToolUse c1", "PostToolBatch c1"]
    assert due(live(*ran, heard("PostToolUse c1", tool_use_id="c1"), heard("PostToolBatch c1"))) == []
    assert due(live(*ran, reply(TEXT))) == ["Stop 2", "SessionEnd 1.2"]
    assert due(live(reply(TEXT), parent="p")) == ["SubagentStop 1"]
    resumed = [reply(TEXT), Finished(state="completed", text="done"), Resumed(), Mail(text="more", cursor="1-0")]
    assert due(live(*resumed)) == ["SessionStart 2"]


def test_a_call_that_was_not_run_has_no_event_after_it() -> None:
    history = live(
        reply(CALL), heard("PreToolUse c1"), ToolFinished(tool_use_id="c1", text="Not allowed", is_error=True)
    )
    assert due(history) == []


def test_a_reply_whose_calls_have_all_ended_is_one_event_before_the_next_request() -> None:
    other = {**CALL, "id": "c2"}
    ended = [ToolFinished(tool_use_id="c1", text="x"), ToolFinished(tool_use_id="c2", text="y", is_error=True)]
    after = [heard("PostToolUse c1"), heard("PreToolUse c1"), heard("PreToolUse c2")]
    history = live(reply(CALL, other), *after, ended[0])
    assert due(history) == []
    history.apply(ended[1].model_copy(update={"duration_seconds": 1.0}))
    *_, [batch] = [stage for stage in find_events(history, next_action(history)) if stage]
    assert due(history) == ["PostToolUseFailure c2", "PostToolBatch c2"]
    assert [call["tool_use_id"] for call in batch.given["tool_calls"]] == ["c1", "c2"]


def test_a_question_to_a_person_is_an_event_that_may_answer_it_and_one_that_tells() -> None:
    def before(kind: str, *, in_call: bool = False, to: str | None = None) -> list[str]:
        ask = Ask(kind=kind, tool="Bash", title="Bash ls", detail="", to=to)  # type: ignore[arg-type]
        return [
            f"{event.name} {event.subjects[0]}"
            for stage in before_question(CALL, ask, in_call=in_call)
            for event in stage
        ]

    assert before("permission") == ["PermissionRequest Bash", "Notification permission_prompt"]
    assert before("question") == ["Notification agent_needs_input"]
    assert before("question", in_call=True) == ["Notification elicitation_dialog"]
    assert before("plan", to="lead") == before("event") == []
    request = HookEvent("PermissionRequest", "c1", ("Bash",), CALL)

    def decide(**decision: Any) -> Hooked:
        return answer(request, {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}})

    assert decide(behavior="allow", updatedInput={"command": "ls"}).input == {"command": "ls"}
    ours = '{"hookSpecificOutput": {"decision": {"behavior": "allow", "updatedInput": {"command": "rm"}}}}'
    assert not put_together(request, [read_text(request, hook("PermissionRequest", "project"), ours)]).changed
    refused = decide(behavior="deny", message="no", interrupt=True)
    assert (refused.decision, refused.reason, refused.stop) == ("deny", "no", "a hook ended it: no")
    assert decide(behavior="perhaps").runs[0].outcome == "failed"
    # Where a hook gives no answer, the person is asked: also if it is the operator's, or was interrupted.
    managed = hook("PermissionRequest", "managed")
    for said in (interrupt(request, managed), read_exit(request, managed, 1, "", "", timed_out=False)):
        assert not put_together(request, [said]).decision


def test_a_small_models_denial_is_an_event_that_may_let_the_agent_try_again() -> None:
    denial = Ruled(tool_use_id="c1", answer="deny", reason="it deletes", model="m")
    history = live(reply(CALL), heard("PreToolUse c1"), denial)
    assert due(history) == []
    history.apply(ToolFinished(tool_use_id="c1", text="no", is_error=True, denied="Bash"))
    [event] = [event for stage in find_events(history, next_action(history)) for event in stage]
    assert (event.id, event.given["reason"]) == ("PermissionDenied c1", "it deletes")
    assert "may be made again" in answer(event, {"hookSpecificOutput": {"retry": True}}).text


def test_a_model_that_fails_for_good_is_an_event_in_place_of_the_end() -> None:
    failed = ModelFailed(error="the key is wrong", error_kind="bad_request", permanent=True)
    assert due(live(failed)) == ["StopFailure 0.1", "SessionEnd 1.0"]
    [event, _] = [event for stage in find_events(live(failed), next_action(live(failed))) for event in stage]
    assert (event.subjects, event.given["error_details"]) == (("invalid_request",), "the key is wrong")
    assert not answer(event, {"decision": "block", "reason": "go on"}).decision


def test_a_task_is_completed_after_the_call_itself_was_let_through() -> None:
    call = {**CALL, "name": "BoardComplete", "input": {"task_id": 1}}
    assert due(live(reply(call))) == ["PreToolUse c1", "TaskCompleted c1"]
    call = {**CALL, "name": "BoardAdd", "input": {"subject": "a task"}}
    assert due(live(reply(call))) == ["PreToolUse c1", "TaskCreated c1"]


def test_a_changed_input_is_what_is_run_and_not_what_the_model_reads_of_itself() -> None:
    history = live(reply(CALL), heard("PreToolUse c1", tool_use_id="c1", input={"command": "ls"}))
    assert history.pending["c1"]["input"] == {"command": "ls"}
    assert history.messages[-1]["content"] == [CALL]


def test_what_took_a_results_place_is_all_that_the_model_reads() -> None:
    history = live(
        reply(CALL),
        ToolFinished(tool_use_id="c1", text="long"),
        heard("PostToolUse c1", tool_use_id="c1", output="short", text="said"),
    )
    assert [block.get("content") or block.get("text") for block in history.messages[-1]["content"]] == ["short", "said"]


@pytest.mark.parametrize(
    "said", [{"decision": "block", "reason": "go on"}, {"hookSpecificOutput": {"additionalContext": "go on"}}]
)
@pytest.mark.parametrize("parent", [None, "p"])
def test_an_end_is_sent_back_at_most_eight_times_however_hooks_say_it(said: dict[str, Any], parent: str | None) -> None:
    entries: list[Entry] = []
    for turn in range(1, 10):
        history = live(*entries, reply(TEXT), parent=parent)
        [event] = [each for stage in find_events(history, next_action(history)) for each in stage][:1]
        assert event.given["stop_hook_active"] is (turn > 1)
        entries += [reply(TEXT), answer(event, said)]
        assert isinstance(next_action(live(*entries, parent=parent)), CallModel) is (turn < 9)
    assert isinstance(entries[-1], Hooked) and "sent the agent back 8 times" in entries[-1].said


def test_a_run_that_a_hook_stopped_settles_its_calls_and_fails_with_the_reason() -> None:
    history = live(reply(CALL), heard("PreToolUse c1", tool_use_id="c1", stop="a hook ended it: enough"))
    settled = next_action(history)
    [result] = settled.results  # type: ignore[union-attr]
    history.apply(result)
    end = next_action(history)
    assert isinstance(end, End) and (end.finished.state, end.finished.reason) == ("failed", "a hook ended it: enough")


def test_hooks_that_began_are_known_to_have_until_they_are_heard() -> None:
    begun = HooksBegun(event="PreToolUse c1")
    assert live(reply(CALL), begun).hooks.begun == {"PreToolUse c1"}
    assert not live(reply(CALL), begun, heard("PreToolUse c1")).hooks.begun


def test_a_summary_is_held_to_what_a_hook_said_before_it() -> None:
    history = live(reply(TEXT), heard("PreCompact 1.0", text="keep the ids"))
    assert history.hooks.focus == "keep the ids" and history.messages[-1]["role"] == "assistant"
    [event] = [event for stage in find_events(history, Compact("auto")) for event in stage]
    assert (event.name, event.subjects, event.may_refuse) == ("PreCompact", ("auto",), True)
    [forced] = [event for stage in find_events(history, Compact("overflow")) for event in stage]
    assert not forced.may_refuse
