"""The parts that act for one running agent, each made on first use. Most segments use few."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from swarm.definitions.catalogue import Catalogue
from swarm.models import Block, Model
from swarm.runtime.approvals import Approvals
from swarm.runtime.auto_mode import AutoMode
from swarm.runtime.children import Children
from swarm.runtime.commands import Calls, Commands
from swarm.runtime.isolation import Isolation
from swarm.runtime.messenger import Messenger
from swarm.runtime.model_call import ModelCall
from swarm.runtime.segment import Segment
from swarm.runtime.shared_checkout import sync_of
from swarm.runtime.side_requests import SideRequests
from swarm.runtime.steps import Step, make_steps
from swarm.runtime.toolbox import Toolbox
from swarm.runtime.workspace_sync import WorkspaceSync
from swarm.store.documents import read_once
from swarm.store.values import OutputBounds
from swarm.tools.outputs import Outputs


class Parts:
    """The parts of one segment."""

    def __init__(self, segment: Segment, draining: Callable[[], str] = str) -> None:
        self.segment, self.draining = segment, draining

    @property
    def model(self) -> Model:
        """The model that serves the agent's requests."""
        return self.segment.model

    @cached_property
    def steps(self) -> list[Step]:
        """The agent's capabilities, in the order of their turn."""
        return make_steps(self)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The definitions that travel with the job. Raises `UnreadableRecord`."""
        store, job_id = self.segment.store, self.segment.spec.job_id
        digest, what = self.segment.claim.definitions, f"the definitions of {job_id}"
        return read_once(Catalogue, digest, lambda _: store.jobs.catalogue(job_id), what)

    @cached_property
    def model_call(self) -> ModelCall:
        """Model calls of the conversation."""
        return ModelCall(self.segment)

    @cached_property
    def side_requests(self) -> SideRequests:
        """Model requests beside the conversation."""
        return SideRequests(self.segment)

    @cached_property
    def outputs(self) -> Outputs:
        """Outputs too large for the conversation."""
        spec = self.segment.spec
        settings = self.segment.settings
        bounds = OutputBounds(settings.agent_outputs_mib << 20, settings.job_outputs_mib << 20)
        inherited = spec.parent_id if spec.fork is not None else None
        return Outputs(self.segment.store, self.segment.claim, bounds, inherited)

    @cached_property
    def files(self) -> WorkspaceSync:
        """Synchronization of the agent's files."""
        return sync_of(self)

    @cached_property
    def isolation(self) -> Isolation:
        """Copies of the workspace."""
        return Isolation(self)

    @cached_property
    def toolbox(self) -> Toolbox:
        """The agent's tools."""
        return Toolbox(self)

    @cached_property
    def approvals(self) -> Approvals:
        """Decisions about the agent's calls."""
        return Approvals(self.segment, self.toolbox, AutoMode(self.segment, self.side_requests))

    @cached_property
    def calls(self) -> Calls:
        """Runs the agent's calls."""
        return Calls(self.segment, self.toolbox, self.steps)

    @cached_property
    def commands(self) -> Commands:
        """Runs others' commands in the agent's workspace."""
        return Commands(self.segment, self.toolbox, self.files)

    @cached_property
    def children(self) -> Children:
        """Children that the agent starts."""
        return Children(self)

    @cached_property
    def messenger(self) -> Messenger:
        """The agent's mail."""
        return Messenger(self.segment)

    def refuse_call(self, call: Block) -> str:
        """Explain why a call may not be made within another one without a question; empty if it may."""
        refusals = (step.refuse_call(call) for step in self.steps)
        return self.approvals.refuse(call) or next(filter(None, refusals), "")
