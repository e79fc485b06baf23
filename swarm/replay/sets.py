"""Reads sets of cases: a YAML file, JSON lines, a folder of exported jobs, or ids of past jobs."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, Field, ValidationError

from swarm.capabilities.evaluations.model import EvalCase, Scoring, Variant
from swarm.client.order import Order
from swarm.core.errors import ConfigurationError

ModelT = TypeVar("ModelT", bound=BaseModel)
_EXPORTS = (".jsonl", ".jsonl.gz")
_SET = "set.yaml"
_OWN = {
    "prompt",
    "workspace",
    "idempotency_key",
    "on_end",
    "broker",
    "webhook",
    "repo",
    "branch",
    "pr",
    "issue",
    "workflow",
}
OPTIONS = tuple(each.name for each in fields(Order) if each.name not in _OWN)
"""Options of jobs that a case or a variant may set."""
_PLAIN = Variant(name="now")


class _SetFile(Scoring):
    """A file of cases. Its scoring, workspace and options hold for cases without their own."""

    name: str = ""
    workspace: str = ""
    options: dict[str, Any] = {}
    variants: dict[str, dict[str, Any] | None] = {}
    cases: list[dict[str, Any]] = Field(default=[])


class CaseSet(NamedTuple):
    """A set of cases with its variants."""

    name: str
    cases: tuple[EvalCase, ...]
    variants: tuple[Variant, ...]
    folder: str = ""
    """Folder of its file; empty without one."""


def read_set(
    source: Path | None, jobs: Sequence[str], given: Mapping[str, str], variants: Sequence[Variant] = ()
) -> CaseSet:
    """Read a set. `given` is scoring that replaces the file's, `variants` are added. Raises `ConfigurationError`."""
    told, folder, where = _SetFile(), Path.cwd(), "the order"
    if source is not None:
        told, folder = _read_source(source)
        where = str(source)
    _check_options(told.options, where)
    raw = [*told.cases, *({"job": job} for job in jobs)]
    common = {name: getattr(told, name) for name in ("workspace", "options")}
    scoring = {name: given.get(name) or getattr(told, name) for name in Scoring.model_fields}
    cases = tuple(_read_case(one, number, common, scoring, folder, where) for number, one in enumerate(raw, 1))
    if not cases:
        raise ConfigurationError(f"{where} has no cases; `swarm eval` needs a prompt, a past job or an exported job")
    told_variants = [
        _read(Variant, {"name": name, **(one or {})}, f"{where}, variant {name}") for name, one in told.variants.items()
    ]
    made = [_place_variant(one, folder) for one in told_variants] + [
        _place_variant(one, Path.cwd()) for one in variants
    ]
    for kind, names in (("case", [one.name for one in cases]), ("variant", [one.name for one in made])):
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ConfigurationError(f"{where}: two {kind}s have the name {twice[0]!r}; names must differ")
    _refuse_unapplied(cases, made)
    name = told.name or (source.resolve().name.split(".")[0] if source else "jobs")
    return CaseSet(name, cases, tuple(made) or (_PLAIN,), str(folder) if source is not None else "")


def _read_source(source: Path) -> tuple[_SetFile, Path]:
    if source.is_dir():
        told = _read_yaml(source / _SET) if (source / _SET).is_file() else _SetFile()
        found = sorted(one for one in source.iterdir() if one.name.endswith(_EXPORTS))
        past = [{"name": one.name.split(".")[0], "past": str(one.resolve())} for one in found]
        return told.model_copy(update={"cases": [*told.cases, *past]}), source.resolve()
    if not source.name.endswith(_EXPORTS):
        return _read_yaml(source), source.resolve().parent
    lines = [line for line in read_text(source).splitlines() if line.strip()]
    try:
        cases = [json.loads(line) for line in lines]
    except ValueError as error:
        raise ConfigurationError(f"{source}: a line is not JSON ({error})") from error
    if cases and isinstance(cases[0], dict) and cases[0].get("t") == "swarm-export":
        cases = [{"name": source.name.split(".")[0], "past": str(source.resolve())}]
    return _read(_SetFile, {"cases": cases}, str(source)), source.resolve().parent


def _read_yaml(path: Path) -> _SetFile:
    try:
        document = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: not YAML: {error}") from error
    return _read(_SetFile, document, str(path))


