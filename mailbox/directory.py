"""Names of agents and the receivers of messages.

A name is unique in its job, can be used at once, and is never reused. Agents reach no one outside their job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from swarm.core.errors import BadName
from swarm.mailbox.markup import SPEAKERS

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ID = re.compile(r"(agent|job)-[0-9a-f]{16}")
_MARKS = str.maketrans("", "", "-_.")
_RESERVED = SPEAKERS | {"root", "parent", "lead", "all", "everyone"}


def check_name(name: str) -> str:
    """Return `name` if an agent may bear it. Raises `BadName`."""
    if not _NAME.fullmatch(name) or _ID.fullmatch(name) or _bare(name) in map(_bare, _RESERVED):
        raise BadName(
            f"{name[:80]!r} cannot be an agent's name; use 1 to 64 letters, digits, '-', '_' or '.', "
            f"and none of {', '.join(sorted(_RESERVED))}"
        )
    return name


def _bare(name: str) -> str:
    return name.lower().translate(_MARKS)


@dataclass(frozen=True)
class Receiver:
    """A possible receiver of messages."""

    id: str
    """An agent id, or the job's id for its person."""
    name: str
    """The name, or the id when there is none."""
    state: str
    """The agent's state; empty for the person."""
