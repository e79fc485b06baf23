"""Grants: what a file that came with a workspace would loosen. It counts only while the person trusts it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict


class Grant(BaseModel):
    """One thing that a file of the workspace would loosen."""

    model_config = ConfigDict(frozen=True)

    text: str
    """What would be granted, whole."""
    source: str
    """The file, as people find it."""
    content: str = ""
    """What the line does not show of it: changed, it is another grant."""

    def storable(self) -> Grant:
        """The same in text that any file can hold: names of files need not be."""
        given = {name: value.encode("utf-8", "backslashreplace").decode() for name, value in self}
        return Grant(**given)


def hash_grants(grants: Iterable[Grant]) -> str:
    """The hash of all that would be granted, whatever its order."""
    document = json.dumps(sorted([grant.source, grant.text, grant.content] for grant in grants))
    return hashlib.sha256(document.encode("utf-8", "backslashreplace")).hexdigest()
