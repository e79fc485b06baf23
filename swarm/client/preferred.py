"""Applies the choices of settings files to an order: models, effort, and the first agent. Pure."""

from __future__ import annotations

import re

from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.definitions.catalogue import Catalogue
from swarm.definitions.sources import Problem
from swarm.definitions.tools import all_rows
from swarm.models.catalogue import ModelTable, load_models
from swarm.permissions.preferences import Preferences
from swarm.permissions.rules import Rule, Rules

_SOURCE = "`availableModels` of settings"


def is_available(model: str, preferences: Preferences) -> bool:
    """Report whether settings allow a model, by its id or its family: `opus` allows each opus."""
    named = model.casefold()
    forms = {named, *named.split("-"), re.sub(r"-20\d{6}$", "", named)}
    return all(forms.intersection(models) for models in preferences.models)


def apply_preferences(catalogue: Catalogue, preferences: Preferences, table: ModelTable) -> Catalogue:
    """Give types without effort and model the chosen effort, and the parent's model to types whose own is not available."""
    if not preferences.effort and not preferences.models:
        return catalogue
    definitions = {}
    for name, one in catalogue.definitions.items():
        own, update = one.model or "inherit", {}
        if own == "inherit" and one.effort is None and preferences.effort:
            update["effort"] = preferences.effort
        if own != "inherit" and not is_available(table.aliases.get(own.lower(), own), preferences):
            update["model"] = "inherit"
        definitions[name] = one.model_copy(update=update)
    return catalogue.model_copy(update={"definitions": definitions})


def limit_calls(preferences: Preferences, table: ModelTable) -> Rules:
    """Return rules that deny calls which name a model that is not available."""
    aliases = {alias: model for alias, model in table.aliases.items() if not is_available(model, preferences)}
    models = [model for model in table.models if not is_available(model, preferences)]
    specs = [
        *aliases,
        *(form for model in models for form in (f"*{model}", f"*{model}[@:]*", f"*{model}-20*", f"*{model}-v*")),
    ]
    starts = next(row.name for row in all_rows() if row.matching == "type")
    return Rules(rules=tuple(Rule(action="deny", tool=starts, spec=f"model:{spec}", source=_SOURCE) for spec in specs))


def drop_unusable(preferences: Preferences, catalogue: Catalogue) -> Preferences:
    """Report a chosen first agent that no job can start with, and go without it."""
    known = catalogue.find_name(preferences.agent)
    if not preferences.agent or (known is not None and catalogue.definitions[known].may_be_first):
        return preferences
    problem = Problem(
        path="settings files",
        message=f"no job can start with {preferences.agent!r}, the chosen agent",
        remedy="`swarm agents` lists the types.",
    )
    return preferences.model_copy(update={"agent": "", "problems": (*preferences.problems, problem)})


def find_default(settings: Settings, preferences: Preferences) -> str:
    """Return the model of first agents that name none: of SWARM_MODEL, else the chosen one, or the first that settings allow."""
    table = load_models(settings.prices_file)
    wanted = settings.model if "model" in settings.model_fields_set else preferences.model or settings.model
    resolved = table.aliases.get(wanted.lower(), wanted)
    known = [*table.aliases.values(), *table.models]
    return next((one for one in (resolved, *known) if is_available(one, preferences)), resolved)


def require_available(model: str, preferences: Preferences) -> str:
    """Return the model of a first agent. Raises `ConfigurationError` if settings do not allow it."""
    if is_available(model, preferences):
        return model
    known = "; ".join(", ".join(models) for models in preferences.models)
    raise ConfigurationError(f"the model {model} is not among {_SOURCE} ({known}); choose one with --model")
