"""Writes `docs/reference/` from the code, and tables of other pages: `python -m docs.generate`. A test asks whether it is current.

The texts come from docstrings and from the strings below fields.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel

import swarm
from swarm.cli.app import SECTIONS
from swarm.client import aio
from swarm.client.order import JobOptions, MapOrder, Order, StepOrder
from swarm.core.settings import Settings
from swarm.definitions.foreign_keys import FILES, KEYS
from swarm.permissions.sandbox.names import TOLD, UNDONE
from swarm.streaming.events import StreamEvent, ToolCall
from tests.oracle.ours import render_differences

FOLDER = Path(__file__).with_name("reference")
_HEAD = "<!-- Written by `python -m docs.generate`; change the code's words instead. -->\n"


def pages() -> dict[str, str]:
    """The pages by their file names."""
    made = {
        "python.md": _python(),
        "stream.md": _stream(),
        "cli.md": _cli(),
        "settings.md": _settings(),
        "obeyed.md": _obeyed(),
        "compat.md": _compat(),
    }
    return {name: f"{_HEAD}\n{text.rstrip()}\n" for name, text in made.items()}


def inserts() -> dict[Path, str]:
    """The pages of which a part is written here, between two marks."""
    page = Path(__file__).with_name("coming-from.md")
    begin, end = "<!-- differences: written by `python -m docs.generate` -->", "<!-- end of differences -->"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    return {page: f"{before}{begin}\n\n{render_differences()}\n\n{end}{rest.split(end)[1]}"}


# -- pages -----------------------------------------------------------------------------------------------------


def _python() -> str:
    parts = [
        "# Python\n\n`from swarm import Swarm` for programs, `from swarm.client.aio import Swarm` for asyncio. A client needs Redis and"
        " runs no agent: workers do (`swarm up`, `swarm worker`).\n"
    ]
    for name in swarm.__all__:
        found = getattr(swarm, name)
        if name != "StreamEvent":
            parts.append(_describe(name, found))
    parts.append("# Options\n\nEach is a keyword of `submit`, `map` or `signature`.\n")
    parts += [_describe(one.__name__, one) for one in (JobOptions, StepOrder, Order, MapOrder)]
    parts.append("# swarm.client.aio\n\n" + _clean(aio.__doc__))
    parts += [_describe(f"aio.{one.__name__}", one) for one in (aio.Swarm, aio.Job, aio.Map)]
    return "\n".join(parts)


def _stream() -> str:
    union = get_args(get_args(StreamEvent)[0])
    parts = [
        "# The stream of events\n\n`swarm run --json --stream`, `swarm events JOB --json`, `swarm.stream(swarm, job)` and"
        " `aio.Job.stream()` tell the same events. On a command line each is one JSON object on a line of its own;"
        " `type` says which it is.\n\n"
        "Within version 1 (`v`) events and fields are only added: leave out what you do not know. Read a line with"
        " `swarm.streaming.events.STREAM_EVENT.validate_json(line)`.\n",
        "## Every event\n\n" + _fields(union[0].__bases__[0]),
    ]
    for one in union:
        type_name = one.model_fields["type"].default
        own = [name for name in one.__annotations__ if name != "type"]
        parts.append(f"## `{type_name}`\n\n{_clean(one.__doc__)}\n\n{_fields(one, own)}")
    return "\n".join([*parts, f"## ToolCall\n\n{_clean(ToolCall.__doc__)}\n\n{_fields(ToolCall)}"])


def _obeyed() -> str:
    parts = [
        "# Files that programs obey\n\nWrite and Edit ask about each of these names, at every depth and in any case of letters."
        " A change by a command is [held or reported](../sandbox.md#what-acts-later-outside). Beside them are Git's own"
        " folders, what settings of Git name, and what [hooks](../hooks.md) run.\n"
    ]
    for title, table in (("A change is undone", UNDONE), ("A change stays and is reported", TOLD)):
        parts.append(f"## {title}\n\n| names | obeyed by |\n|---|---|")
        parts += [f"| {', '.join(f'`{name}`' for name in names.split())} | {who} |" for who, names in table.items()]
        parts.append("")
    return "\n".join(parts)


def _compat() -> str:
    names = {
        "claude": "Claude Code's settings.json",
        "opencode": "OpenCode's opencode.json",
        "codex": "Codex's config.toml",
    }
    parts = [
        "# Files and keys of other systems\n\n`swarm compat` shows the files here, with each rule and server."
        " One that is missing below is not applied.\n",
        "## Files of a workspace\n\n| file | here | how, or why not |\n|---|---|---|",
    ]
    for folder, files in FILES.items():
        parts += [f"| `{folder}{'/' * bool(folder)}{name}` | {one.fate} | {one.told} |" for name, one in files.items()]
    parts.append("")
    for system, keys in KEYS.items():
        parts.append(f"## {names[system]}\n\n| key | here | how, or why not |\n|---|---|---|")
        parts += [f"| `{key}` | {one.fate}{' (restricts)' * one.guards} | {one.told} |" for key, one in keys.items()]
        parts.append("")
    return "\n".join(parts)


def _cli() -> str:
    parts = [
        "# Commands\n\nExit codes: 0 completed, 1 failed or cancelled, 2 wrong usage, 3 Redis has lost the job, 4 stopped at a limit,"
        " 130 interrupted, 143 terminated. An id may be shortened to a beginning that is unique; `@last` is the newest job, `@2` the one"
        " before it.\n"
    ]
    for title, entries in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name, home in entries.items():
            module_name, _, function = home.partition(":")
            module = import_module(f"swarm.cli.{module_name}")
            parts += [_command(f"swarm {path}", one) for path, one in _commands(name, module, function)]
    return "\n".join(parts)


def _commands(name: str, module: Any, function: str) -> Iterator[tuple[str, Any]]:
    """The command's function, and those of the commands below it."""
    group = getattr(module, "group", None)
    if group is None or function:
        yield name, getattr(module, function)
    for below in group.registered_commands if group is not None else ():
        yield f"{name} {below.name or below.callback.__name__}", below.callback


