"""Replace the definitions of a job's agents by a folder's current ones. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swarm.agent.spec import AgentSpec
from swarm.core.errors import ConfigurationError
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.model import AgentDefinition
from swarm.models.catalogue import resolve_model
from swarm.permissions.definition_rules import definition_rules
from swarm.permissions.rules import Rules
from swarm.replay.branch import Moment
from swarm.replay.past import Past

_ORDERED = ("result_schema", "outcome", "effort")
"""Fields that the starter of an agent may have added to its definition."""


def redefine(
    past: Past, moment: Moment, catalogue: Catalogue, *, model: str | None = None, prices_file: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Changed spec fields per agent; agents of removed types, and forks, stay the same.

    `model` overrides the first agent's model. Raises `ConfigurationError` if the first agent's type does not exist.
    """
    made: dict[str, AgentSpec] = {}
    for old in moment.lives:
        spec = AgentSpec.model_validate(past.agents[old].spec)
        definition = catalogue.definitions.get(spec.definition.name)
        if definition is None and old == moment.agent_id:
            known = ", ".join(sorted(catalogue.definitions))
            raise ConfigurationError(
                f"{old} has the type {spec.definition.name!r}, which does not exist here; known types: {known}"
            )
        if definition is not None and spec.fork is None:
            made[old] = _redefined(spec, definition, made.get(past.agents[old].parent), prices_file)
    if model is not None and moment.agent_id in made:
        made[moment.agent_id] = made[moment.agent_id].model_copy(update={"model": model, "fallbacks": ()})
    fields = {"definition", "model", "fallbacks", "rules", "limits"}
    return {old: spec.model_dump(mode="json", include=fields) for old, spec in made.items()}


def _redefined(
    spec: AgentSpec, definition: AgentDefinition, parent: AgentSpec | None, prices_file: Path | None
) -> AgentSpec:
    was = spec.definition
    ordered = {name: getattr(was, name) for name in _ORDERED if getattr(definition, name) is None}
    read_only = definition.read_only or (parent is not None and parent.definition.read_only)
    definition = definition.model_copy(update={**ordered, "read_only": read_only})
    # For an agent that continues alone, limits of its parents cannot be separated from its own.
    above = parent.rules if parent is not None else Rules() if spec.parent_id is None else spec.rules
    update: dict[str, Any] = {"definition": definition, "rules": above + definition_rules(definition)}
    chain = [definition.model, *definition.fallbacks]
    if definition.model and chain != [was.model, *was.fallbacks]:
        inherited = spec.model if parent is None else parent.model
        first, *others = (
            resolve_model(model, default=spec.model, parent=inherited, prices_file=prices_file) for model in chain
        )
        update |= {"model": first, "fallbacks": tuple(others)}
    if definition.max_turns is not None and spec.parent_id is None:
        update["limits"] = spec.limits.model_copy(update={"max_turns": definition.max_turns})
    return spec.model_copy(update=update)
