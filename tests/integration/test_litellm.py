"""A job through LiteLLM's own proxy: sub-agents, tools, thinking and the prompt cache. The proxy is named by SWARM_TEST_LITELLM.

Tests of swarm/models/profiles.py.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from swarm import Limits
from swarm.store.spending import ModelStore
from tests.fleet import Fleet
from tests.waiting import wait_for

PROXY = os.environ.get("SWARM_TEST_LITELLM", "")
SCENARIO = """
name: behind a proxy
rules:
  - when: {definition: explore, turn: 0}
    reply: {thinking: look, tools: [{name: Read, input: {file_path: page.txt}}, {name: Read, input: {file_path: page.txt}}]}
  - when: {definition: explore}
    reply: {text: found it}
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: look, prompt: Look at the page, subagent_type: explore}}]}
  - reply: {text: "said: {last_result}"}
"""


@contextmanager
def proxy_of(upstream: str, key: str, folder: Path) -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    behind = {"model": "anthropic/*", "api_base": upstream, "api_key": "rehearsal"}
    config = folder / "litellm.json"
    config.write_text(json.dumps({"model_list": [{"model_name": "*", "litellm_params": behind}]}))
    env = {**os.environ, "HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": key}
    log = folder / "litellm.log"
    with log.open("wb") as told:
        process = subprocess.Popen(
            [PROXY, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)],
            env=env,
            stdout=told,
            stderr=subprocess.STDOUT,
        )

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=2):
            return True
        return False

    try:
        wait_for("the proxy answers", answers, 180)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.long
@pytest.mark.skipif(not PROXY, reason="SWARM_TEST_LITELLM names no `litellm`")
def test_a_tree_works_through_the_proxy_and_its_cache(fleet: Fleet, tmp_path: Path) -> None:
    key = f"sk-{secrets.token_hex(24)}"
    with proxy_of(fleet.rehearse(SCENARIO).url, key, tmp_path) as url:
        fleet.start_worker(SWARM_BASE_URL=url, SWARM_SERVER="litellm", ANTHROPIC_API_KEY=key)
        (fleet.workspace / "page.txt").write_text("a page\n")
        ended = fleet.swarm.submit("Read.", workspace=fleet.workspace, limits=Limits(max_depth=1)).wait(120)
    assert ended.state == "completed" and "found it" in ended.text, ended.reason
    assert ended.usage.cache_read_input_tokens > 0 and ended.usage.cache_creation_input_tokens > 0
    assert ModelStore(fleet.swarm.store.keyspace).all_facts() == {}, "it refuses nothing"
