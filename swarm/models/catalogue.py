"""The known models: aliases, prices and sizes, from a dated table that users may override.

The shipped table is `prices.yaml`. `prices_file` (the setting of that name) overrides single fields of its rows and
adds rows and aliases. Each file is read once per process, on first use.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, Field, ValidationError

from swarm.core.errors import ConfigurationError
from swarm.core.usage import Charge
from swarm.models import Usage

DEFAULT_CONTEXT_WINDOW = 200_000
DEFAULT_MAX_OUTPUT = 64_000
DEFAULT_LEAST_CACHED = 4_096

_SHIPPED = Path(__file__).with_name("prices.yaml")
_TOKENS_PER_PRICE = 1_000_000

_BASE_ID = re.compile(r"(?:.*[./])?(claude-[a-z]+(?:-\d{1,2})+)(?:[-@]\d{8})?(?:-v\d+)?(?::\d+)?(?:@default)?$")
"""Finds a row's id in the ids of snapshots, Bedrock and Vertex.

Examples: `…-20261001`, `us.anthropic.…-v1:0`, `…@20261001`."""


class Rates(BaseModel, frozen=True, extra="forbid"):
    """US dollars per million tokens, in the API's token classes."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    write_5m: float = Field(ge=0)
    """Written to the cache for five minutes: the duration that the adapter requests."""
    write_1h: float = Field(ge=0)
    read: float = Field(ge=0)


class Tier(Rates):
    """Dearer rates for a whole request whose prompt exceeds `prompt_tokens`."""

    prompt_tokens: int = Field(gt=0)


class Price(Rates):
    """A row of the table: what one model costs and holds."""

    context_window: int = Field(default=DEFAULT_CONTEXT_WINDOW, gt=0)
    max_output: int = Field(default=DEFAULT_MAX_OUTPUT, gt=0)
    least_cached: int = Field(default=1_024, ge=0)
    """The shortest prefix that the prompt cache holds, in tokens."""
    above: Tier | None = None

    def rates_for(self, prompt_tokens: int) -> Rates:
        """The rates for a request whose whole prompt, cached tokens included, has so many tokens."""
        return self.above if self.above is not None and prompt_tokens > self.above.prompt_tokens else self


@dataclass(frozen=True)
class ModelTable:
    """The table, whole and checked."""

    dated: date
    aliases: Mapping[str, str]
    models: Mapping[str, Price]


def load_models(prices_file: Path | None = None) -> ModelTable:
    """The shipped table overlaid with the rows of `prices_file`. Raises `ConfigurationError`."""
    return _load(prices_file.expanduser().absolute() if prices_file is not None else None)


def resolve_model(name: str | None, *, default: str, parent: str | None, prices_file: Path | None = None) -> str:
    """Return the full id of the model that a definition or a call names.

    None takes `default`; `inherit` takes `parent`, or `default` for a root. Aliases and ids of the table resolve.
    Any other text that looks like an id passes through to the server.
    """
    catalogue = load_models(prices_file)
    asked = (name or "").strip()
    if asked.lower() == "inherit":
        asked = parent or ""
    return _resolve(asked or default.strip(), catalogue)


def price_of(model: str, *, prices_file: Path | None = None) -> Price | None:
    """The model's row, also for ids of snapshots, Bedrock and Vertex; None if unknown."""
    models = load_models(prices_file).models
    if model in models:
        return models[model]
    found = _BASE_ID.match(model)
    return models.get(found.group(1)) if found else None


def row_name(model: str, *, prices_file: Path | None = None) -> str:
    """The name of the model's row, so that ids of snapshots, Bedrock and Vertex compare; the id itself if it has no row."""
    models = load_models(prices_file).models
    found = _BASE_ID.match(model) if model not in models else None
    return found.group(1) if found and found.group(1) in models else model


def charge_for(
    model: str, usage: Usage, *, instead: str = "", estimated: Usage | None = None, prices_file: Path | None = None
) -> Charge:
    """The charge of one request; `estimated` is the estimated part of its usage.

    Without a known price of the model, that of the model `instead` holds.
    """
    price = price_of(model, prices_file=prices_file) or (
        price_of(instead, prices_file=prices_file) if instead else None
    )
    if price is None:
        return Charge(usage=usage, unpriced_tokens=usage.total_tokens, model=model)
    rates = price.rates_for(usage.total_tokens - usage.output_tokens)
    guessed = _dollars(rates, estimated) if estimated is not None else 0.0
    return Charge(usage=usage, cost_usd=_dollars(rates, usage), estimated_usd=guessed, model=model)


