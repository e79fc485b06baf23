"""A job's variables: read with its order, and given to the processes that its agents start."""

from __future__ import annotations

from pydantic import ConfigDict

from swarm.core.formats import Formatted
from swarm.permissions.preferences import load_preferences
from swarm.runtime.additions import OrderPart
from swarm.runtime.steps import Step
from swarm.tools import ToolContext


class Variables(Formatted):
    """The document that travels with a job."""

    model_config = ConfigDict(frozen=True)

    values: dict[str, str] = {}


class VariablesOfOrder(OrderPart):
    """The variables of one order."""

    def document(self) -> Variables | None:
        """The variables, if there are any."""
        place = self.place
        values = load_preferences(place.folder, place.home, trusted=place.trusted).variables
        return Variables(values=values) if values else None


class VariablesStep(Step):
    """The variables of one running agent."""

    def equip(self, context: ToolContext) -> None:
        carried = self.segment.carried("variables", Variables, "the variables")
        context.environment.update(carried.values if carried is not None else {})
