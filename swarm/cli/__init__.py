"""The command `swarm`: it parses, calls the client and renders, and holds no logic of its own.

`swarm --help` and the completion of a command's name must stay fast: they import none of the commands' modules, only `app`, which needs
Typer and the standard library.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with its code.

    0 completed, 1 failed or cancelled, 2 wrong usage, 3 Redis has lost the job, 4 stopped at a limit, 130 interrupted, 143 terminated.
    """
    from swarm.cli.app import app

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not end the command.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(prog_name="swarm", standalone_mode=False)
    except BaseException as error:
        from swarm.cli.failures import report

        code = report(error)
    sys.exit(code or 0)
