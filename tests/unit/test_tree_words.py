"""What stands beside an agent in a tree: what it does, and how its own copy of the workspace stands.

Tests of swarm/cli/tree_view.py.
"""

from __future__ import annotations

import pytest

from swarm.cli.tree_view import describe_now
from tests.rows import make_row


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"state": "running", "activity": "Read a"}, "Read a"),
        ({"state": "running", "activity": "Read a", "isolation": "worktree"}, "Read a · in its own copy"),
        ({"state": "completed", "isolation": "worktree"}, "in its own copy"),
        ({"state": "completed", "isolation": "worktree", "merge": "merged"}, "merged"),
        ({"state": "completed", "isolation": "remote", "merge": "conflict"}, "not merged: it conflicts"),
        ({"state": "failed", "reason": "why", "isolation": "worktree", "merge": "kept"}, "failed: why · not merged"),
        ({"state": "queued", "isolation": "worktree", "merge": "merged"}, "in its own copy"),
    ],
)
def test_an_agent_with_a_copy_says_how_that_stands(found: dict[str, str], words: str) -> None:
    assert describe_now(make_row("agent-1", **found), 0) == words
