"""Failures of a command: one line on stderr, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

from swarm.cli.interrupts import Terminated
from swarm.cli.output import print_note
from swarm.core.errors import (
    BadMessageId,
    ConfigurationError,
    JobLost,
    RedisFull,
    SwarmError,
    UnknownAgent,
    UnknownDefinition,
    UnknownReceiver,
)

_USAGE = (ConfigurationError, UnknownDefinition, UnknownAgent, UnknownReceiver, BadMessageId)


def report(error: BaseException) -> int:
    """Print the failure and return the exit code; an unexpected exception is raised again."""
    match error:
        case SystemExit():
            raise error
        case KeyboardInterrupt():
            return 130
        case Terminated():
            return 128 + error.number
        case JobLost():
            _say(str(error))
            return 3
        case SwarmError():
            _say(str(error))
            return 2 if isinstance(error, _USAGE) else 1
        case BrokenPipeError():
            # The reader of the output has closed the pipe. The interpreter's final flush would fail, too.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
    if hasattr(error, "format_message"):
        return _report_usage(error)
    if type(error).__name__ == "Abort":  # raised by Typer at the end of input
        return 1
    if _is_redis_error(error):
        _say(_describe_redis_error(error))
        return 1
    if isinstance(error, OSError) and error.strerror:
        _say(_describe_system_error(error))
        return 1
    raise error


def _report_usage(error: Any) -> int:
    """Print one line for a usage error, in Typer's words."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print_note(error.format_message())
        return 2
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "swarm"
    _say(f"{error.format_message().replace('Value error, ', '').rstrip('.')}; `{path} --help` explains it")
    return int(error.exit_code)


def _say(message: str) -> None:
    print_note(f"swarm: {message}")


def _describe_system_error(error: OSError) -> str:
    if error.filename:
        return f"{error.strerror}: {error.filename}"
    if isinstance(error, FileNotFoundError):  # only a removed current folder has no name
        return "this shell's folder has been removed; change to another one"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        from swarm.core.settings import load_settings

        state = load_settings().state_folder()
        return f"{error.strerror}, in the output or in {state}: free some space, or set SWARM_STATE_DIR to another disk"
    return str(error.strerror)


def _is_redis_error(error: BaseException) -> bool:
    exceptions = sys.modules.get("redis.exceptions")  # a command that never loaded it cannot have raised it
    return exceptions is not None and isinstance(error, exceptions.RedisError)


def _describe_redis_error(error: BaseException) -> str:
    from swarm.core.settings import load_settings
    from swarm.store.connection import ping_server

    if type(error).__name__ == "OutOfMemoryError":
        return str(RedisFull())
    try:
        ping_server(load_settings())
    except SwarmError as told:
        return str(told)
    return f"Redis answered with an error: {' '.join(str(error).split())}"