def _command(path: str, function: Any) -> str:
    # From the annotations alone: what versions of Typer make of them differs.
    hints = get_type_hints(function, include_extras=True)
    arguments, options = [], []
    for name, parameter in inspect.signature(function).parameters.items():
        found = [each for each in getattr(hints[name], "__metadata__", ()) if hasattr(each, "param_decls")]
        if not found:
            continue
        told = found[0]
        if "Argument" in type(told).__name__:
            shown = told.metavar or (name.upper() if parameter.default is parameter.empty else f"[{name.upper()}]")
            arguments.append((shown, told.help or ""))
        else:
            options.append((_option(name, hints[name], told), _explain(told)))
    usage = " ".join([path, *(["[OPTIONS]"] if options else []), *(name for name, _ in arguments)])
    table = "".join(f"| `{_cell(name)}` | {_cell(told)} |\n" for name, told in [*arguments, *options])
    text = f"### `{usage}`\n\n{_clean(function.__doc__)}\n"
    return text + (f"\n| | |\n|---|---|\n{table}" if table else "")


def _option(name: str, hint: Any, told: Any) -> str:
    # In an annotation the first name stands where a default would.
    first = [told.default] if isinstance(told.default, str) and told.default.startswith("-") else []
    names = ", ".join([*first, *(told.param_decls or ())] or [f"--{name.replace('_', '-')}"])
    kinds = [each for each in (get_args(hint.__origin__) or (hint.__origin__,)) if each is not type(None)]
    kinds = [below for each in kinds for below in (get_args(each) if get_origin(each) is list else (each,))]
    if bool in kinds:
        return names
    # Sorted: Python may take two literals of one set for the same, and keeps the order of either.
    choices = sorted(str(each) for kind in kinds for each in get_args(kind)) or [
        str(each) for each in kinds if isinstance(each, str)
    ]
    return f"{names} {told.metavar or '|'.join(choices) or kinds[0].__name__.upper()}"


