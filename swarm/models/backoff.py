"""How long to wait before the next attempt at a model request: a pure function, asked after each transient failure."""

from __future__ import annotations

from swarm.errors import TransientModelError

CAP_SECONDS = 60.0
_GROWTH = 1.5

_FIRST_SECONDS = {"rate_limit": 5.0, "overloaded": 2.0}
_DEFAULT_FIRST_SECONDS = 0.5
_MAX_DOUBLINGS = 16  # far above the cap; keeps 2**n from overflowing after a day of failures


def backoff_seconds(attempt: int, error: TransientModelError, random: float) -> float:
    """Seconds to wait after failure number `attempt` (0 is the first), given a `random` in [0, 1).

    The server's own wish wins: never sooner, and up to a tenth later, so that a fleet does not return as one. Whoever it
    refuses again and again comes back later still, by up to `CAP_SECONDS`: many who share one limit spread out.
    Otherwise the wait doubles from a start that depends on the kind of failure, up to `CAP_SECONDS`, and is taken
    in [0.5, 1] of that.
    """
    if error.retry_after_seconds is not None:
        wish = error.retry_after_seconds
        later = wish * (_GROWTH ** min(max(attempt, 0), _MAX_DOUBLINGS) - 1.0)
        return wish * (1.0 + 0.1 * random) + min(CAP_SECONDS, later) * random
    first = _FIRST_SECONDS.get(error.kind, _DEFAULT_FIRST_SECONDS)
    ceiling: float = min(CAP_SECONDS, first * 2 ** min(max(attempt, 0), _MAX_DOUBLINGS))
    return ceiling * (0.5 + 0.5 * random)
