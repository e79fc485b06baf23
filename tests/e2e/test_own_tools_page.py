"""The tutorial about tools of one's own, followed to the letter.

Tests of docs/own-tools.md, examples/own-tools.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import ROOT, blocks
from tests.fleet import Fleet

EXAMPLE = ROOT / "examples" / "own-tools"


@pytest.mark.long
def test_every_block_of_the_page_does_what_the_page_says(fleet: Fleet) -> None:
    """Files are written where the page puts them, commands are run by a shell, Python by Python, in the page's order."""
    home, installed = fleet.folder / "acme", fleet.folder / "installed"
    package = home / "acme-tools"
    package.mkdir(parents=True)
    for name in ("pyproject.toml", "acme_tools.py"):
        (package / name).write_text((EXAMPLE / name).read_text())
    # Without a network, and into a folder of its own. (0 is how pip is told by a variable not to isolate a build.)
    pip = {"PIP_TARGET": str(installed), "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}
    environment = {
        **fleet.environment(),
        **pip,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)]),
        "ACME_LEDGER": str(fleet.folder / "ledger.db"),
    }
    said: list[str] = []
    for block in blocks(ROOT / "docs/own-tools.md"):
        name, text = block.file, block.text
        match block.language, name:
            case (("toml" | "python"), str(name)) if name:
                assert (package / name).read_text().startswith(text), f"the example's {name} is the page's"
            case _, str(name) if name:
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).write_text(text)
            case "python", _:
                subprocess.run([sys.executable, "-c", text], cwd=home, env=environment, check=True)
            case "sh", _:
                ran = subprocess.run(
                    ["bash", "-ec", text], cwd=home, env=environment, capture_output=True, text=True, timeout=90
                )
                assert ran.returncode == 0, (text, ran.stdout, ran.stderr)
                said.append(ran.stdout)
    looked, used, fleet_said = said
    command = [sys.executable, "-m", "swarm", "tools", "--json"]
    listed = json.loads(subprocess.run(command, cwd=home, env=environment, capture_output=True, check=True).stdout)
    by_name = {each["name"]: each for each in listed}
    assert (by_name["Read"]["source"], by_name["Read"]["effects"]) == ("built in", "none")
    charge = by_name["charge_card"]
    assert (charge["effects"], charge["network"], charge["subject"]) == ("idempotent", True, "account")
    assert charge["input_schema"]["properties"]["cents"]["maximum"] == 100_000 and by_name["count_words"]["sandboxed"]
    assert "acme-tools 1.0 (acme_tools:charge_card)" in looked and "The customer's account" in looked
    assert 'Done: {"account":"acme-7","cents":500,"number":' in used
    assert re.search(r"ok +own tools +charge_card, count_words", fleet_said)
