"""What `swarm limits` says of a class.

Tests of swarm/capabilities/governor/view.py, swarm/cli/limits.py.
"""

from __future__ import annotations

from swarm.capabilities.governor.view import Bucket, LimitClass
from swarm.cli.limits import describe

ONE = LimitClass(
    name="anthropic/1234/sonnet-5-5",
    knowledge="told",
    buckets={"requests": Bucket(1_000, 970, 12), "input": Bucket(None, None, None), "output": Bucket(400, 388, -5)},
    asking=3,
    window=None,
    held_seconds=0.0,
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
