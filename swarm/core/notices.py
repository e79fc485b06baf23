"""A notice of a job for people, and the CloudEvent (1.0) that programs receive. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

_RENAMED = {"question": "question_id", "sort": "kind"}
_NUMBERS = ("expires_at", "share")


class WebhookNotice(BaseModel):
    """One event of a job, in the form that people receive."""

    model_config = ConfigDict(frozen=True)

    type: str
    """`job_ended`, `question` or `budget`, as in the job's events; or `test`, which belongs to no job."""
    job_id: str
    agent_id: str
    seq: int
    at: float
    title: str
    rehearsed: bool
    about: dict[str, Any]

    @property
    def id(self) -> str:
        """The notice's id, the same for every delivery."""
        return f"{self.job_id}/{self.seq}"


def to_cloud_event(notice: WebhookNotice, source: str) -> dict[str, Any]:
    """Build the event; `data` holds the fields of the job's stream of events, and no text of agents."""
    about = {_RENAMED.get(name, name): value for name, value in notice.about.items()}
    about |= {name: float(about[name]) for name in _NUMBERS if name in about}
    return {
        "specversion": "1.0",
        "id": notice.id,
        "source": source,
        "type": f"swarm.{notice.type}.v1",
        "subject": f"{notice.job_id}/{notice.agent_id}",
        "time": datetime.fromtimestamp(notice.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": {
            **notice.model_dump(exclude={"about", "type", "rehearsed"}),
            "type": notice.type,
            "rehearsed": notice.rehearsed,
            **about,
        },
    }