def cost_usd(model: str, usage: Usage, *, prices_file: Path | None = None) -> float | None:
    """The cost of one request; None when the model's price is unknown.

    Pass the usage of a single request: a sum of several could reach a tier that none of them reached.
    """
    known = price_of(model, prices_file=prices_file) is not None
    return charge_for(model, usage, prices_file=prices_file).cost_usd if known else None


def _dollars(rates: Rates, usage: Usage) -> float:
    dollars = (
        usage.input_tokens * rates.input
        + usage.output_tokens * rates.output
        + usage.cache_creation_input_tokens * rates.write_5m
        + usage.cache_read_input_tokens * rates.read
    )
    return dollars / _TOKENS_PER_PRICE


def context_tokens(model: str, *, prices_file: Path | None = None) -> int:
    """The most tokens that a request and its reply may have together."""
    price = price_of(model, prices_file=prices_file)
    return price.context_window if price is not None else DEFAULT_CONTEXT_WINDOW


def max_output(model: str, *, prices_file: Path | None = None) -> int:
    """The most tokens that one reply may have."""
    price = price_of(model, prices_file=prices_file)
    return price.max_output if price is not None else DEFAULT_MAX_OUTPUT


def least_cached(model: str, *, prices_file: Path | None = None) -> int:
    """The shortest prefix that the prompt cache holds, in tokens.

    For an unknown model, the largest such minimum.
    """
    price = price_of(model, prices_file=prices_file)
    return price.least_cached if price is not None else DEFAULT_LEAST_CACHED


def describe_aliases(prices_file: Path | None = None) -> str:
    """The aliases as text for messages: `haiku (claude-…), sonnet (claude-…)`."""
    return ", ".join(f"{alias} ({full})" for alias, full in sorted(load_models(prices_file).aliases.items()))


def _resolve(asked: str, catalogue: ModelTable) -> str:
    alias = catalogue.aliases.get(asked.lower())
    if alias is not None:
        return alias
    # Ids have a digit or a separator. A bare word that is no alias is a slip, better caught here than by a 404.
    if asked in catalogue.models or re.search(r"[\d\-./:@]", asked):
        return asked
    close = difflib.get_close_matches(asked.lower(), catalogue.aliases, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    known = ", ".join(sorted(catalogue.aliases))
    raise ConfigurationError(f"unknown model {asked!r}: {hint}Use {known}, inherit, or a full model id")


@lru_cache(maxsize=16)
def _load(prices_file: Path | None) -> ModelTable:
    table = _read_table(_SHIPPED)
    aliases: dict[str, Any] = dict(table.get("aliases") or {})
    rows: dict[str, dict[str, Any]] = dict(table["models"])
    source = _SHIPPED
    if prices_file is not None:
        override, source = _read_table(prices_file), prices_file
        aliases |= _section(override, "aliases", prices_file)
        for model, row in _section(override, "models", prices_file).items():
            if not isinstance(row, dict):
                raise ConfigurationError(
                    f"{prices_file}: models.{model} must be a mapping such as {{input: 2, output: 10}}"
                )
            rows[str(model)] = rows.get(str(model), {}) | row
    for alias, target in aliases.items():
        if not isinstance(target, str) or not target:
            raise ConfigurationError(f"{source}: aliases.{alias} must be a model id, not {target!r}")
    return ModelTable(
        dated=table["dated"],
        aliases={str(alias).lower(): target for alias, target in aliases.items()},
        models={model: _check_row(model, row, source) for model, row in rows.items()},
    )


def _read_table(path: Path) -> dict[str, Any]:
    try:
        table = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the prices file {path}: {error.strerror}. Correct prices_file"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the prices file {path} is not YAML: {' '.join(str(error).split())}") from error
    if table is None:
        return {}
    if not isinstance(table, dict):
        raise ConfigurationError(f"the prices file {path} must be a mapping with `models:` or `aliases:`")
    unknown = set(table) - {"dated", "aliases", "models"}
    if unknown:
        names = ", ".join(sorted(str(key) for key in unknown))
        raise ConfigurationError(
            f"the prices file {path} has unknown keys: {names}. It may have dated, aliases, models"
        )
    return table


def _section(table: dict[str, Any], key: str, path: Path) -> dict[Any, Any]:
    section = table.get(key) or {}
    if not isinstance(section, dict):
        raise ConfigurationError(f"{path}: `{key}` must be a mapping")
    return section


def _check_row(model: str, row: dict[str, Any], source: Path) -> Price:
    try:
        return Price.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{source}: models.{model}.{field}: {first['msg']}") from error
