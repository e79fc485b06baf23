"""What skills and commands of all the systems are read as, and the words that they become.

Tests of swarm/capabilities/skills/commands.py, swarm/capabilities/skills/model.py, swarm/capabilities/skills/places.py,
swarm/capabilities/skills/reader.py, swarm/capabilities/skills/messages.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarm.capabilities.skills.commands import CommandPlace, call_command
from swarm.capabilities.skills.messages import Arguments, list_skills, render_skill
from swarm.capabilities.skills.model import Package, Skill, Skills
from swarm.capabilities.skills.places import load_skills
from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.definitions.catalogue import Catalogue, check_path
from swarm.definitions.workflow_files import make_definition
from swarm.permissions.rules import Rules
from swarm.runtime.additions import ExpandedPrompt

WILD = {
    ".claude/skills/plain/SKILL.md": "---\nname: plain\ndescription: Does it.\n---\nDo it.",
    ".claude/skills/colon/SKILL.md": "---\nname: colon\ndescription: Use when: a form, or: two\n"
    "allowed-tools: Read, Bash(git:*)\n---\nDo it.",
    ".claude/skills/bare/SKILL.md": "# Bare\n\nNo frontmatter at all.",
    ".claude/skills/Named Oddly/SKILL.md": "---\nname: My Grand Skill!\nversion: 1.0.0\n"
    "license: MIT\ndescription: >\n  Folded\n  text.\n---\nDo it.",
    ".claude/skills/meta/SKILL.md": "---\nname: meta\ndescription: Has more.\nmetadata:\n  author: me\ncompatibility: any\nmodel: sonnet\n"
    "effort: high\ncontext: fork\nagent: Explore\nwhen_to_use: Now.\npaths: ['*.py']\nargument-hint: '[file]'\n---\nDo it.",
    ".claude/skills/odd/SKILL.md": "---\nname: odd\ndescription: Odd.\nmetadata:\n  a: [b\n  c: 'd\n---\nDo it.",
    ".claude/skills/own/SKILL.md": "---\ndescription: For people.\ndisable-model-invocation: true\n---\nDo it.",
    ".claude/skills/quiet/SKILL.md": "---\ndescription: For agents.\nuser-invocable: false\n---\nDo it.",
    ".agents/skills/group/nested/SKILL.md": "---\nname: nested\ndescription: Deeper.\n---\nDo it.",
    ".opencode/skill/oc/SKILL.md": "---\nname: oc\ndescription: OpenCode's.\n---\nDo it.",
    ".codex/skills/cx/SKILL.md": "---\nname: cx\ndescription: Codex's.\n---\nDo it.",
    ".claude/commands/fix.md": "Fix it: $ARGUMENTS",
    ".claude/commands/git/commit.md": "---\nallowed-tools: Bash(git add:*), Bash(git status:*)\n"
    "description: Commits\n---\n!`git status`\nCommit.",
    ".claude/commands/README.md": "About these.",
    ".opencode/command/test.md": "---\ndescription: Tests\nagent: build\nmodel: anthropic/claude-sonnet-4-5\nsubtask: true\n---\nTest $1.",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    for path, text in WILD.items():
        write(folder, path, text)
    return folder


def write(folder: Path, path: str, text: str) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def load(project: Path, *, trusted: bool = False) -> Skills:
    return load_skills(project, project.parent / "home", trusted=trusted)


def test_skills_and_commands_of_the_wild_are_read_without_a_word(project: Path) -> None:
    config = {"command": {"lint": {"template": "Lint $ARGUMENTS", "description": "Lints"}}}
    write(project, "opencode.json", json.dumps(config))
    write(
        project.parent / "home", ".codex/prompts/ship.md", "---\nargument-hint: FILE=<path>\n---\nShip $FILE for $$5."
    )
    found = load(project)
    assert found.problems == [] and not any(one.notes for one in found.skills)
    names = "bare colon cx fix git:commit lint meta My-Grand-Skill nested oc odd own plain prompts:ship quiet test"
    assert sorted(one.name for one in found.skills) == sorted(names.split())
    by_name = {one.name: one for one in found.skills}
    assert by_name["colon"].description == "Use when: a form, or: two"
    assert by_name["bare"].description == "Bare"
    assert by_name["meta"].description == "Has more. Now."
    assert (by_name["meta"].agent, by_name["meta"].apart, by_name["meta"].hint) == ("Explore", True, "[file]")
    assert [one.name for one in found.skills if not one.by_person] == ["quiet"]
    # A command that says what it is for was written for agents, too.
    assert [one.name for one in found.skills if not one.by_model] == ["fix", "own", "prompts:ship"]
    assert found.find("/commit") == by_name["git:commit"]
    package = Package.model_validate_json(found.packages[by_name["prompts:ship"].digest])
    assert Arguments(by_name["prompts:ship"], "FILE=a.py").fill_in(package.body) == "Ship a.py for $."


def test_a_skill_is_found_by_both_names_and_two_of_one_name_both_exist(project: Path) -> None:
    for folder in ("dirn", "other"):
        write(project, f".claude/skills/{folder}/SKILL.md", f"---\nname: shown\ndescription: x\n---\nDo {folder}.")
    found = load(project)
    bodies = {name: found.find(name) for name in ("shown", "dirn", "/DIRN", "other")}
    assert {name: one and one.source for name, one in bodies.items()} == {
        **dict.fromkeys(("shown", "dirn", "/DIRN"), ".claude/skills/dirn/SKILL.md"),
        "other": ".claude/skills/other/SKILL.md",
    }
    # A name of either kind that is the person's own needs trust.
    write(project.parent / "home", ".claude/skills/mine/SKILL.md", "---\nname: dirn\ndescription: x\n---\nMine.")
    assert [one.source for one in (load(project).find("dirn"), load(project, trusted=True).find("shown")) if one] == [
        "~/.claude/skills/mine/SKILL.md",
        ".claude/skills/dirn/SKILL.md",
    ]


def test_opencodes_commands_and_folders_of_skills_are_read_in_both_versions(project: Path) -> None:
    config = {
        "command": {"one": {"template": "1"}},
        "commands": {"two": {"template": "2"}},
        "skills": ["more", "https://x.example"],
    }
    write(project, "opencode.json", json.dumps(config))
    write(project, ".opencode/skill/oc/SKILL.md", "---\ndescription: x\n---\nDo it.")
    for folder, name in (("more", "a"), ("old", "b")):
        write(project, f"{folder}/{name}/SKILL.md", "---\ndescription: x\n---\nDo it.")
    write(project, "opencode.jsonc", json.dumps({"skills": {"paths": ["./old"]}}))
    found = load(project)
    assert found.problems == [] and all(found.find(name) for name in ("one", "two", "a", "b"))


def test_what_cannot_be_used_is_a_problem_of_its_file_alone(project: Path) -> None:
    write(project, ".claude/skills/open/SKILL.md", "---\nname: open\nDo it.")
    write(project, ".claude/skills/empty/SKILL.md", "---\nname: empty\ndescription: x\n---\n")
    write(
        project, ".claude/commands/hooked.md", "---\ndescription: x\nhooks:\n  Stop: []\n  PreToolUse: [1]\n---\nDo it."
    )
    found = load(project)
    assert sorted(Path(problem.path).parent.name for problem in found.problems) == ["empty", "open"]
    assert [one.notes for one in found.skills if one.name == "hooked"] == [["its `hooks` are not run"]]
    assert found.find("plain") is not None


def test_no_link_carries_another_file_of_the_persons_into_a_skill_of_the_project(project: Path) -> None:
    secret = write(project.parent, "secret.md", "---\ndescription: x\n---\nSECRET")
    (project / ".claude/skills/plain/notes.md").symlink_to(secret)
    (project / ".claude/commands/out.md").symlink_to(secret)
    write(project, ".claude/skills/plain/.env", "KEY=1")
    (project / ".claude/skills/plain/big.bin").write_bytes(b"x" * (5 * 1024 * 1024))
    found = load(project)
    assert found.find("out") is None and "link that leads out" in str(found.problems[0])
    package = Package.model_validate_json(found.packages[found.find("plain").digest])  # type: ignore[union-attr]
    assert list(package.files) == ["SKILL.md"]
    assert package.left_out == [
        "big.bin: too large or too many (5,242,880 bytes)",
        "notes.md: a link to a file outside",
    ]


def test_the_nearest_wins_and_who_loses_is_said(project: Path) -> None:
    inner = project / "inner"
    write(inner, ".claude/skills/plain/SKILL.md", "---\ndescription: Nearer.\n---\nDo it.")
    found = load_skills(inner, project.parent / "home")
    assert found.find("plain").description == "Nearer."  # type: ignore[union-attr]
    assert len(found.hidden) == 1 and found.hidden[0][1] == ".claude/skills/plain/SKILL.md"


def test_any_change_of_a_file_is_another_digest(project: Path) -> None:
    before = load(project).find("plain")
    write(project, ".claude/skills/plain/more.md", "more")
    after = load(project).find("plain")
    assert before is not None and after is not None and before.digest != after.digest


def test_the_lines_that_agents_choose_by_have_a_budget() -> None:
    few = [Skill(name=f"s{n}", description="d" * 100, source="x") for n in range(3)]
    assert list_skills(few, 1_000).splitlines() == [f"- s{n}: {'d' * 100}" for n in range(3)]
    assert list_skills([*few, Skill(name="long", description="e" * 3_000, source="x")], 1_000).splitlines()[:3] == (
        list_skills(few, 1_000).splitlines()
    )
    many = [Skill(name=f"skill-{n:04}", description="d" * 1_500, source="x") for n in range(40)]
    for room in (15_000, 5_000, 300):
        listed = list_skills(many, room)
        assert len(listed) <= room + 100 and listed.startswith("- skill-0000")
    assert "and 17 more" in list_skills(many, 300)


@pytest.mark.parametrize(
    ("body", "given", "filled"),
    [
        ("Fix $ARGUMENTS now", "a 'b c'", "Fix a 'b c' now"),
        ("Fix $1, not $2 and $3", "a 'b c'", "Fix a, not b c and "),
        ("Fix $ARGUMENTS[1] of $ARGUMENTS[0]", "a b", "Fix b of a"),
        ("Fix $issue of ${repo}", "12 repo=x/y", "Fix 12 of x/y"),
        ("Fix $HOME", "", "Fix $HOME"),
        ("Fix it", "a", "Fix it\n\nARGUMENTS: a"),
        ("Say $1", "'$2 !`x` its", "Say '$2"),
    ],
)
def test_arguments_come_where_a_text_has_a_place_for_them(body: str, given: str, filled: str) -> None:
    arguments = Arguments(Skill(name="x", source="x", kind="command", arguments=["issue"]), given)
    assert arguments.fill_in(body) + arguments.rest() == filled


def test_in_a_command_for_a_shell_each_argument_is_one_word_whatever_it_holds() -> None:
    arguments = Arguments(Skill(name="x", source="x", kind="command"), "'a; rm -rf /' $(x)")
    assert arguments.fill_in("git log $1 -- $ARGUMENTS", shell=True) == "git log 'a; rm -rf /' -- 'a; rm -rf /' '$(x)'"


def test_code_in_a_skill_keeps_its_own_places_and_what_it_would_have_run_is_said() -> None:
    skill = Skill(name="x", source="x", apart=True, agent="explore")
    told = render_skill(skill, Package(name="x", body="awk '{print $1}' !`git log`"), "")
    assert "awk '{print $1}' !`git log`" in told and "were not run" in told and "of the type explore" in told


def test_definitions_name_skills_as_a_list_or_in_a_line(tmp_path: Path) -> None:
    for given, names in (
        ("[pdf, docx]", ["pdf", "docx"]),
        ("pdf, docx", ["pdf", "docx"]),
        ("", []),
        ("'/pdf'", ["pdf"]),
    ):
        path = write(tmp_path, "a.md", f"---\nname: a\ndescription: b\nskills: {given}\n---\nWork.")
        [definition] = check_path(path).definitions
        assert (definition.skills, definition.warnings) == (names, []), given


def test_a_slash_calls_a_workflow_unless_a_command_has_its_name(project: Path) -> None:
    texts = {name: make_definition("await agent('x')", ".py", name, "x.py") for name in ("audit", "fix")}
    catalogue, skills, place = Catalogue(definitions=texts), load(project), CommandPlace(project, Rules(), Settings())

    def call(prompt: str, agent: str | None = None) -> ExpandedPrompt | None:
        return call_command(prompt, agent, skills, catalogue, place)

    assert call('/audit {"files": ["a"]}') == ExpandedPrompt('{"files": ["a"]}', "audit", None)
    assert call("/audit", "audit") == ExpandedPrompt("{}", "audit", None)
    fixed = call("/fix it")
    assert fixed is not None and fixed.agent is None and "Fix it: it" in fixed.prompt
    assert call("audit it") is None
    with pytest.raises(ConfigurationError, match="audit is a workflow, a type of its own; leave explore out"):
        call("/audit", "explore")
    with pytest.raises(ConfigurationError, match="there is no command /adit"):
        call("/adit")
