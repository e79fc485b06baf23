"""A job's team in Redis: its lead, and the guarantee of one team at a time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from swarm.core.errors import BadName, TeamRefused
from swarm.mailbox import check_name
from swarm.store.keyspace import Keyspace
from swarm.store.values import NOT_LIVE, Signals

MAX_DESCRIPTION_CHARACTERS = 1_000


@dataclass(frozen=True)
class Team:
    """The current team. Its members are the teammates that its lead has started."""

    name: str
    description: str
    lead: str
    created: float


class Teams:
    """The team of one job, if it has one. Repeating a cause returns the first answer and changes nothing."""

    def __init__(self, keyspace: Keyspace, job_id: str) -> None:
        self._keyspace, self._job_id = keyspace, job_id

    def find(self) -> Team | None:
        """The job's team."""
        record = self._keyspace.client.hgetall(self._keyspace.key("job", self._job_id, "team"))
        known = {field: record[field] for field in ("name", "description", "lead") if field in record}
        return Team(**known, created=float(record["created"])) if record else None

    def create(self, agent_id: str, cause: str, name: str, description: str) -> None:
        """Found the job's team with the agent as its lead. Raises `TeamRefused`."""
        try:
            check_name(name)
        except BadName as error:
            raise TeamRefused(str(error).replace("an agent's name", "a team's name")) from error
        if len(description) > MAX_DESCRIPTION_CHARACTERS:
            raise TeamRefused(f"the description has more than {MAX_DESCRIPTION_CHARACTERS:,} characters")
        description = description.encode("utf-8", "replace").decode()
        self._step("create", agent_id, cause, {"name": name, "description": description})

    def delete(self, agent_id: str, cause: str, *, force: bool = False) -> tuple[list[str], Signals]:
        """Dissolve the team: stop idle teammates, with `force` also those at work. Returns the names of the stopped.

        Raises `TeamRefused`.
        """
        said, effect = self._step("delete", agent_id, cause, {"force": force, "reason": "its team was dissolved"})
        return [name for name in said["stopped"].split(", ") if name], effect

    def _step(self, operation: str, agent_id: str, cause: str, given: dict[str, Any]) -> tuple[dict[str, Any], Signals]:
        request = json.dumps({"agent": agent_id, "cause": f"team/{cause}", **given})
        publish, kill = [], []
        while (answer := self._keyspace.run("team", self._job_id, operation, request))[0] == "more":
            publish += answer[1]
            kill += answer[2]
        match answer:
            case ["ok", published, said, killed]:
                return json.loads(said), Signals([*publish, *published], [*kill, *killed])
            case [_, why, about]:
                raise TeamRefused(_describe_refusal(why, json.loads(about)))
        raise AssertionError(f"unknown answer of team.lua: {answer}")


def _describe_refusal(why: str, about: dict[str, Any]) -> str:
    match why:
        case "exists":
            lead = about.get("lead", "you")
            return f"the job has a team already, {about['name']}, led by {lead}: a job has one team at a time"
        case "missing":
            return "the job has no team"
        case "led":
            return f"the team {about['name']} is led by {about['lead']}, not by you"
        case "busy":
            busy = ", ".join(about["names"]) + (" is" if len(about["names"]) == 1 else " are")
            return f"{busy} still at work: request a shutdown first, or stop them with force"
    return NOT_LIVE
