"""Options that several commands share, and their parsers."""

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
"""Seconds that a pipe beside a prompt may be silent; a parent process may leave one open by accident."""
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


GivenT = TypeVar("GivenT")


def takes(shape: type[GivenT]) -> Callable[[Callable[[GivenT], None]], Callable[..., None]]:
    """Make the fields of a dataclass options of a command."""
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
    """Parse a duration such as `90`, `90s`, `10m`, `2h`, `1h30m` or `3d` into seconds."""
    found = _DURATION.fullmatch(str(text).strip().lower())
    if found is None or not any(found.groups()):
        raise typer.BadParameter(f"{text!r} is not a duration; write 90, 90s, 10m or 2h")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = days * 86_400 + hours * 3_600 + minutes * 60 + seconds
    if total <= 0:
        raise typer.BadParameter("a duration must be more than 0")
    return total


def parse_patience(text: str) -> float:
    """Parse a duration that may also be 0, which means that no person answers."""
    return 0.0 if str(text).strip() in ("0", "0s") else parse_duration(text)


ANSWER_MODES = tuple(mode for mode in get_args(PermissionMode) if mode != "plan")
"""Modes in which an approved plan can be carried out."""

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
        help="A job's id or a prefix; @last (default): the newest, @2: the one before.",
    ),
]


def read_text(argument: str | None, *, name: str, usage: str, max_bytes: int) -> str:
    """Return the argument, or stdin if it is `-` or missing; longer input is cut just beyond `max_bytes`."""
    if argument is not None and argument != "-":
        return argument
    if argument is None and (sys.stdin is None or sys.stdin.isatty()):
        raise typer.BadParameter(f"{usage}, or pipe it in", param_hint=name)
    return _read_pipe(name, max_bytes)


def read_prompt(argument: str | None, *, usage: str, max_bytes: int) -> str:
    """Return the argument or stdin, as `read_text` does; if both are given, one below the other."""
    prompt = read_text(argument, name="PROMPT", usage=usage, max_bytes=max_bytes)
    if argument in (None, "-") or sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return prompt
    if not select.select([sys.stdin], [], [], _PIPE_SECONDS)[0]:
        print_note(f"note: nothing was piped in within {_PIPE_SECONDS:.0f} s, so only the prompt is used")
        return prompt
    piped = _read_pipe("the piped input", max_bytes)
    return f"{prompt}\n\n<stdin>\n{piped.rstrip()}\n</stdin>" if piped.strip() else prompt


def read_schema(path: Path) -> Any:
    """Read JSON from a file; the order checks that it is a schema. Raises `ConfigurationError`."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"the schema {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"the schema {path} is not JSON: {error}") from None


def _read_pipe(name: str, max_bytes: int) -> str:
    # One extra byte shows that the input is too long; a split character does not matter.
    data = sys.stdin.buffer.read(max_bytes + 1)
    try:
        return data.decode(errors="strict" if len(data) <= max_bytes else "replace")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name} is not UTF-8 text; write it in UTF-8") from None
