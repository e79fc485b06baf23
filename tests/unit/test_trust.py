"""Trust: what came with a workspace grants nothing until its person trusted exactly that.

Tests of swarm/cli/compat.py, swarm/client/project.py, swarm/definitions/catalogue.py, swarm/definitions/grants.py,
swarm/permissions/trust.py.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from swarm.agent.spec import Limits
from swarm.cli.compat import show_compat
from swarm.cli.trust import hold_unguarded, trust
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.client.project import gather, is_trusted
from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.definitions.catalogue import load_catalogue
from swarm.definitions.grants import Grant, hash_grants
from swarm.definitions.mcp.servers import JobServers
from swarm.permissions.trust import MAX_KEPT, TrustStore

BUILD = "---\nname: {name}\ndescription: d\n---\n{prompt}\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()
    folder = tmp_path / "w"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path / "state")


# -- the store -------------------------------------------------------------------------------------------------


def test_trust_is_of_one_folder_and_of_exactly_what_was_shown(tmp_path: Path) -> None:
    store, grant = TrustStore(tmp_path / "state"), Grant(text="allow Bash", source="a.json")
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    store.trust(one, [grant])
    (tmp_path / "link").symlink_to(one)
    assert TrustStore(tmp_path / "state").is_trusted(tmp_path / "link", [grant])
    assert not store.is_trusted(other, [grant])
    for changed in (
        [],
        [grant, grant.model_copy(update={"text": "allow Edit"})],
        [Grant(text="allow Bash", source="b.json")],
    ):
        assert not store.is_trusted(one, changed)
    assert not store.is_trusted(one, [grant.model_copy(update={"content": "another prompt"})])


def test_going_back_to_what_was_trusted_before_asks_nothing_until_it_is_revoked(tmp_path: Path) -> None:
    store = TrustStore(tmp_path)
    grants = [[Grant(text=f"allow {n}", source="a")] for n in range(MAX_KEPT + 1)]
    for one in grants:
        store.trust(tmp_path, one)
    assert not store.is_trusted(tmp_path, grants[0]) and all(store.is_trusted(tmp_path, one) for one in grants[1:])
    assert store.revoke(tmp_path) and not store.revoke(tmp_path)
    assert not store.is_trusted(tmp_path, grants[-1])


def test_the_file_is_the_persons_alone_and_a_broken_one_is_named(tmp_path: Path) -> None:
    store = TrustStore(tmp_path / "state")
    store.trust(tmp_path, [])
    assert stat.S_IMODE((tmp_path / "state" / "trust.json").stat().st_mode) == 0o600
    (tmp_path / "state" / "trust.json").write_text("{")
    with pytest.raises(ConfigurationError, match=r"trust\.json cannot be read: .*Remove it"):
        store.is_trusted(tmp_path, [])


def test_what_was_trusted_last_is_kept_to_show_what_has_changed(tmp_path: Path) -> None:
    store = TrustStore(tmp_path / "state")
    one, two = Grant(text="allow \udc80", source="a", content="x"), Grant(text="allow Bash", source="a")
    assert store.last(tmp_path) == []
    store.trust(tmp_path, [one])
    store.trust(tmp_path, [one, two])
    assert [grant.text for grant in store.last(tmp_path)] == ["allow \\udc80", "allow Bash"]
    assert store.is_trusted(tmp_path, [one, two]) and store.is_trusted(tmp_path, [one])
    store.revoke(tmp_path)
    assert store.last(tmp_path) == []


def test_the_hash_does_not_depend_on_the_order_and_takes_any_text() -> None:
    grants = [Grant(text="allow \udc80", source="a"), Grant(text="b", source="\0")]
    assert hash_grants(grants) == hash_grants(grants[::-1]) != hash_grants(grants[:1])


# -- definitions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".claude/agents/build.md", BUILD.format(name="build", prompt="evil")),
        (".claude/agents/x.md", BUILD.format(name="Explore", prompt="evil")),
        (".swarm/agents/plan.md", BUILD.format(name="plan", prompt="evil")),
        (".opencode/agent/build.md", "---\ndescription: d\n---\nevil"),
        (".codex/config.toml", '[agents.plan]\ndescription = "d"\ndeveloper_instructions = "evil"\n'),
        ("opencode.json", '{"agent": {"build": {"prompt": "evil"}}}'),
        (".claude/agents/mine.md", BUILD.format(name="mine", prompt="evil")),
    ],
)
def test_no_file_of_the_workspace_takes_the_place_of_a_shipped_or_own_agent(
    workspace: Path, name: str, text: str
) -> None:
    write(Path.home() / ".claude/agents/mine.md", BUILD.format(name="mine", prompt="my own"))
    before = load_catalogue(workspace)
    write(workspace / name, text)
    catalogue = load_catalogue(workspace)
    assert catalogue.definitions == before.definitions
    [grant] = catalogue.grants
    assert name in grant.source and "in place of" in grant.text
    trusted = load_catalogue(workspace, trusted=True)
    assert trusted.grants == catalogue.grants
    assert any("evil" in definition.prompt for definition in trusted.definitions.values())


def test_a_changed_prompt_is_another_grant_and_a_new_name_is_none(workspace: Path) -> None:
    write(workspace / ".claude/agents/deploy.md", BUILD.format(name="deploy", prompt="deploy it"))
    assert load_catalogue(workspace).grants == [] and "deploy" in load_catalogue(workspace).definitions
    write(workspace / ".claude/agents/build.md", BUILD.format(name="build", prompt="one"))
    first = load_catalogue(workspace).grants
    write(workspace / ".claude/agents/build.md", BUILD.format(name="build", prompt="another one"))
    assert hash_grants(first) != hash_grants(load_catalogue(workspace).grants)


# -- orders ----------------------------------------------------------------------------------------------------


def test_an_order_tells_what_was_ignored_and_how_to_grant_it(workspace: Path, settings: Settings) -> None:
    write(
        workspace / ".claude/settings.local.json",
        '{"permissions": {"defaultMode": "bypassPermissions", "allow": ["Bash"]}}',
    )
    write(workspace / ".claude/agents/build.md", BUILD.format(name="build", prompt="evil"))
    order = Order("go", workspace=workspace)
    prepared = prepare_order(order, settings)
    assert prepared.spec.mode == "acceptEdits" and prepared.spec.definition.source == "shipped"
    assert not [rule for rule in prepared.rules.rules if rule.action == "allow"]
    [warning] = prepared.warnings
    assert warning.startswith("3 grants in files of this workspace are ignored (")
    assert f"swarm trust {workspace}" in warning and ".claude/settings.local.json" in warning
    TrustStore(settings.state_folder()).trust(workspace, gather(workspace, settings).grants)
    assert is_trusted(workspace, settings)
    prepared = prepare_order(order, settings)
    assert prepared.spec.mode == "bypassPermissions" and "evil" in prepared.spec.definition.prompt
    assert prepared.warnings == []
    write(workspace / ".mcp.json", "{}")
    assert is_trusted(workspace, settings), "a file that grants nothing changes nothing"
    write(workspace / ".swarm/settings.json", '{"permissions": {"allow": ["WebFetch"]}}')
    assert not is_trusted(workspace, settings) and prepare_order(order, settings).spec.mode == "acceptEdits"


def test_a_server_of_the_workspace_travels_with_a_job_once_it_was_approved_as_it_is(
    workspace: Path, settings: Settings
) -> None:
    def pinned() -> list[tuple[str, tuple[str, ...]]]:
        document = prepare_order(Order("go", workspace=workspace), settings).documents.get("servers", "{}")
        return [(server.name, server.args) for server in JobServers.model_validate_json(document).servers]

    entry = {"command": "files", "args": ["${ROOT}"], "default_tools_approval_mode": "prompt"}
    write(workspace / ".mcp.json", json.dumps({"mcpServers": {"files": entry}}))
    assert pinned() == [] and "ignored (.mcp.json)" in prepare_order(Order("go", workspace=workspace), settings).ignored
    TrustStore(settings.state_folder()).trust(workspace, gather(workspace, settings).grants)
    assert pinned() == [("files", ("${ROOT}",))]
    rules = prepare_order(Order("go", workspace=workspace), settings).rules.rules
    assert [(rule.action, rule.text) for rule in rules] == [("ask", "mcp__files__*")]
    write(workspace / ".mcp.json", json.dumps({"mcpServers": {"files": {**entry, "args": ["/"]}}}))
    assert pinned() == []


def test_a_workspace_without_such_files_has_nothing_to_trust(workspace: Path, settings: Settings) -> None:
    write(workspace / ".claude/settings.json", '{"permissions": {"deny": ["Bash(rm:*)"], "defaultMode": "plan"}}')
    prepared = prepare_order(Order("go", workspace=workspace), settings)
    assert prepared.grants == [] and prepared.warnings == [] and prepared.spec.mode == "plan"
    assert not (settings.state_folder() / "trust.json").exists()


def test_a_configuration_of_codex_bounds_the_depth_that_nobody_chose(workspace: Path, settings: Settings) -> None:
    write(workspace / ".codex/config.toml", "[agents]\nmax_depth = 1\n")
    assert prepare_order(Order("go", workspace=workspace), settings).spec.limits.max_depth == 1
    assert (
        prepare_order(Order("go", workspace=workspace, limits=Limits(max_depth=3)), settings).spec.limits.max_depth == 3
    )
    write(workspace / ".codex/config.toml", "[agents]\nmax_depth = 9\n")
    assert prepare_order(Order("go", workspace=workspace), settings).spec.limits.max_depth == Limits().max_depth


def test_a_new_type_is_there_at_once_and_a_name_can_be_switched_off_at_once(workspace: Path) -> None:
    write(workspace / ".claude/agents/deploy.md", BUILD.format(name="deploy", prompt="deploy it"))
    write(workspace / "opencode.json", '{"agent": {"explore": {"disable": true}}}')
    catalogue = load_catalogue(workspace)
    assert "deploy" in catalogue.definitions and "explore" not in catalogue.definitions and catalogue.grants == []


def test_a_definition_adds_nothing_to_what_the_job_allows(workspace: Path, settings: Settings) -> None:
    write(
        workspace / ".claude/agents/wild.md",
        "---\nname: wild\ndescription: d\npermissionMode: bypassPermissions\nnetwork: true\n"
        "permission: {bash: allow, edit: allow}\n---\nWork.\n",
    )
    prepared = prepare_order(Order("go", agent="wild", workspace=workspace), settings)
    assert (prepared.spec.mode, prepared.spec.network, prepared.spec.rules.rules) == ("acceptEdits", False, ())


# -- restrictions that do not hold here --------------------------------------------------------------------------


def test_a_job_waits_for_leave_to_start_without_a_restriction_and_the_leave_is_for_this_content(
    workspace: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_STATE_DIR", str(settings.state_dir))
    file = workspace / ".claude/settings.json"

    def hold() -> None:
        hold_unguarded(prepare_order(Order(prompt="x", workspace=workspace), settings), None, settings)

    for restricting in (
        '"deniedModels": ["haiku"]',
        '"sandbox": {"network": {}}',
        '"permissions": {"deny": ["Read(!x)"]}',
    ):
        write(file, f"{{{restricting}}}")
        with pytest.raises(ConfigurationError, match="1 restriction in settings files cannot be applied here"):
            hold()
        trust(workspace)
        hold()
    for harmless in (
        '"sandbox": {"enabled": true}',
        '"statusLine": {"type": "x"}',
        '"permissions": {"allow": ["Read(!x)"]}',
    ):
        write(file, f"{{{harmless}}}")
        hold()


def test_each_key_of_each_file_has_a_fate(
    workspace: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWARM_STATE_DIR", str(settings.state_dir))
    write(workspace / ".claude/settings.json", '{"permissions": {}, "deniedModels": ["x"], "brandNew": 1}')
    write(workspace / "opencode.json", '{"tools": {"write": false}, "theme": "dark"}')
    write(workspace.parent / "home/.codex/config.toml", 'sandbox_mode = "read-only"')
    show_compat(workspace, as_json=True)
    told = {f"{one['place']} {one['name']}": one for one in json.loads(capsys.readouterr().out) if one["kind"] == "key"}
    assert {name: (one["fate"], one["guards"]) for name, one in told.items()} == {
        "~/.codex/config.toml sandbox_mode": ("applied differently", False),
        ".claude/settings.json permissions": ("applied", False),
        ".claude/settings.json deniedModels": ("not applied", True),
        ".claude/settings.json brandNew": ("not applied", False),
        "opencode.json tools": ("applied differently", False),
        "opencode.json theme": ("not applied", False),
    }
    assert told[".claude/settings.json brandNew"]["told"] == "unknown here"
