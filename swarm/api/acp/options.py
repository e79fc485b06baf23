"""The options of a session: the permission mode, the first agent's type and model, the budget. Pure, except `read_choices`.

They are options of the job's order, so they can be chosen until the first message starts the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from swarm.client.failures import BadRequest
from swarm.client.swarm import Swarm
from swarm.core.records import JobView, Limits
from swarm.web.reads import read_start

_BUDGETS = ("none", "1", "5", "25", "100")
_MODES = {
    "plan": ("Plan first", "It only reads, and shows a plan."),
    "default": ("Ask", "It asks before it changes anything."),
    "acceptEdits": ("Edit files", "It edits files of the workspace, and asks about the rest."),
    "auto": ("Auto", "A small model decides in place of most questions."),
    "dontAsk": ("Deny", "Calls that it would ask about are denied."),
    "bypassPermissions": ("Bypass", "It asks nothing; rules that deny still hold."),
}
_CATEGORIES = {"mode": "mode", "model": "model"}
_NAMES = {"mode": "Mode", "agent": "First agent", "model": "Model", "budget": "Budget"}
_DEFAULT = "default"


@dataclass(frozen=True)
class SessionOptions:
    """The values of the options, and the possible ones by option. A job that has begun has fixed values."""

    values: Mapping[str, str]
    choices: Mapping[str, Sequence[tuple[str, str, str]]] = field(repr=False)
    """Value, name and description of each choice."""
    fixed: bool = False

    def set(self, option: str, value: str) -> SessionOptions:
        """Return the options with another value. Raises `BadRequest` for one that cannot be set."""
        if option not in self.values:
            raise BadRequest(f"there is no option {option!r}; there are {', '.join(self.values)}", "configId")
        if value == self.values[option]:
            return self
        if self.fixed:
            raise BadRequest(f"the {option} is fixed since the job began; begin a new session for another one", "value")
        known = [each for each, _, _ in self.choices[option]]
        if value not in known:
            raise BadRequest(f"{value!r} is no {option}; choose one of {', '.join(known)}", "value")
        return replace(self, values={**self.values, option: value})

    def fix(self) -> SessionOptions:
        """Return the options of a job that has begun."""
        return replace(self, fixed=True)

    def order(self) -> dict[str, Any]:
        """Return the options of the order."""
        budget = self.values["budget"]
        return {
            "mode": self.values["mode"],
            "agent": self.values["agent"],
            **({} if self.values["model"] == _DEFAULT else {"model": self.values["model"]}),
            **({} if budget == "none" else {"limits": Limits(budget_usd=float(budget))}),
        }

    def show(self) -> dict[str, Any]:
        """Return the options as an answer has them, also the modes for editors that know no options."""
        modes = self._offered("mode")
        return {
            "configOptions": [self._show_option(option) for option in self.values],
            "modes": {
                "currentModeId": self.values["mode"],
                "availableModes": [{"id": each, "name": name, "description": about} for each, name, about in modes],
            },
        }

    def _show_option(self, option: str) -> dict[str, Any]:
        category = {"category": _CATEGORIES[option]} if option in _CATEGORIES else {}
        offered = [{"value": each, "name": name, "description": about} for each, name, about in self._offered(option)]
        about = {"id": option, "name": _NAMES[option], **category, "type": "select"}
        return {**about, "currentValue": self.values[option], "options": offered}

    def _offered(self, option: str) -> Sequence[tuple[str, str, str]]:
        value = self.values[option]
        if not self.fixed:
            return self.choices[option]
        return [each for each in self.choices[option] if each[0] == value] or [(value, value, "")]


def read_choices(swarm: Swarm, folder: str) -> SessionOptions:
    """Read the options of a new session in a folder. Raises `ConfigurationError` if it cannot be a workspace."""
    found = read_start(swarm, folder)
    return SessionOptions(
        {"mode": found["default_mode"], "agent": found["default_agent"], "model": _DEFAULT, "budget": "none"},
        {
            "mode": [(mode, *_MODES.get(mode, (mode, ""))) for mode in found["modes"]],
            "agent": [(one["name"], one["name"], one["description"]) for one in found["agents"]],
            "model": [
                (_DEFAULT, "Default", found["default_model"] or ""),
                *((model, model.capitalize(), "") for model in found["models"]),
            ],
            "budget": [(each, "No limit" if each == "none" else f"${each}", "") for each in _BUDGETS],
        },
    )


def fixed_options(swarm: Swarm, view: JobView) -> SessionOptions:
    """Read the options of a job that exists."""
    spec, budget = swarm.store.agents.spec(view.root_id), view.limits.budget_usd
    values = {
        "mode": spec.mode,
        "agent": spec.definition.name,
        "model": spec.model,
        "budget": "none" if budget is None else f"{budget:g}",
    }
    return SessionOptions(
        values,
        {"mode": [(mode, *about) for mode, about in _MODES.items()], **dict.fromkeys(("agent", "model", "budget"), ())},
        fixed=True,
    )
