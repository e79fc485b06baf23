"""What acts for one running agent. Each part is made when it is first used: most segments use few of them."""

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
from swarm.runtime.shared_checkout import keeping_of
from swarm.runtime.side_requests import SideRequests
from swarm.runtime.steps import Step, make_steps
from swarm.runtime.toolbox import Toolbox
from swarm.runtime.workspace_sync import WorkspaceSync
from swarm.store.documents import read_once
from swarm.tools.outputs import Outputs


class Parts:
    """Those of one segment."""

    def __init__(self, segment: Segment, draining: Callable[[], bool] = lambda: False) -> None:
        self.segment, self.draining = segment, draining

    @property
    def model(self) -> Model:
        """What its requests go to."""
        return self.segment.model

    @cached_property
    def steps(self) -> list[Step]:
        """Its capabilities, in the order of their turn."""
        return make_steps(self)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The definitions that travelled with the job. Raises `UnreadableRecord`."""
        store, job_id = self.segment.store, self.segment.spec.job_id
        digest, what = self.segment.claim.definitions, f"the definitions of {job_id}"
        return read_once(Catalogue, digest, lambda _: store.jobs.catalogue(job_id), what)

    @cached_property
    def model_call(self) -> ModelCall:
        """The model, as the agent itself calls it."""
        return ModelCall(self.segment)

    @cached_property
    def consulting(self) -> SideRequests:
        """The model beside its conversation."""
        return SideRequests(self.segment)

    @cached_property
    def outputs(self) -> Outputs:
        """What its conversation has no room for."""
        spec = self.segment.spec
        return Outputs(self.segment.store, self.segment.claim, spec.parent_id if spec.fork is not None else None)

    @cached_property
    def files(self) -> WorkspaceSync:
        """What is done about its files."""
        return keeping_of(self)

    @cached_property
    def isolation(self) -> Isolation:
        """Copies of its workspace."""
        return Isolation(self)

    @cached_property
    def toolbox(self) -> Toolbox:
        """Its tools."""
        return Toolbox(self)

    @cached_property
    def approvals(self) -> Approvals:
        """What decides about its calls."""
        return Approvals(self.segment, self.toolbox, AutoMode(self.segment, self.consulting))

    @cached_property
    def calls(self) -> Calls:
        """What runs its calls."""
        return Calls(self.segment, self.toolbox, self.steps)

    @cached_property
    def commands(self) -> Commands:
        """What runs others' commands in its workspace."""
        return Commands(self.segment, self.toolbox, self.files)

    @cached_property
    def children(self) -> Children:
        """The agents that it starts."""
        return Children(self)

    @cached_property
    def messaging(self) -> Messenger:
        """Its mail."""
        return Messenger(self.segment)

    def refuse_call(self, call: Block) -> str:
        """Why a call may not be made within another one, without somebody being asked; empty if it may."""
        refusals = (step.refuse_call(call) for step in self.steps)
        return self.approvals.refuse(call) or next(filter(None, refusals), "")
