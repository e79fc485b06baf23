"""The tool `Workflow`: a model starts a saved workflow, or writes one in Python, which runs only in its sandbox."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from swarm.core.errors import ToolError, install_command
from swarm.definitions.model import AgentDefinition
from swarm.definitions.sources import Unusable
from swarm.definitions.workflow_files import WRITTEN, make_definition
from swarm.tools import Tool
from swarm.tools.schemas import string
from swarm.workflows.front_ends import usable_languages
from swarm.workflows.results import as_text

MAX_CHARACTERS = 100_000
MOST_PHASES = 20
"""Most phases that a question names."""


def _order(given: dict[str, Any]) -> tuple[dict[str, Any], AgentDefinition | None]:
    """Return the `Agent` call that starts the workflow, and its definition if it was written here."""
    task = given.get("args")
    name, script = given.get("name"), given.get("script")
    if (name is None) == (script is None):
        raise ToolError("Give either `name`, of a saved workflow, or `script`.")
    definition = None if script is None else _read_script(script, given["description"])
    order = {"description": given["description"], "prompt": "{}" if task is None else as_text(task)}
    return {**order, "subagent_type": name or WRITTEN, "run_in_background": True}, definition


@cache
def _read_script(script: str, description: str) -> AgentDefinition:
    if "python" not in usable_languages():
        raise ToolError(f"Workflows in Python cannot run here: {install_command('workflows')}")
    from swarm.workflows.monty import explain_faults

    try:
        definition = make_definition(script, ".py", WRITTEN, "the tool Workflow")
    except Unusable as error:
        raise ToolError(f"Nothing was started. {error}") from error
    if faults := explain_faults(script):
        raise ToolError(f"Nothing was started. Correct the script:\n{faults}")
    return definition.model_copy(update={"description": description})


def list_phases(script: str) -> list[str]:
    """Return the phases that a script names, in order."""
    return list(dict.fromkeys(re.findall(r"""\bphase\(\s*["'`]([^"'`\n]{1,80})["'`]""", script)))


def _weigh(given: dict[str, Any]) -> str:
    phases = list_phases(str(given.get("script") or ""))
    shown = [" ".join(phase.split()) for phase in phases[:MOST_PHASES]]
    more = len(phases) - len(shown)
    return f"its phases: {', '.join(shown)}{f', and {more:,} more' if more else ''}" if phases else ""


@cache
def _interface() -> str:
    from swarm.workflows.monty import read_text

    return read_text("stubs")


WORKFLOW = Tool(
    name="Workflow",
    description=(
        "Run a program that starts many agents and combines their results: for work with a known shape (each of many files, votes, "
        "rounds until nothing is new). It goes on in the background, survives any restart, and its value arrives as a "
        "task-notification. Write plain Python with top-level await; the last expression is its value. There are no files, network, "
        "imports beyond the standard library's pure parts, classes with bases, generators or create_task. The interface:\n"
        + _interface()
    ),
    parameters={
        "description": string("Its purpose, in 3 to 5 words."),
        "script": string("The program.", maxLength=MAX_CHARACTERS),
        "name": string("A saved workflow to run instead."),
        "args": {"description": "Its arguments, any JSON; the program reads them as `args`."},
    },
    required=["description"],
    orders=_order,
    weigh=_weigh,
    activity=lambda given: f"Workflow {given.get('name') or given.get('description', '')}",
)
