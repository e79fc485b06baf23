"""How soon the same model request is worth making again after a transient failure: a pure function.

When the fleet may ask at all is the governor's to say: it holds everybody back after a 429, and opens slowly after a storm of overloads.
This is for what one request met.
"""

from __future__ import annotations

from swarm.errors import TransientModelError

CAP_SECONDS = 60.0
OVERLOADED_CAP_SECONDS = 8.0
"""Of a server that is overloaded: the governor opens slowly, and nobody should sleep on when it does."""
_FIRST_SECONDS = 0.5
_MAX_DOUBLINGS = 16  # far above the cap; keeps 2**n from overflowing after a day of failures


def backoff_seconds(attempt: int, error: TransientModelError, random: float) -> float:
    """Seconds to wait after failure number `attempt` (0 is the first), given a `random` in [0, 1).

    After a 429 none: the governor knows when there is room. The server's own wish wins otherwise: never sooner, and up to a tenth later.
    Without one the wait doubles up to a cap, and is taken in [0.5, 1] of that.
    """
    if error.kind == "rate_limit":
        return 0.0
    if error.retry_after_seconds is not None:
        return error.retry_after_seconds * (1.0 + 0.1 * random)
    cap = OVERLOADED_CAP_SECONDS if error.kind == "overloaded" else CAP_SECONDS
    first = 1.0 if error.kind == "overloaded" else _FIRST_SECONDS
    ceiling: float = min(cap, first * 2 ** min(max(attempt, 0), _MAX_DOUBLINGS))
    return ceiling * (0.5 + 0.5 * random)
