"""Options of commands that start a job, derived from the options of an order."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import create_model
from pydantic.fields import FieldInfo

from swarm.cli.completion import complete_model, complete_scenario, complete_type
from swarm.cli.options import parse_duration, parse_patience, read_schema
from swarm.client.order import Flag, options_of
from swarm.core.errors import ConfigurationError, InvalidOption
from swarm.core.records import Limits

_COMPLETIONS: dict[str, Any] = {"TYPE": complete_type, "MODEL": complete_model}


@dataclass(frozen=True)
class Here:
    """How a command that starts a job works on this machine."""

    rehearse: Annotated[
        str | None,
        typer.Option(
            metavar="SCENARIO",
            help="Play a scenario instead of a model: a name or a file.",
            autocompletion=complete_scenario,
        ),
    ] = None
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1, help="Agents at once on a worker started for the job.", show_default="4 for each processor, 8 to 20"
        ),
    ] = None
    detach: Annotated[bool, typer.Option("--detach", help="Start it, print its id, and exit.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False


def order_options(shape: type, leave_out: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add an order's options to a command, which gets the given ones, parsed, as `**given`.

    A parameter whose type is a dataclass stands for the options in its fields.
    """
    known = create_model("Options", **options_of(shape, {*leave_out, "prompt", "limits"})).model_fields.copy()
    limits = {name: field for name, field in Limits.model_fields.items() if name not in known}
    known |= {} if "limits" in leave_out else limits

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        arguments, options, groups = _split(command)
        made = [_make(name, field) for name, field in known.items()]

        @wraps(command)
        def call(**values: Any) -> None:
            given = {name: _read(known[name], values.pop(name)) for name in known}
            given = {name: value for name, value in given.items() if value is not None}
            if bounds := {name: given.pop(name) for name in limits if name in given}:
                given["limits"] = bounds
            for name, group in groups.items():
                values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
            try:
                command(**values, **given)
            except InvalidOption as error:
                name = error.name.removeprefix("limits.")
                hint = _names(name, known[name])[0] if name in known else name
                raise typer.BadParameter(str(error), param_hint=hint) from None

        parameters = [*arguments, *made, *options]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        return call

    return decorate


def _split(
    command: Callable[..., None],
) -> tuple[list[inspect.Parameter], list[inspect.Parameter], dict[str, type]]:
    """Split a command's parameters into arguments, options, and groups of options."""
    arguments: list[inspect.Parameter] = []
    options: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    hints = get_type_hints(command, include_extras=True)
    for each in inspect.signature(command).parameters.values():
        kind = hints[each.name]
        if each.kind is each.VAR_KEYWORD:
            continue
        if is_dataclass(kind):
            groups[each.name] = kind  # type: ignore[assignment]
            below = get_type_hints(kind, include_extras=True)
            options += [_parameter(one.name, below[one.name], one.default) for one in fields(kind)]
        else:
            is_argument = "Argument" in type(get_args(kind)[1]).__name__
            (arguments if is_argument else options).append(_parameter(each.name, kind, each.default))
    return arguments, options, groups


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _make(name: str, field: FieldInfo) -> inspect.Parameter:
    """Make the option for a field."""
    kind, flag = _kind(field), _flag(field)
    told: dict[str, Any] = {"help": str(field.description).replace("`", "'"), "show_default": _show_default(field)}
    if flag.metavar:
        told |= {"metavar": flag.metavar, "autocompletion": _COMPLETIONS.get(flag.metavar)}
    if kind is bool:
        return _parameter(name, Annotated[bool | None, typer.Option(*_names(name, field), **told)], None)
    if name.endswith("_seconds"):
        told["help"] += " Written 90, 90s, 10m or 2h."
        told |= {"metavar": "TIME", "parser": parse_patience if _bound(field, "ge") == 0 else parse_duration}
    elif kind in (int, float):
        told |= {"min": _bound(field, "ge"), "max": _bound(field, "le")}
        told |= {"metavar": "USD"} if name.endswith("_usd") else {}
    elif flag.metavar in ("FILE", "FOLDER"):
        kind = Path
    elif kind is not str and get_origin(kind) is not Literal:
        kind = list[str]
    return _parameter(name, Annotated[kind | None, typer.Option(*_names(name, field), **told)], None)


def _read(field: FieldInfo, value: Any) -> Any:
    """Convert a typed value to the field's value."""
    if value is None or _flag(field).metavar != "FILE":
        return value
    return _read_text(value) if _kind(field) is str else read_schema(value)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not UTF-8 text; write it in UTF-8") from None


def _names(name: str, field: FieldInfo) -> tuple[str, ...]:
    if names := _flag(field).names:
        return names
    spelt = f"--{name.removesuffix('_seconds').removesuffix('_usd')}".replace("_", "-")
    # A default that is on, or set elsewhere, can also be switched off.
    return (f"{spelt}/--no-{spelt[2:]}",) if _kind(field) is bool and field.default is not False else (spelt,)


def _kind(field: FieldInfo) -> Any:
    """The field's type, without None."""
    if get_origin(field.annotation) not in (Union, UnionType):
        return field.annotation
    return next(each for each in get_args(field.annotation) if each is not type(None))


def _flag(field: FieldInfo) -> Flag:
    return next((each for each in field.metadata if isinstance(each, Flag)), Flag())


def _bound(field: FieldInfo, name: str) -> Any:
    return next((getattr(each, name) for each in field.metadata if hasattr(each, name)), None)


def _show_default(field: FieldInfo) -> str | bool:
    shown = isinstance(field.default, int) and not isinstance(field.default, bool)
    return str(field.default) if shown else False
