"""The atomic steps: Redis Functions, made from the `*.lua` files of packages; each file begins with its arguments and answers.

A library is one Lua program. It begins with the shared parts: `common.lua`, whose names every part sees, then each `NAME_common.lua` of
the swarm's own packages and of the library's packages. Each such file is a module: it exports functions as fields of the table `NAME`
(`function budget.serve(job)`), in any order, and keeps the rest local. The other files follow, each with one or more steps in its own
scope. An external capability brings its own library:

    STEPS = Library("my_package")       # my_package/votes.lua: step('vote', function(job, id, choice) … end)
    store.keyspace.run("vote", job_id, agent_id, "yes", library=STEPS)

Such a library contains all shared parts (`emit`, `fields`, `agents.deliver`, `endings.end_agent` …), so its steps and the swarm's see
the same data. Its `at_end` handlers run only for ends made by its own steps, so its keys are kept with `keep_with_job`.

Guarantees: the names of a library and its functions contain the hash of their source, so two versions can share one server. If a
server lacks a library (after a restart without data, a failover, or a removal), it is loaded and the call is repeated. A load removes
other libraries that were not loaded for `KEPT_SECONDS`; at worst, their users load them again.
"""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from importlib import resources
from typing import Any

import redis

from swarm.core.capabilities import TABLE
from swarm.core.release import FORMAT
from swarm.store.connection import refuse_lack

PACKAGES = ("swarm.store.lua", *(f"swarm.capabilities.{name}" for name in TABLE), "swarm.telemetry", "swarm.replay")
"""Packages of the swarm's own parts and steps, the shared ones first."""
KEPT_SECONDS = 30 * 86_400.0
_LOADED_AT = re.compile(r"^-- loaded (\d+)$", re.MULTILINE)


class Library:
    """The steps of some packages with the swarm's shared parts; without packages, the swarm's own steps."""

    def __init__(self, *packages: str) -> None:
        self._packages = packages

    @property
    def source(self) -> str:
        """The program without its first lines, which name it."""
        own = [part for package in PACKAGES for part in _read_package(package)]
        brought = [part for package in self._packages for part in _read_package(package)]
        modules = [name.removesuffix("_common.lua") for name, _ in own + brought if name.endswith("_common.lua")]
        parts = [text for name, text in own + brought if name.endswith("_common.lua")]
        steps = [text for name, text in (brought or own) if not name.endswith("common.lua")]
        tables = f"local {', '.join(modules)} = {', '.join(['{}'] * len(modules))}\n"
        return tables + f"local FORMAT = {FORMAT}\n" + own[0][1] + "".join(f"do\n{text}end\n" for text in parts + steps)

    @cached_property
    def name(self) -> str:
        """The library's name in Redis; a function's name is this, `_` and the step's name."""
        return f"swarm_{hashlib.sha256(self.source.encode()).hexdigest()[:12]}"

    def run(self, client: Any, step: str, prefix: str, *arguments: str | int | float) -> Any:
        """Run a step for the swarm under this prefix. Raises `ConfigurationError` if the server or its user cannot."""
        function = f"{self.name}_{step}"
        try:
            return client.fcall(function, 0, prefix, *arguments)
        except redis.ResponseError as error:
            if not str(error).startswith("Function not found"):
                refuse_lack(client, error, f"run the step {step}")
                raise
        self.load(client, float(client.time()[0]))
        return client.fcall(function, 0, prefix, *arguments)

    def load(self, client: Any, now: float) -> None:
        """Load this library into the server, and remove libraries not loaded for long."""
        head = f"#!lua name={self.name}\n-- loaded {now:.0f}\nlocal LIBRARY = '{self.name}'\n"
        try:
            client.function_load(head + self.source, replace=True)
        except redis.ResponseError as error:
            refuse_lack(client, error, "load the steps of this version: a worker of this version does")
            raise
        for name, loaded_at in _list_libraries(client):
            if now - loaded_at > KEPT_SECONDS:
                try:
                    client.function_delete(name)
                except redis.ResponseError:
                    # Another client removed it first.
                    pass


STEPS = Library()
"""The swarm's own steps."""


def _read_package(package: str) -> list[tuple[str, str]]:
    """The package's Lua files and their texts, `common.lua` first."""
    files = [entry for entry in resources.files(package).iterdir() if entry.name.endswith(".lua")]
    files.sort(key=lambda entry: (entry.name != "common.lua", entry.name))
    return [(entry.name, entry.read_text(encoding="utf-8")) for entry in files]


def _list_libraries(client: Any) -> list[tuple[str, float]]:
    """Libraries of any version of the swarm on the server, with the time of their last load."""
    found = []
    for library in client.function_list(library="swarm_*", withcode=True):
        fields = dict(zip(library[::2], library[1::2], strict=True))
        loaded = _LOADED_AT.search(fields["library_code"])
        if loaded:
            found.append((fields["library_name"], float(loaded[1])))
    return found
