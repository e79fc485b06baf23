"""What jobs and maps are started with over HTTP."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from swarm.agent.spec import DEFAULT_AGENT, Limits
from swarm.client.acts import start_job, start_map
from swarm.client.maps import MAX_RETRIES
from swarm.client.operations import Body, Folder, Table
from swarm.definitions.model import PermissionMode


class NewWork(Body):
    """What jobs and the lines of maps are ordered with; what the fields mean says `Swarm.submit`."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    prompt: str
    workspace: Folder
    """A folder of the workers' hosts."""
    title: str | None = None
    model: str | None = None
    mode: PermissionMode | None = None
    limits: Limits | None = None
    allow: list[str] = []
    ask: list[str] = []
    deny: list[str] = []
    network: bool = False
    result_schema: dict[str, Any] | None = None
    """A JSON Schema for the answer, which is then in `data`."""
    instruction_files: bool = True
    """Whether its agents are given the instruction files that apply in the workspace."""
    priority: int = Field(default=1, ge=1, le=100)


class NewJob(NewWork):
    """A job to start."""

    agent: str = DEFAULT_AGENT
    ask_seconds: float | None = Field(default=None, ge=0)
    """How long a question to a person can be answered; 0: nobody is there."""
    check: str | None = None
    """A shell command that must exit with 0 before the answer is accepted."""
    rubric: str | None = None
    """Criteria that a grader must find met."""
    tries: int | None = Field(default=None, ge=1, le=20)
    """How often the work may be handed in; default: 3."""
    check_seconds: float | None = Field(default=None, gt=0, le=3_600)
    """The time limit of the check; default: 600."""
    idempotency_key: str | None = None
    """Any text that only this order has: sent again with it, it starts no second job."""
    summaries: bool = False
    """Have a small model tell what agents do, name the job, and sum up its end."""


class NewMap(NewWork):
    """A map to start: in its prompt `{name}` stands for the line, or for that field of a line that is an object."""

    lines: list[str | dict[str, Any]]
    agent: str | None = None
    """Default: `build`; of a patient map `answer`."""
    patient: bool = False
    """Send the lines by the batch API."""
    max_running: int | None = Field(default=None, ge=1)
    """Lines at work at once."""
    retries: int = Field(default=0, ge=0, le=MAX_RETRIES)
    """How often a line that failed is tried again."""
    budget_usd: float | None = Field(default=None, gt=0)
    """Once so much is spent, no further line begins."""


STARTS = Table()
STARTS.post("/jobs", "submit", takes=NewJob, status=201, headers={"Idempotency-Key": "idempotency_key"})(start_job)
STARTS.post("/maps", "submit", takes=NewMap, status=201)(start_map)
