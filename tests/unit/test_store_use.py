"""Redis commands are sent by stores: `swarm/store`, and modules that take a `Keyspace`. Everybody else calls a store's methods.

Tests of swarm/store/store.py, swarm/store/keyspace.py, swarm/store/jobs.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from inspect import isfunction
from pathlib import Path

import pytest

from swarm.store.connection import connect
from swarm.store.store import Store
from tests.code import nodes

ROOT = Path(__file__).parents[2]
CONNECTS = {"swarm/local/redis_server.py", "swarm/capabilities/mcp/broker/admission.py"}
"""These talk to Redis from outside a swarm: the local server's keeper, and the process that holds MCP logins."""
MOST_METHODS = 20


def _modules() -> Iterator[tuple[str, list[ast.AST]]]:
    for folder in ("swarm", "tasks", "mailbox"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(("swarm/store/", "swarm/tasks/", "swarm/mailbox/")):
                yield name, nodes(path)


def _is_store(module: list[ast.AST]) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.module == "swarm.store.keyspace" for node in module)


def _find_commands(module: list[ast.AST]) -> Iterator[int]:
    """Lines that use a keyspace other than by giving it to a store, or a client."""
    given = {id(one) for node in module if isinstance(node, ast.Call) for one in node.args}
    for node in module:
        if isinstance(node, ast.Attribute) and node.attr in ("keyspace", "_keyspace") and id(node) not in given:
            yield node.lineno
        elif isinstance(node, ast.Attribute) and node.attr in ("client", "no_retry", "key", "run"):
            yield from [node.lineno] * (_last_name(node.value) in ("store", "_store"))


def _last_name(node: ast.expr) -> str:
    return str(getattr(node, "attr", "") or getattr(node, "id", ""))


def _find_clients(module: list[ast.AST]) -> Iterator[int]:
    """Lines that make a client for anything but a store."""
    calls = [node for node in module if isinstance(node, ast.Call)]
    stores = {id(one) for node in calls if getattr(node.func, "id", "") == "Store" for one in node.args}
    imported = {
        alias.asname or alias.name
        for node in module
        if isinstance(node, ast.ImportFrom) and node.module == "swarm.store.connection"
        for alias in node.names
    }
    for call in calls:
        if getattr(call.func, "id", "") in imported & {"connect", "connect_async"} and id(call) not in stores:
            yield call.lineno


def test_only_stores_send_commands_to_redis() -> None:
    found = [
        f"{name}:{line}" for name, module in _modules() if not _is_store(module) for line in _find_commands(module)
    ]
    assert not found, "make it a method of a store's part"


def test_only_stores_are_given_a_client() -> None:
    found = [f"{name}:{line}" for name, module in _modules() if name not in CONNECTS for line in _find_clients(module)]
    assert not found, "give the client to a Store"


@pytest.mark.parametrize(
    "line", ["store.keyspace.client.get('x')", "self._store.keyspace.key('x')", "key = store.keyspace.key"]
)
def test_a_command_outside_a_store_is_found(line: str) -> None:
    assert list(_find_commands(list(ast.walk(ast.parse(line)))))


def test_each_part_of_the_store_is_small_and_inherits_nothing() -> None:
    store = Store(connect("unix:///nowhere"))
    parts = {
        name: type(getattr(store, name)) for name, part in vars(Store).items() if isinstance(part, cached_property)
    }
    assert 5 <= len(parts) <= 13
    for name, kind in parts.items():
        methods = [word for word, value in vars(kind).items() if isfunction(value) and word[0] != "_"]
        assert len(methods) <= MOST_METHODS, f"{name} is two nouns: {', '.join(methods)}"
        assert kind.__bases__ == (object,), f"{name} inherits"
