"""The front ends: which a process can run, and the running program of a definition."""

from __future__ import annotations

from importlib.util import find_spec

from swarm.core.errors import ConfigurationError, install_command
from swarm.definitions.model import AgentDefinition
from swarm.definitions.own.workflow import function_of
from swarm.workflows.desk import Desk, RunningProgram
from swarm.workflows.native import NativeProgram
from swarm.workflows.rows import PART, run_part

_PACKAGES = {"python": "pydantic_monty", "javascript": "quickjs"}
"""Language of sandboxed programs → the module of the interpreter."""


def usable_languages() -> list[str]:
    """Return the languages of sandboxed programs that this process can run."""
    return [language for language, module in _PACKAGES.items() if find_spec(module) is not None]


def make_program(definition: AgentDefinition, desk: Desk, task: str) -> RunningProgram:
    """Return a definition's program, not yet started. Raises `ConfigurationError` if this process cannot run it."""
    program = definition.workflow
    assert program is not None, "it is no workflow"
    if program.language == "native":
        function = run_part if program == PART.workflow else function_of(definition)
        if function is None:
            raise ConfigurationError(f"this process has no workflow {definition.name} of the version {program.digest}")
        return NativeProgram(function, desk, task)
    if program.language not in usable_languages():
        raise ConfigurationError(f"no program in {program.language} can run here; {install_command('workflows')}")
    if program.language == "python":
        from swarm.workflows.monty import MontyProgram

        return MontyProgram(program.source, desk, task)
    from swarm.workflows.javascript import JavaScriptProgram

    return JavaScriptProgram(program.source, desk, task)
