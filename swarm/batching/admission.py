"""What may go by a batch: one request, and nothing that may need another one. Pure.

A conversation would get dearer there, for it loses what it reads from the prompt cache.
"""

from __future__ import annotations

from swarm.definitions.model import AgentDefinition
from swarm.errors import ConfigurationError


def refuse_more_turns(definition: AgentDefinition, provider: str, *, summaries: bool, copies: bool) -> None:
    """Raise `ConfigurationError` for what may take more than one request, or cannot be had as a batch."""
    if provider != "anthropic":
        raise ConfigurationError(f"provider {provider} has no batches; leave --patient away")
    wants = {
        "has tools (its `tools` must be an empty list)": definition.tools != [],
        "is a program": bool(definition.command),
        "remembers": definition.memory is not None,
        "has work that is checked or graded": definition.outcome is not None,
        "is told of in summaries": summaries,
        "works on copies of files": copies,
    }
    if found := [what for what, holds in wants.items() if holds]:
        raise ConfigurationError(
            f"only what takes one request can go by a batch, and {definition.name!r} {' and '.join(found)}; "
            "leave --patient away, or take a type of agent that only answers, as `answer` does"
        )
