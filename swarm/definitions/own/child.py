"""The program that carries out one call of a sandboxed function: `python -I child.py`.

Descriptor 20 gives the call as JSON. Output lines that begin with the call's mark are protocol; other lines are the function's own
output. After the mark comes a letter: `p` is a line of progress, `r` the result, `e` an error for the model, `b` any other error.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module
from typing import Any

GIVEN = 20


def main() -> None:
    """Read the call, carry it out, and write the result."""
    with os.fdopen(GIVEN, "rb") as given:
        call = json.load(given)
    # The worker's import path: a function may need any module on it.
    sys.path[:] = call["path"]

    def say(kind: str, **fields: Any) -> None:
        os.write(1, f"\n{call['mark']}{kind}{json.dumps(fields)}\n".encode())

    from swarm.core.errors import ToolError

    try:
        rendered = _carry_out(call, lambda line: say("p", line=line))
    except ToolError as error:
        say("e", text=str(error))
    except BaseException as error:
        say("b", error=f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
    else:
        say("r", **rendered)
    # Anything that the function left running ends with this process.
    sys.stdout.flush()
    os._exit(0)


def _carry_out(call: dict[str, Any], tell: Any) -> dict[str, Any]:
    import asyncio
    import inspect
    from pathlib import Path

    from swarm.core.errors import ToolError
    from swarm.definitions.own.context import ToolContext
    from swarm.definitions.own.declaration import declaration_of
    from swarm.definitions.own.results import render

    module, _, name = call["home"].partition(":")
    declaration = declaration_of(getattr(import_module(module), name, None))
    if declaration is None:
        raise ToolError(f"{call['home']} is not a tool in the sandbox. Check that its files can be read there.")
    told = {**call["context"], "workspace": Path(call["context"]["workspace"])}
    arguments = declaration.parameters.read(call["given"])
    if declaration.parameters.context:
        arguments[declaration.parameters.context] = ToolContext(**told, _tell=tell)
    value = declaration.function(**arguments)
    return render(asyncio.run(value) if inspect.iscoroutine(value) else value).model_dump()


if __name__ == "__main__":
    main()
