"""Grants: permissions that a file of a workspace asks for. They hold only while the person trusts the workspace."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict


class Grant(BaseModel):
    """One permission that a file of the workspace asks for."""

    model_config = ConfigDict(frozen=True)

    text: str
    """The permission in full, for people."""
    source: str
    """The file's path, as shown to people."""
    content: str = ""
    """Details that `text` does not show; a change here makes a different grant."""

    def storable(self) -> Grant:
        """Return a copy that UTF-8 can encode, because file names need not be valid text."""
        given = {name: value.encode("utf-8", "backslashreplace").decode() for name, value in self}
        return Grant(**given)


def hash_grants(grants: Iterable[Grant]) -> str:
    """Return the SHA-256 of all grants, independent of their order."""
    document = json.dumps(sorted([grant.source, grant.text, grant.content] for grant in grants))
    return hashlib.sha256(document.encode("utf-8", "backslashreplace")).hexdigest()
