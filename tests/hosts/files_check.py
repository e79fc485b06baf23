"""Whether the files of a job's agents are what their journals say: nothing lost, nothing twice, nothing of what was undone."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from swarm import Job
from swarm.agent.entries import Assistant, ToolFinished
from swarm.agent.notes import UNDONE
from tests.hosts.network import HostNetwork

_LINE = re.compile(r"echo (\S+) >> effects\.log")


@dataclass
class Verdict:
    """What was found; `faults` is empty where every promise held."""

    agents: int = 0
    effects: int = 0
    undone: int = 0
    commits: int = 0
    faults: list[str] = field(default_factory=list)


def check_files(network: HostNetwork, job: Job) -> Verdict:
    """Hold each agent's journal against what the hub has of it."""
    verdict, places = Verdict(), list(network.store.path("/srv/hub").glob(f"**/{job.id}.git"))
    if len(places) != 1:
        verdict.faults.append(f"{job.id} has {len(places)} repositories at the hub")
        return verdict
    lines: Counter[str] = Counter()
    for agent in job.agents():
        verdict.agents += 1
        expected: list[str] = []
        calls: dict[str, str] = {}
        for entry in network.swarm.journal(agent.id):
            if isinstance(entry, Assistant):
                blocks = [block for block in entry.content if block["type"] == "tool_use" and block["name"] == "Bash"]
                calls |= {
                    block["id"]: found[1] for block in blocks if (found := _LINE.match(block["input"]["command"]))
                }
            elif isinstance(entry, ToolFinished) and entry.tool_use_id in calls:
                if entry.text == UNDONE:
                    verdict.undone += 1
                    continue
                expected.append(calls[entry.tool_use_id])
                verdict.effects += 1
                if not entry.commit:
                    verdict.faults.append(f"{agent.id}: no commit holds what {expected[-1]} left")
                    continue
                verdict.commits += 1
                held = _read(places[0], entry.commit)
                if held != expected:
                    verdict.faults.append(f"{agent.id}: {entry.commit} holds {held}, and not {expected}")
        lines.update(expected)
    verdict.faults += [f"{line} happened {times} times" for line, times in lines.items() if times > 1]
    ran = subprocess.run(["git", "fsck", "--connectivity-only"], cwd=places[0], capture_output=True, text=True)
    if ran.returncode:
        verdict.faults.append(f"the hub's repository is broken: {ran.stderr}")
    return verdict


def _read(repository: Path, commit: str) -> list[str] | str:
    shown = subprocess.run(["git", "show", f"{commit}:effects.log"], cwd=repository, capture_output=True, text=True)
    return shown.stdout.split() if shown.returncode == 0 else shown.stderr.strip()


def find_left(network: HostNetwork) -> list[str]:
    """What of a job that nobody knows any more is left at the hub and on the stations, once they have looked."""
    left = [str(path) for path in network.store.path("/srv/hub").glob("*/*") if path.name != "base.git"]
    for station in network.stations:
        checkouts = station.host.path("/srv/checkouts")
        names = [path for path in checkouts.iterdir() if path.name != "cleaning.lock"] if checkouts.is_dir() else []
        left += [f"{station.host.name}: {path.name}" for path in names]
    return left
