"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import functools
import inspect
import json
import re
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from swarm.cli.completion import complete_job
from swarm.cli.output import print_note
from swarm.core.errors import ConfigurationError
from swarm.definitions.model import PermissionMode

_PIPE_SECONDS = 3.0
"""How long a pipe beside a prompt may be silent: whoever started the command may have left one open by accident."""
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


GivenT = TypeVar("GivenT")


def takes(shape: type[GivenT]) -> Callable[[Callable[[GivenT], None]], Callable[..., None]]:
    """Give a command the fields of a dataclass as its options."""
    hints = get_type_hints(shape, include_extras=True)
    parameters = [each.replace(annotation=hints[each.name]) for each in inspect.signature(shape).parameters.values()]

    def decorate(run: Callable[[GivenT], None]) -> Callable[..., None]:
        @functools.wraps(run)
        def call(**given: Any) -> None:
            run(shape(**given))

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = hints
        return call

    return decorate


def parse_duration(text: str) -> float:
    """Seconds of `90`, `90s`, `10m`, `2h`, `1h30m` or `3d`."""
    found = _DURATION.fullmatch(str(text).strip().lower())
    if found is None or not any(found.groups()):
        raise typer.BadParameter(f"{text!r} is no duration; write 90, 90s, 10m or 2h")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = days * 86_400 + hours * 3_600 + minutes * 60 + seconds
    if total <= 0:
        raise typer.BadParameter("a duration must be longer than nothing")
    return total


def parse_patience(text: str) -> float:
    """As `parse_duration`, but also nothing: 0 says that nobody is there."""
    return 0.0 if str(text).strip() in ("0", "0s") else parse_duration(text)


ANSWER_MODES = tuple(mode for mode in get_args(PermissionMode) if mode != "plan")
"""The modes that an approved plan can be carried out in."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
WorkspaceOption = Annotated[
    Path,
    typer.Option("--workspace", "-w", metavar="FOLDER", help="The folder the agents work in.", show_default="here"),
]
JobArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]",
        autocompletion=complete_job,
        help="A job's id or the beginning of it; @last (default): the newest, @2: the one before.",
    ),
]


def read_text(argument: str | None, *, name: str, usage: str, max_bytes: int) -> str:
    """The argument, or what is piped in when it is `-` or missing; longer input is cut just beyond `max_bytes`."""
    if argument is not None and argument != "-":
        return argument
    if argument is None and (sys.stdin is None or sys.stdin.isatty()):
        raise typer.BadParameter(f"{usage}, or pipe it in", param_hint=name)
    return _read_pipe(name, max_bytes)


def read_prompt(argument: str | None, *, usage: str, max_bytes: int) -> str:
    """As `read_text`; with an argument and something piped in, both, one below the other."""
    prompt = read_text(argument, name="PROMPT", usage=usage, max_bytes=max_bytes)
    if argument in (None, "-") or sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return prompt
    if not select.select([sys.stdin], [], [], _PIPE_SECONDS)[0]:
        print_note(f"note: nothing was piped in within {_PIPE_SECONDS:.0f} s, so the prompt stands alone")
        return prompt
    piped = _read_pipe("what is piped in", max_bytes)
    return f"{prompt}\n\n<stdin>\n{piped.rstrip()}\n</stdin>" if piped.strip() else prompt


def read_schema(path: Path) -> Any:
    """The JSON of a file; whether it is a schema is checked with the order. Raises `ConfigurationError`."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"the schema {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"the schema {path} is not JSON: {error}") from None


def _read_pipe(name: str, max_bytes: int) -> str:
    # One byte too many is enough to see that it is too long; a character cut in two by that is no matter.
    data = sys.stdin.buffer.read(max_bytes + 1)
    try:
        return data.decode(errors="strict" if len(data) <= max_bytes else "replace")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name} is not UTF-8 text; write it in UTF-8") from None
