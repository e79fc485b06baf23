"""Carrying out calls of your own functions (`swarm.definitions.own`): in the worker, or in a process of their own in the sandbox."""

from __future__ import annotations

import base64
import threading
from typing import Any

from swarm.core.errors import ToolError
from swarm.definitions.own.context import ToolContext as Told
from swarm.definitions.own.declaration import Declaration
from swarm.definitions.own.results import Rendered, render
from swarm.tools import Tool, ToolContext, ToolResult
from swarm.tools.images import find_image_fault
from swarm.tools.own.sandboxed import run_sandboxed
from swarm.tools.own.threads import run_here


def make_tool(declaration: Declaration) -> Tool:
    """Make the tool for a declared function."""
    parameters = declaration.parameters

    def run(context: ToolContext, given: dict[str, Any]) -> ToolResult:
        arguments = parameters.read(given)
        if declaration.row.sandboxed:
            rendered, held = run_sandboxed(declaration, context, given)
            return _result(rendered).model_copy(update={"held": held})
        stopped = threading.Event()
        if parameters.context:
            arguments[parameters.context] = tell_of(declaration, context, stopped)
        return _result(render(run_here(declaration, stopped, arguments, context.check)))

    return Tool(
        declaration.row.name,
        declaration.description,
        parameters.schemas,
        parameters.required,
        definitions=parameters.definitions,
        run=run,
    )


def tell_of(declaration: Declaration, context: ToolContext, stopped: threading.Event) -> Told:
    """Return a function's context of a call, which must end once `stopped` is set."""
    name = declaration.row.name
    return Told(
        tool=name,
        agent_id=context.agent_id,
        job_id=context.job_id,
        depth=context.spec.depth,
        workspace=context.workspace,
        read_only=context.read_only,
        idempotency_key=context.idempotency_key,
        _tell=lambda line: context.tell(f"{name}: {line}"),
        _stopped=stopped,
    )


def _result(rendered: Rendered) -> ToolResult:
    for block in rendered.blocks or ():
        if block["type"] == "image":
            source = block["source"]
            if fault := find_image_fault(source["media_type"], base64.b64decode(source["data"])):
                raise ToolError(f"its image cannot be shown: {fault}")
    return ToolResult(text=rendered.text, blocks=rendered.blocks)