def _explain(told: Any) -> str:
    default = told.show_default if isinstance(told.show_default, str) else ""
    return f"{told.help or ''}{f' Default: {default}.' if default else ''}"


def _settings() -> str:
    docs, rows = _field_docs(Settings), []
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else f"`{field.default}`" if field.default != "" else ""
        kinds = [field.annotation, *get_args(field.annotation)]
        choices = sorted(f"`{choice}`" for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind))
        told = docs.get(name, "") + (f" One of {', '.join(choices)}." if choices else "")
        rows.append(f"| `SWARM_{name.upper()}` | {default} | {_cell(told)} |\n")
    return (
        "# Settings\n\nVariables of the environment; durations in seconds.\n\n| variable | default | |\n|---|---|---|\n"
        + "".join(rows)
    )


# -- parts -----------------------------------------------------------------------------------------------------


def _describe(name: str, found: Any) -> str:
    if not inspect.isclass(found):
        return f"## `{name}{_signature(found)}`\n\n{_clean(found.__doc__)}\n"
    head = f"## {name}\n\n{_clean(found.__doc__)}\n"
    if issubclass(found, BaseModel):
        return f"{head}\n{_fields(found)}"
    methods = [f"### `{each}{_signature(one)}`\n\n{_clean(one.__doc__)}\n" for each, one in _methods(found)]
    rows = [
        f"| `{name}` | `{_cell(_type_name(found, name))}` | {_cell(_field_docs(found).get(name, ''))} |\n"
        for name in getattr(found, "__dataclass_fields__", ())
        if not name.startswith("_") and not (issubclass(found, JobOptions) and name in _inherited(found))
    ]
    table = ["| field | type | |\n|---|---|---|\n" + "".join(rows)] if rows else []
    return "\n".join([head, *table, *methods])


def _inherited(found: type) -> set[str]:
    return set(getattr(found.__base__, "__dataclass_fields__", ()))


def _methods(found: type) -> Iterator[tuple[str, Any]]:
    for name, one in inspect.getmembers(found, lambda one: inspect.isfunction(one) or isinstance(one, property)):
        if not name.startswith("_") and one.__doc__:
            yield name, one


def _signature(one: Any) -> str:
    if isinstance(one, property):
        return ""
    signature = inspect.signature(one)
    if len(signature.parameters) > 12:  # those of an order, which have a table
        needed = [each.name for each in signature.parameters.values() if each.default is each.empty]
        return f"({', '.join([*needed, '**options'])}) -> {signature.return_annotation}"
    text = re.sub(r"<class '(\w+)'>", r"\1", str(signature)).replace("'", "")
    return re.sub(r"\b(?:swarm|collections|pathlib|typing)\.(?:\w+\.)*", "", text)


def _fields(model: type[BaseModel], only: list[str] | None = None) -> str:
    rows = []
    for name, field in model.model_fields.items():
        if field.exclude or (only is not None and name not in only):
            continue
        rows.append(f"| `{name}` | `{_cell(_type_name(model, name))}` | {_cell(_field_docs(model).get(name, ''))} |\n")
    return "| field | type | |\n|---|---|---|\n" + "".join(rows) if rows else ""


def _type_name(model: type, name: str) -> str:
    for each in model.__mro__:
        if name in (told := inspect.get_annotations(each)):
            kind = str(told[name])
            if kind.startswith("Annotated["):
                kind = ast.unparse(ast.parse(kind, mode="eval").body.slice.elts[0])  # type: ignore[attr-defined]
            return kind.replace('"', "'")
    return ""


@cache
def _field_docs(model: type) -> dict[str, str]:
    """The strings below the fields of a class and of its bases."""
    docs: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if not each.__module__.startswith("swarm"):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        body = tree.body[0].body  # type: ignore[attr-defined]
        for field, below in zip(body, body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                docs[field.target.id] = _clean(str(below.value.value))  # type: ignore[union-attr]
    return docs


def _clean(text: str | None) -> str:
    return inspect.cleandoc(text or "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for page, text in inserts().items():
        page.write_text(text, encoding="utf-8")
