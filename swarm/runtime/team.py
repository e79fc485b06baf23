"""The job's team as its lead's tools use it."""

from __future__ import annotations

from collections.abc import Callable

from swarm.agent.spec import AgentSpec
from swarm.errors import TeamRefused, ToolError
from swarm.store.agents import Store
from swarm.store.values import Effect
from swarm.team.teams import Teams

NO_TEAM_TEXT = (
    "There is no team for teammates to join: found one with TeamCreate first, or start an agent without `teammate`."
)


class AgentTeam:
    """The team on behalf of one running agent."""

    def __init__(self, spec: AgentSpec, store: Store, tell: Callable[[Effect | None], None]) -> None:
        self._spec, self._tell = spec, tell
        self._teams = Teams(store, spec.job_id)

    def create_team(self, cause: str, name: str, description: str) -> str:
        """Found the team. Only a job's first agent can: what it starts is below it, and teams do not nest."""
        if self._spec.parent_id is not None:
            raise ToolError("Only the job's first agent can found a team.")
        try:
            self._teams.create(self._spec.agent_id, f"{self._spec.agent_id}/{cause}", name, description)
        except TeamRefused as error:
            raise ToolError(f"Not founded: {error}.") from error
        return f"The team {name} is founded, and you lead it. It has no teammates yet."

    def delete_team(self, cause: str, *, force: bool) -> str:
        """Dissolve it, and say who was stopped."""
        try:
            stopped, effect = self._teams.delete(self._spec.agent_id, f"{self._spec.agent_id}/{cause}", force=force)
        except TeamRefused as error:
            raise ToolError(f"Not dissolved: {error}.") from error
        self._tell(effect)
        return "The team is dissolved. " + (
            f"Stopped: {', '.join(stopped)}." if stopped else "Nobody had to be stopped."
        )
