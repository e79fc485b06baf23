"""Agent lives run in this very process against a real Redis: the same loop that a worker's child runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swarm import Job, Limits
from swarm.agent.history import History
from swarm.agent.spec import AgentSpec
from swarm.core.ids import root_agent_id
from swarm.definitions.model import AgentDefinition
from swarm.models import Model
from swarm.runtime.loop import Loop
from swarm.runtime.segment import Outcome
from swarm.store.values import Claim
from swarm.tools import ToolContext
from tests.fleet import Fleet
from tests.segments import make_segment

WIDE = Limits(max_depth=64, max_agents=1_000_000, max_running=100_000, max_turns=100_000)


def submit(fleet: Fleet, url: str, prompt: str, limits: Limits = WIDE, model: str | None = None) -> Job:
    """A job of one general-purpose root, bound by no limit unless some are given."""
    return fleet.swarm.submit(
        prompt, agent="general-purpose", model=model, workspace=fleet.workspace, base_url=url, limits=limits
    )


def claim_root(fleet: Fleet, job: Job) -> Claim:
    """Take the job's root, as a worker would."""
    claim = fleet.swarm.store.agents.claim(root_agent_id(job.id), "bench", 3600.0)
    assert isinstance(claim, Claim), claim
    return claim


def run_segment(fleet: Fleet, claim: Claim, model: Model) -> tuple[Outcome, History]:
    """Run a claimed segment to its outcome."""
    segment = make_segment(claim, fleet.swarm.store, fleet.settings, model)
    return Loop(segment, draining=str).run(), segment.history


class NoOutputs:
    """Nothing that is measured here keeps an output."""

    def keep(self, key: str, text: str) -> str:
        """Not called."""
        raise AssertionError(key)

    def load(self, handle: str) -> str | None:
        """Nothing was kept."""
        return None


def make_context(folder: Path) -> ToolContext:
    """The world of one call of a tool that needs no store and keeps no output."""
    spec = AgentSpec(
        agent_id="agent-1",
        job_id="job-1",
        definition=AgentDefinition(name="x", description="d", prompt="p"),
        description="d",
        prompt="p",
        model="m",
        workspace=str(folder),
    )
    unused: Any = None
    outputs: Any = NoOutputs()
    return ToolContext(spec, unused, lambda signals: None, "call", folder, outputs)
