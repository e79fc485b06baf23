"""Small requests beside an agent's conversation: they take their part of the fleet's share, too, and heed what it has learned."""

from __future__ import annotations

from dataclasses import replace

from swarm.errors import SwarmError
from swarm.models import Limits, Model, ModelRequest, Progress, Reply
from swarm.runtime.segment import Segment
from swarm.runtime.share import end_of
from swarm.store.slots import CallEnd

EXPECTED_OUTPUT = 500
LONGEST_WAIT_SECONDS = 60.0
"""Nobody waits longer for what is beside the work."""


def complete_aside(
    segment: Segment, model: Model, request: ModelRequest, tokens: int, on_progress: Progress | None = None
) -> Reply:
    """Make one attempt, once there is room for about so many tokens of input. Raises as `Model.complete`, and `Interrupted`."""
    limit_class, heard = model.limit_class(request.model), [Limits()]
    wait = segment.store.ask_aside(limit_class, tokens, EXPECTED_OUTPUT)
    if wait > 0:
        segment.stop.event.wait(min(wait, LONGEST_WAIT_SECONDS))
        segment.stop.check()
    call = CallEnd(limit_class, "lost", 0, 0)
    try:
        reply = model.complete(request, on_progress, None, heard.append)
        fresh = reply.usage.input_tokens + reply.usage.cache_creation_input_tokens
        call = CallEnd(limit_class, "ok", fresh, reply.usage.output_tokens, limits=heard[-1])
    except SwarmError as error:
        call = replace(end_of(error, limit_class), limits=heard[-1])
        raise
    finally:
        segment.publish(segment.store.settle_aside(call, tokens, EXPECTED_OUTPUT))
    return reply
