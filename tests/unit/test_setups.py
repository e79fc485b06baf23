"""The setup of a workspace: in whose files it is found, what it amounts to, and that it must be trusted.

Tests of swarm/client/project.py, swarm/definitions/setups.py, swarm/permissions/trust.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.client.project import gather, is_trusted
from swarm.core.settings import Settings
from swarm.definitions.setups import MAX_COMMAND_BYTES, Setup, read_setup
from swarm.permissions.trust import TrustStore

SWARM, CODEX = ".swarm/setup", ".codex/environments/environment.toml"
CURSOR, CONTAINER = ".cursor/environment.json", ".devcontainer/devcontainer.json"


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        (SWARM, "#!/bin/bash -e\nnpm ci\n", "#!/bin/bash -e\nnpm ci"),
        (CODEX, 'version = 1\n[setup]\nscript = """\nnpm ci\nmake\n"""\n', "npm ci\nmake"),
        (CURSOR, '{"install": "npm ci" /* all of it */,}', "npm ci"),
        (CONTAINER, '{"image": "x", "postCreateCommand": "npm ci"}', "npm ci"),
        (CONTAINER, '{"postCreateCommand": ["npm", "ci", "a b"]}', "npm ci 'a b'"),
    ],
)
def test_each_format_is_read(tmp_path: Path, name: str, text: str, command: str) -> None:
    write(tmp_path, name, text)
    assert read_setup(tmp_path) == (Setup(command=command, source=name), [])


def test_named_commands_are_one_that_ends_with_the_first_failure(tmp_path: Path) -> None:
    write(
        tmp_path,
        CONTAINER,
        '{"postCreateCommand": {"a": "echo one # first", "b": ["echo", "two"], "c": "false"}}',
    )
    setup, _ = read_setup(tmp_path)
    assert setup is not None and setup.command == "(\necho one # first\n) &&\n(\necho two\n) &&\n(\nfalse\n)"


def test_the_first_file_that_has_one_is_taken(tmp_path: Path) -> None:
    write(tmp_path, CONTAINER, '{"postCreateCommand": "last"}')
    write(tmp_path, CURSOR, '{"terminals": []}')
    assert read_setup(tmp_path) == (Setup(command="last", source=CONTAINER), [])
    write(tmp_path, SWARM, "first")
    assert read_setup(tmp_path) == (Setup(command="first", source=SWARM), [])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (SWARM, "x" * (MAX_COMMAND_BYTES + 1), "16 KiB"),
        (SWARM, "a\0b", "null character"),
        (CODEX, "[setup", "TOML"),
        (CURSOR, '{"install": 7}', "`install` is 7"),
        (CURSOR, '{"install": "\\ud800"}', "not text"),
        (CONTAINER, '{"postCreateCommand": {"a": 1}}', "postCreateCommand"),
    ],
)
def test_what_cannot_be_used_is_said_and_nothing_else_is_taken(tmp_path: Path, name: str, text: str, said: str) -> None:
    write(tmp_path, name, text)
    if name != CONTAINER:
        write(tmp_path, CONTAINER, '{"postCreateCommand": "other"}')
    setup, [problem] = read_setup(tmp_path)
    assert setup is None and said in str(problem) and name in problem.path


def test_a_link_brings_no_other_file_of_the_person_along(tmp_path: Path) -> None:
    write(tmp_path, "secret", "my key")
    (tmp_path / "w/.swarm").mkdir(parents=True)
    (tmp_path / "w" / SWARM).symlink_to(tmp_path / "secret")
    setup, [problem] = read_setup(tmp_path / "w")
    assert setup is None and "outside" in str(problem) and "my key" not in str(problem)


def test_a_script_names_its_program_and_a_shells_knows_its_name() -> None:
    assert Setup(command="npm ci", source=SWARM).program == []
    assert Setup(command="#!/usr/bin/python3 -I\nx", source=SWARM).program == ["/usr/bin/python3", "-I", "/dev/fd/20"]
    script = "#!/usr/bin/env bash -e\necho"
    assert Setup(command=script, source=SWARM).program == ["/usr/bin/env", "bash", "-e", "-c", script, SWARM]


def test_it_travels_with_the_job_only_while_exactly_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()
    workspace, settings = tmp_path / "w", Settings(state_dir=tmp_path / "state", hub=str(tmp_path / "hub"))
    write(workspace, SWARM, "npm ci")
    order = Order(prompt="x", workspace=workspace)
    prepared = prepare_order(order, settings)
    assert prepared.spec.files is not None and prepared.spec.files.setup is None
    assert SWARM in prepared.ignored and prepared.ignored in prepared.warnings
    TrustStore(settings.state_folder()).trust(workspace, gather(workspace, settings).grants)
    files = prepare_order(order, settings).spec.files
    assert files is not None and files.setup == Setup(command="npm ci", source=SWARM)
    write(workspace, SWARM, "npm ci; curl evil")
    assert not is_trusted(workspace, settings)
    without = settings.model_copy(update={"hub": None})
    assert gather(workspace, without).grants == [] and not prepare_order(order, without).warnings, (
        "no checkouts are made"
    )
