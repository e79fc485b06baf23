"""What `swarm limits` says of a class.

Tests of swarm/capabilities/governor/view.py, swarm/cli/limits.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from swarm.capabilities.governor.view import Bucket, LimitClass
from swarm.cli.limits import describe

ONE = LimitClass(
    name="anthropic/1234/sonnet-5-5",
    knowledge="told",
    buckets={"requests": Bucket(1_000, 970, 12), "input": Bucket(None, None, None), "output": Bucket(400, 388, -5)},
    asking=3,
    window=None,
    window_cause=None,
    held_seconds=0.0,
    held_by=None,
    try_seconds=None,
    waiting={"job-a": 2, "job-b": 1},
    sent=40,
    replies=36,
    limited=0,
    overloaded=1,
)


def test_a_class_shows_what_is_left_who_asks_and_who_waits() -> None:
    assert describe(ONE) == [
        "anthropic/1234/sonnet-5-5   limits stated by the server",
        "  requests  12 left of 970 a minute, 1,000 stated",
        "  input     no limit known",
        "  output    -5 left of 388 a minute, 400 stated",
        "  asking    3 now; 40 requests in all, 1 refused by an overload",
        "  waiting   2 agents of job-a",
        "  waiting   1 agent of job-b",
    ]


def test_a_window_and_a_hold_say_why_they_are_there() -> None:
    def shown(**changes: Any) -> list[str]:
        return describe(replace(ONE, waiting={}, **changes))[5:]

    assert shown(window=16, window_cause="start") == ["  window    16 at once; one more with each reply"]
    assert shown(window=8, window_cause="storm") == ["  window    8 at once; after a storm of overloads"]
    assert shown(held_seconds=9.5, held_by="operator") == ["  held      for 9.5 s, by an operator"]
    tried = shown(held_seconds=600.0, held_by="server", try_seconds=30.0)
    assert tried == ["  held      for 600 s, as the server asked; one request tries in 30 s"]


def test_a_bucket_names_the_ceiling_that_an_operator_has_set() -> None:
    buckets = {**ONE.buckets, "requests": Bucket(None, 60, 7, 60)}
    assert describe(replace(ONE, buckets=buckets))[1] == "  requests  7 left of 60 a minute, 60 set by an operator"
