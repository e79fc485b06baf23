"""The options of an evaluation's runs: a variant's over its case's, within the run's part of the budget. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarm.capabilities.evaluations.model import Evaluation, RunPlace
from swarm.replay.resumption import bound_budget

_ISOLATION = "worktree"
"""Each run has a copy of the files, unless its options say otherwise."""


def options_of(evaluation: Evaluation, place: RunPlace) -> dict[str, Any]:
    """Return the options of a run's job, without its prompt. Limits are merged one by one, and the smaller budget holds."""
    variant, case = place.variant, place.case
    own = {"isolation": _ISOLATION, "ask_seconds": 0.0, "title": f"{evaluation.name}: {place.label}"}
    limits = {**_limits_of(case.options), **_limits_of(variant.options)}
    if evaluation.part_usd is not None:
        limits = bound_budget(limits, evaluation.part_usd)
    options = own | case.options | variant.options | {"idempotency_key": place.key, "limits": limits or None}
    return options | {"workspace": variant.workspace or case.workspace}


def _limits_of(options: Mapping[str, Any]) -> Mapping[str, Any]:
    return options.get("limits") or {}
