"""Whether the files of a job's agents are what their journals say: nothing lost, nothing twice, nothing of what was undone.

What a child did is also in the last commit that its parent's journal names, all of it, or the parent was told that it conflicts.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from swarm import AgentView, Job
from swarm.agent.entries import Assistant, ToolFinished
from swarm.agent.notes import UNDONE
from swarm.workspace import histories, remotes
from tests.hosts.network import HostNetwork

_LINE = re.compile(r"echo (\S+) >> (effects\S*\.log)")


@dataclass
class Verdict:
    """What was found; `faults` is empty where every promise held."""

    agents: int = 0
    effects: int = 0
    undone: int = 0
    commits: int = 0
    merged: int = 0
    conflicts: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass
class _History:
    """What an agent's journal says."""

    lines: list[str] = field(default_factory=list)
    file: str = ""
    """Where it wrote them."""
    commit: str = ""
    """The last one named."""
    told: list[str] = field(default_factory=list)
    """Results that tell of a conflict."""


def check_files(network: HostNetwork, job: Job) -> Verdict:
    """Hold each agent's journal against what the hub has of it."""
    verdict, places = Verdict(), list(network.store.path("/srv/hub").glob(f"**/{job.id}.git"))
    if len(places) != 1:
        verdict.faults.append(f"{job.id} has {len(places)} repositories at the hub")
        return verdict
    agents = job.agents()
    lives = {agent.id: _read_history(network, agent.id, places[0], verdict) for agent in agents}
    for agent in agents:
        if agent.parent_id and agent.isolation != "none":
            _check_merged(verdict, places[0], agent, lives[agent.id], lives[agent.parent_id])
    lines = Counter(line for history in lives.values() for line in history.lines)
    verdict.faults += [f"{line} happened {times} times" for line, times in lines.items() if times > 1]
    ran = subprocess.run(["git", "fsck", "--connectivity-only"], cwd=places[0], capture_output=True, text=True)
    if ran.returncode:
        verdict.faults.append(f"the hub's repository is broken: {ran.stderr}")
    return verdict


def _read_history(network: HostNetwork, agent_id: str, repository: Path, verdict: Verdict) -> _History:
    """What the journal says, each of its commits held against the lines that were written up to it."""
    history, calls = _History(), dict[str, str]()
    verdict.agents += 1
    for entry in network.swarm.journal(agent_id):
        history.commit = getattr(entry, "commit", "") or history.commit
        if isinstance(entry, Assistant):
            for block in entry.content:
                if block["type"] == "tool_use" and (found := _LINE.match(block["input"].get("command", ""))):
                    calls[block["id"]], history.file = found.groups()
        elif isinstance(entry, ToolFinished) and entry.tool_use_id in calls:
            if entry.text == UNDONE:
                verdict.undone += 1
                continue
            history.lines.append(calls[entry.tool_use_id])
            _check_commit(verdict, repository, agent_id, history, entry.commit)
        elif isinstance(entry, ToolFinished) and "is NOT merged: it conflicts" in entry.text:
            history.told.append(entry.text)
    return history


def _check_commit(verdict: Verdict, repository: Path, agent_id: str, history: _History, commit: str) -> None:
    verdict.effects += 1
    if not commit:
        verdict.faults.append(f"{agent_id}: no commit holds what {history.lines[-1]} left")
        return
    verdict.commits += 1
    if (held := _read(repository, commit, history.file)) != history.lines:
        verdict.faults.append(f"{agent_id}: {commit} holds {held}, and not {history.lines}")


def _check_merged(verdict: Verdict, repository: Path, agent: AgentView, own: _History, parent: _History) -> None:
    """Find the child's lines in what its parent had at last, or what the parent was told in their place."""
    if not own.lines:
        return
    is_there = set(own.lines) <= set(_read(repository, parent.commit, own.file))
    is_told = any(f"(agent_id {agent.id})" in text for text in parent.told)
    verdict.merged, verdict.conflicts = verdict.merged + is_there, verdict.conflicts + is_told
    if is_there == is_told or agent.merge != ("merged" if is_there else "conflict"):
        found = f"in {parent.commit}: {is_there}, told as a conflict: {is_told}, recorded as {agent.merge!r}"
        verdict.faults.append(f"{agent.id}: what it did is not merged or told of as it should be ({found})")


def _read(repository: Path, commit: str, file: str) -> list[str] | str:
    shown = subprocess.run(["git", "show", f"{commit}:{file}"], cwd=repository, capture_output=True, text=True)
    return shown.stdout.split() if shown.returncode == 0 else shown.stderr.strip()


def find_left(network: HostNetwork) -> list[str]:
    """What of a job that nobody knows any more is left at the hub and on the stations, once they have looked."""
    left = [str(path) for path in network.store.path("/srv/hub").glob("*/*") if path.name != "base.git"]
    for station in network.stations:
        checkouts = station.host.path("/srv/checkouts")
        names = (
            [path for path in checkouts.iterdir() if path.name not in (histories.FOLDER, remotes.FOLDER)]
            if checkouts.is_dir()
            else []
        )
        left += [f"{station.host.name}: {path.name}" for path in names]
    return left
