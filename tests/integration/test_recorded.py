"""Recordings of real requests: made by workers, rehearsed, and read byte for byte by today's adapters; over real HTTP.

Tests of swarm/models/recording.py, swarm/rehearsal/recorded.py.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from swarm.agent.entries import Assistant
from swarm.cli.app import app
from swarm.core.errors import ConfigurationError, ModelError
from swarm.core.settings import Settings
from swarm.models import ModelRequest
from swarm.models.router import AnyModel
from swarm.rehearsal.recorded import read_recording
from tests.fleet import Fleet
from tests.gateway import Events, Quirk, gateway_of
from tests.recorded import HERE, READ, read_now
from tests.rehearsal import RehearsalServer, load_scenario, parse_scenario

SECRET = "sk-ant-" + "a1B2" * 12
KEPT = sorted(path.parent for path in HERE.glob(f"*/{READ}"))


@pytest.fixture
def server() -> Iterator[RehearsalServer]:
    rules = f"""
name: odd
faults:
  - {{kind: 429, times: 1, retry_after: 3}}
  - {{kind: cut, after: 1, times: 1}}
rules:
  - when: {{prompt: Say the key}}
    reply: {{text: 'the key is {SECRET}'}}
  - when: {{turn: 0}}
    reply: {{thinking: hm, text: looking, tools: [{{name: Read, input: {{file_path: a.txt}}}}]}}
"""
    with closing(RehearsalServer(parse_scenario(rules))) as server:
        server.start()
        yield server


def ask(model: AnyModel, name: str, text: str) -> None:
    said = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    model.complete(ModelRequest(model=name, system=f"Your key is {SECRET}.", messages=said, tools=[]))


def letter_by_letter(events: Events) -> Events:
    """Spread each text over events, as servers do: no event holds a whole secret."""
    made: Events = []
    for event in events:
        text = event.get("delta", {}).get("text", "")
        made += [event | {"delta": event["delta"] | {"text": letter}} for letter in text] if text else [event]
    return made


def test_what_workers_ask_of_a_server_is_rehearsed_and_read_again(fleet: Fleet, tmp_path: Path) -> None:
    (fleet.workspace / "page.txt").write_text("a page\n")
    server = fleet.rehearse(f"""
name: first
faults: [{{kind: 529, times: 1, retry_after: 0.1}}]
rules:
  - when: {{prompt: '^find', turn: 0}}
    reply: {{thinking: where, tools: [{{name: Read, input: {{file_path: {fleet.workspace}/page.txt}}}}]}}
  - when: {{prompt: '^find'}}
    reply: {{text: found it}}
  - when: {{turn: 0}}
    reply:
      tools:
        - {{name: Agent, input: {{description: one, prompt: find one}}}}
        - {{name: Agent, input: {{description: two, prompt: find two}}}}
  - reply: {{text: both found}}
""")
    folder = tmp_path / "recording"
    worker = fleet.start_worker(2, SWARM_BASE_URL=server.url, SWARM_RECORD=str(folder))
    real = fleet.swarm.submit("Find both.", agent="general-purpose", workspace=fleet.workspace)
    assert real.wait(60).text == "both found"
    worker.kill()  # in the middle of its work, as far as the recording knows
    stats = server.stats()
    assert sum(one.converses for one in read_recording(folder)) == stats["requests"] == 7
    printed = CliRunner().invoke(app, ["rehearse", str(folder), "--print"]).output
    assert "kind: '529'" in printed and "{workspace}/page.txt" in printed and str(fleet.workspace) not in printed

    again = fleet.rehearse(load_scenario(folder).name and str(folder))
    fleet.start_worker(2)
    job = fleet.submit("Find both.", again)
    assert job.wait(60).text == "both found"
    assert again.stats()["unmatched"] == [] and again.stats()["by_status"] == stats["by_status"]
    told = [[one.content[-1].get("text") for one in _replies(fleet, each.id)] for each in job.agents()]
    assert sorted(map(str, told)) == sorted(map(str, [[None, "both found"], [None, "found it"], [None, "found it"]]))


def _replies(fleet: Fleet, agent_id: str) -> list[Assistant]:
    return [entry for entry in fleet.swarm.journal(agent_id) if isinstance(entry, Assistant)]


def test_a_recording_holds_no_secret_and_reads_as_it_was_read(server: RehearsalServer, tmp_path: Path) -> None:
    folder, key = tmp_path / "recording", "sk-of-the-account"
    os.environ["ANTHROPIC_API_KEY"] = os.environ["OURS_KEY"] = key
    try:
        with gateway_of(server.url, Quirk("letters", change=letter_by_letter)) as gateway:
            vendors = {"ours": f"{server.url}/v1 OURS_KEY", "more": f"{server.url}/v1 OURS_KEY responses"}
            with closing(AnyModel(Settings(base_url=gateway.url, record=folder, vendors=vendors))) as model:
                for name in ("claude-haiku-4-5", "ours:m-1", "more:m-1"):
                    for prompt in ("Look.", "Say the key."):
                        for _ in range(2):
                            try:
                                ask(model, name, prompt)
                            except ModelError:
                                continue
    finally:
        del os.environ["ANTHROPIC_API_KEY"], os.environ["OURS_KEY"]
    (file,) = folder.iterdir()
    text = file.read_text()
    assert SECRET not in text and key not in text and file.stat().st_mode & 0o777 == 0o600
    exchanges = read_recording(folder)
    assert [one.status for one in exchanges] == [429, *[200] * 11]
    hidden = [one for one in exchanges if one.body is None]
    assert [one.blocks[-1]["text"] for one in hidden] == ["the key is [a secret was here]"] * 6
    read = read_now(folder)
    assert read[0]["error"] == "rate_limit" and read[1]["error"] == "cut"
    assert [one["content"][-1]["name"] for one in read[2:]] == ["Read"] * 4
    # A process that dies may cut its last line off.
    file.write_text(text + '{"exchange": {"beg')
    assert len(read_recording(folder)) == 12
    file.write_text("{}\n" + text)
    with pytest.raises(ConfigurationError, match="line 1: no line of a recording"):
        read_recording(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(ConfigurationError, match="holds no recording"):
        read_recording(folder)


def test_a_folder_that_cannot_be_written_disturbs_no_request(server: RehearsalServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = Settings(base_url=server.url, record=tmp_path / "file" / "below")
    with closing(AnyModel(settings)) as model:
        for expected in ("rate_limit", "cut"):
            with pytest.raises(ModelError) as caught:
                ask(model, "claude-haiku-4-5", "Look.")
            assert caught.value.kind == expected
        ask(model, "claude-haiku-4-5", "Look.")


@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.name)
def test_kept_recordings_are_read_as_before(folder: Path) -> None:
    """`python -m tests.recorded --accept NAME` accepts another reading."""
    assert read_now(folder) == json.loads((folder / READ).read_text())
