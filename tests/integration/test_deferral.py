"""What a worker loads of the SDK, and that the rest is there when it is asked for.

Tests of swarm/models/deferral.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

_WARM = """
import json, sys
from swarm.core.settings import Settings
from swarm.models.anthropic import preload
preload(Settings())
loaded = [name for name in sys.modules if name.partition(".")[0] == "anthropic"]
"""


def _ask(code: str, **variables: str) -> Any:
    """What a new process that has preloaded prints last, read as JSON."""
    ran = subprocess.run(
        [sys.executable, "-c", _WARM + code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **variables},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.strip().splitlines()[-1])


def test_a_worker_loads_a_third_of_the_sdk_and_none_of_its_resources() -> None:
    parts, count = _ask("print(json.dumps([[name for name in loaded if '.resources' in name], len(loaded)]))")
    assert parts == []
    whole = _ask("import anthropic.lib.vertex; print(len(loaded))", ANTHROPIC_LOG="info")
    assert count < whole / 2


def test_every_gathered_name_is_what_the_package_itself_would_hold() -> None:
    wrong, names = _ask("""
import anthropic.lib.credentials, anthropic.resources.beta, anthropic.types.beta.sessions
wrong = []
names = 0
for module in [module for name, module in sorted(sys.modules.items()) if name.startswith("anthropic")]:
    later = module.__spec__.loader
    if type(module).__name__ == "_UnrunPackage" and "_vendor" not in module.__name__:
        early = {name: getattr(module, name) for name in later.homes}
        later.run(module)
        wrong += [f"{module.__name__}.{name}" for name, found in early.items() if getattr(module, name) is not found]
        names += len(early)
print(json.dumps([wrong, names]))
""")
    assert wrong == []
    assert names > 1_000


def test_what_no_import_names_runs_the_package_as_usual() -> None:
    said = _ask("""
import anthropic
from anthropic import AnthropicBedrock, resources
from anthropic.types import *
client = anthropic.Anthropic(api_key="none")
print(json.dumps([
    AnthropicBedrock.__name__, Message.__name__, type(client.messages).__name__, anthropic.Anthropic.__module__,
    anthropic.__version__ != "", hasattr(anthropic, "no_such_name"),
]))
""")
    assert said == ["AnthropicBedrock", "Message", "Messages", "anthropic", True, False]


def test_a_worker_that_logs_requests_runs_the_sdk_whole() -> None:
    assert _ask("print(json.dumps('anthropic.resources' in loaded))", ANTHROPIC_LOG="info")
