"""A job's team: new teammates join the job's existing team."""

from __future__ import annotations

from swarm.agent.notes import NO_TEAM, other_team
from swarm.capabilities.team.teams import Teams
from swarm.models import Block
from swarm.runtime.steps import Step


class TeamStep(Step):
    """The team, for an agent that can start others."""

    def refuse_child(self, call: Block) -> str:
        if not (asked := call["input"].get("team_name")):
            return ""
        team = Teams(self.segment.store.keyspace, self.segment.spec.job_id).find()
        if team is None:
            return NO_TEAM
        return "" if team.name == asked else other_team(str(asked), team.name)
