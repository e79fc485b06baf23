"""The decorator `workflow`, which makes an async function a type of agent whose next action comes from the function."""

from __future__ import annotations

import hashlib
import inspect
import textwrap
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

from swarm.core.errors import ConfigurationError
from swarm.definitions.model import AgentDefinition, WorkflowProgram
from swarm.definitions.own.declaration import place_of

WorkflowT = TypeVar("WorkflowT", bound=Callable[..., Awaitable[Any]])
_MARK = "__swarm_workflow__"
_declared: dict[str, tuple[AgentDefinition, Callable[..., Awaitable[Any]]]] = {}


@overload
def workflow(function: WorkflowT, /) -> WorkflowT: ...


@overload
def workflow(*, name: str | None = None, **keys: Any) -> Callable[[WorkflowT], WorkflowT]: ...


def workflow(function: Any = None, /, *, name: str | None = None, **keys: Any) -> Any:
    """Make a workflow of an async function, whose first parameter is its `Flow`; its docstring describes it.

    `keys` are those of a definition that bound it: `tools`, `permission_mode`, `read_only`, `network`, `mode`. Raises
    `ConfigurationError` that names the function, its file and its line.
    """

    def declare(function: WorkflowT) -> WorkflowT:
        place = place_of(function)
        if not _is_workflow(function):
            raise ConfigurationError(
                f"{place} cannot be a workflow: write `async def` with a first parameter for its Flow"
            )
        described = inspect.getdoc(function)
        if not described:
            raise ConfigurationError(
                f"{place} cannot be a workflow: it has no docstring; write one that says its purpose"
            )
        try:
            definition = AgentDefinition(
                name=name or function.__name__,
                description=described,
                prompt="",
                workflow=WorkflowProgram(
                    language="native", home=f"{function.__module__}:{function.__name__}", digest=_digest_of(function)
                ),
                **{"permission_mode": "acceptEdits", **keys, "source": function.__code__.co_filename},
            )
        except ValueError as error:
            raise ConfigurationError(f"{place} cannot be a workflow: {error}") from error
        setattr(function, _MARK, definition)
        return function

    return declare if function is None else declare(function)


def workflow_of(value: object) -> AgentDefinition | None:
    """Return the definition of a workflow's function; None for anything else."""
    found = getattr(value, _MARK, None) if inspect.isfunction(value) else None
    return found if isinstance(found, AgentDefinition) else None


def declare_workflow(function: Callable[..., Awaitable[Any]]) -> None:
    """Let this process know a workflow. Raises `ConfigurationError` if another one has its name."""
    definition = workflow_of(function)
    assert definition is not None, "it is no workflow"
    known = _declared.get(definition.name)
    if known is not None and known[0] != definition:
        raise ConfigurationError(f"there is a workflow {definition.name!r} already, in {known[0].source}")
    _declared[definition.name] = definition, function


def declared_workflows() -> list[AgentDefinition]:
    """Return the definitions of this process's native workflows."""
    return [definition for definition, _ in _declared.values()]


def function_of(definition: AgentDefinition) -> Callable[..., Awaitable[Any]] | None:
    """Return the function of a native workflow; None if this process has none, or another version."""
    known, function = _declared.get(definition.name, (None, None))
    same = known is not None and definition.workflow is not None and known.workflow == definition.workflow
    return function if same else None


def _is_workflow(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) and bool(inspect.signature(function).parameters)


def _digest_of(function: Callable[..., Any]) -> str:
    """Hash the source of the function's module, because it can use all of it."""
    try:
        text = inspect.getsource(inspect.getmodule(function) or function)
    except (OSError, TypeError):
        text = textwrap.dedent(repr(function.__code__.co_code))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
