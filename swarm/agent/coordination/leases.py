"""Leases on files: while one writer works on them, no other is started on the same ones. Pure, on paths as the coordinator writes them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

from swarm.agent.coordination.ledger import Order

_GLOB = re.compile(r"[*?\[]")


def find_holder(files: Sequence[str], orders: Iterable[Order]) -> tuple[Order, str] | None:
    """An order that holds one of these files, and the file; None if none does."""
    for order in orders:
        for held in order.files:
            for wanted in files:
                if overlap(wanted, held):
                    return order, wanted
    return None


def overlap(one: str, other: str) -> bool:
    """Whether two paths or patterns may mean the same file; what lies below a folder belongs to it."""
    return _within(one, other) or _within(other, one)


def _within(path: str, folder: str) -> bool:
    below, above = _fixed(path), _fixed(folder)
    return above == "" or below == above or below.startswith(f"{above}/")


def _fixed(pattern: str) -> str:
    """The path, or of a pattern the folder that all it matches lies in; empty for the whole workspace."""
    path = posixpath.normpath(pattern.strip().replace("\\", "/") or ".").lstrip("/")
    parts = path.split("/")
    kept = next((at for at, part in enumerate(parts) if _GLOB.search(part)), len(parts))
    fixed = "/".join(parts[:kept])
    return "" if fixed == "." else fixed