def read_text(path: Path) -> str:
    """Return a file's text, unpacked if its name ends with `.gz`. Raises `ConfigurationError`."""
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise ConfigurationError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _read_case(
    given: dict[str, Any], number: int, common: Mapping[str, Any], scoring: Mapping[str, str], folder: Path, where: str
) -> EvalCase:
    name = given.get("name") or given.get("job") or f"case-{number}"
    place = f"{where}, case {name}"
    own_options = given.get("options") or {}
    _check_options(own_options, place)
    options = {**common["options"], **own_options}
    own = {} if scoring.keys() & given.keys() else scoring
    case = _read(EvalCase, {**own, **given, "name": name, "options": options}, place)
    if bool(case.prompt) == case.is_past or (case.job and case.past):
        raise ConfigurationError(f"{place}: a case has a prompt, or one of `job` and `past`")
    _check_options(case.options, place)
    if own_options.get("limits") and common["options"].get("limits"):
        limits = {**common["options"]["limits"], **own_options["limits"]}
        case = case.model_copy(update={"options": {**options, "limits": limits}})
    if case.is_past and options.keys() - {"model"}:
        raise ConfigurationError(f"{place}: a past job has its options; only `model` can replace one")
    try:
        re.compile(case.expect)
    except re.error as error:
        raise ConfigurationError(f"{place}: `expect` is no regular expression: {error}") from error
    workspace = case.workspace or common["workspace"]
    placed = _place(workspace, folder) if workspace or not case.is_past else ""
    return case.model_copy(update={"workspace": placed, "past": _place(case.past, folder) if case.past else ""})


def _place(path: str, folder: Path) -> str:
    return str((folder / Path(path).expanduser()).resolve())


def _place_variant(one: Variant, folder: Path) -> Variant:
    _check_options(one.options, f"variant {one.name}")
    placed = {name: _place(given, folder) for name in ("agents", "workspace") if (given := getattr(one, name))}
    return one.model_copy(update=placed)


def read_variant(text: str) -> Variant:
    """Read `NAME:KEY=VALUE,…` of a command line; keys are `agents`, `workspace` and options of a job. Raises `ConfigurationError`."""
    name, _, rest = text.partition(":")
    told: dict[str, Any] = {"name": name, "options": {}}
    for part in filter(None, rest.split(",")):
        key, equal, value = part.partition("=")
        if not equal:
            raise ConfigurationError(
                f"variant {text!r}: write NAME:KEY=VALUE,KEY=VALUE, as in new:model=haiku,agents=../new"
            )
        key, value = key.strip(), value.strip()
        if key in ("agents", "workspace"):
            told[key] = value
        else:
            told["options"][key] = _read_value(value, f"variant {text!r}: {key}")
    return _read(Variant, told, f"variant {text!r}")


def _read_value(text: str, place: str) -> Any:
    """Read an option's value of a command line as YAML; all but truths, numbers, lists, mappings and quoted texts stay the given text."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{place}: {text!r} is not YAML; put a text into quotes") from error
    return value if isinstance(value, bool | int | float | list | dict) or text[:1] in ("'", '"') else text


def _refuse_unapplied(cases: Sequence[EvalCase], variants: Sequence[Variant]) -> None:
    """Raise `ConfigurationError` for a variant that says more than can be changed in a past job."""
    past = next((one.name for one in cases if one.is_past), "")
    for one in variants if past else ():
        names = sorted(one.options.keys() - {"model"}) + (["prompt"] if one.prompt != _PLAIN.prompt else [])
        if names:
            raise ConfigurationError(
                f"variant {one.name}: the case {past} is a past job, whose {names[0]} no variant can change; "
                "only agents, workspace and model can"
            )


def _check_options(options: Any, place: str) -> None:
    if not isinstance(options, Mapping):
        raise ConfigurationError(
            f"{place}: options: {options!r} is no mapping; write names with values, as in model: haiku"
        )
    if options.get("limits") is not None and not isinstance(options["limits"], Mapping):
        raise ConfigurationError(
            f"{place}: limits: {options['limits']!r} is no mapping; write names with values, as in {{max_turns: 20}}"
        )
    if wrong := [name for name in options if name not in OPTIONS]:
        raise ConfigurationError(f"{place}: there is no option {wrong[0]!r} here; choose from {', '.join(OPTIONS)}")


def _read(kind: type[ModelT], given: Any, place: str) -> ModelT:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{place}: {name or 'it'}: {first['msg']}") from error
