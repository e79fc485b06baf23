"""The atomic steps: Redis Functions, made from the `*.lua` files of packages; each file's head gives its arguments and answers.

A library is one Lua program. First come the shared parts: `common.lua`, whose names are everybody's, then every `NAME_common.lua` of the
swarm's own packages and of those that the library is made for. Each of these is a module: it sets what others use as fields of the table
`NAME` (`function budget.serve(job)`), in whichever order, and keeps the rest to itself. Then come the other files, each a step or several
in a scope of its own. A capability from outside brings its own:

    STEPS = Library("my_package")       # my_package/votes.lua: step('vote', function(job, id, choice) … end)
    store.keyspace.run("vote", job_id, agent_id, "yes", library=STEPS)

Such a library has all of the shared parts (`emit`, `fields`, `agents.deliver`, `endings.end_agent` …), so its steps and the swarm's see
the same data; what it registers with `at_end` holds for the ends that its own steps make, so its keys are kept with `keep_with_job`.

Guarantees: a library and its functions carry the hash of their source in their names, so two versions share one server; a server
that does not know a library (it was restarted without its data, has taken over, or somebody removed it) is given it, and the call is
made again; what nobody has loaded for `KEPT_SECONDS` is removed by whoever loads another one, which at worst costs its users a load.
"""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from importlib import resources
from typing import Any

import redis

from swarm.store.connection import refuse_old_server

PACKAGES = (
    "swarm.store.lua",
    "swarm.capabilities.governor",
    "swarm.capabilities.team",
    "swarm.capabilities.memory",
    "swarm.telemetry",
    "swarm.capabilities.mcp",
    "swarm.capabilities.mapping",
    "swarm.capabilities.batching",
    "swarm.replay",
    "swarm.capabilities.webhooks",
)
"""Where the swarm's own parts and steps lie. What comes later may use what comes earlier."""
KEPT_SECONDS = 30 * 86_400.0
_LOADED_AT = re.compile(r"^-- loaded (\d+)$", re.MULTILINE)


class Library:
    """The steps of some packages beside the swarm's own parts; of none, the swarm's own steps."""

    def __init__(self, *packages: str) -> None:
        self._packages = packages

    @property
    def source(self) -> str:
        """The program, without the head that names it."""
        own = [part for package in PACKAGES for part in _read_package(package)]
        brought = [part for package in self._packages for part in _read_package(package)]
        modules = [name.removesuffix("_common.lua") for name, _ in own + brought if name.endswith("_common.lua")]
        parts = [text for name, text in own + brought if name.endswith("_common.lua")]
        steps = [text for name, text in (brought or own) if not name.endswith("common.lua")]
        tables = f"local {', '.join(modules)} = {', '.join(['{}'] * len(modules))}\n"
        return tables + own[0][1] + "".join(f"do\n{text}end\n" for text in parts + steps)

    @cached_property
    def name(self) -> str:
        """Its name in Redis; that of each function is this one, `_`, and the step's."""
        return f"swarm_{hashlib.sha256(self.source.encode()).hexdigest()[:12]}"

    def run(self, client: Any, step: str, prefix: str, *arguments: str | int | float) -> Any:
        """Run a step for the swarm under this prefix. Raises `ConfigurationError` if the server is too old to have functions."""
        function = f"{self.name}_{step}"
        try:
            return client.fcall(function, 0, prefix, *arguments)
        except redis.ResponseError as error:
            if not str(error).startswith("Function not found"):
                refuse_old_server(client, error)
                raise
        self.load(client, float(client.time()[0]))
        return client.fcall(function, 0, prefix, *arguments)

    def load(self, client: Any, now: float) -> None:
        """Give the server this library, and remove those that nobody has loaded for long."""
        head = f"#!lua name={self.name}\n-- loaded {now:.0f}\nlocal LIBRARY = '{self.name}'\n"
        client.function_load(head + self.source, replace=True)
        for name, loaded_at in _list_libraries(client):
            if now - loaded_at > KEPT_SECONDS:
                try:
                    client.function_delete(name)
                except redis.ResponseError:
                    # Somebody else removed it first.
                    pass


STEPS = Library()
"""The swarm's own steps."""


def _read_package(package: str) -> list[tuple[str, str]]:
    """The package's Lua files and their texts, `common.lua` first."""
    files = [entry for entry in resources.files(package).iterdir() if entry.name.endswith(".lua")]
    files.sort(key=lambda entry: (entry.name != "common.lua", entry.name))
    return [(entry.name, entry.read_text(encoding="utf-8")) for entry in files]


def _list_libraries(client: Any) -> list[tuple[str, float]]:
    """Libraries of any version of the swarm that the server knows, and when each was loaded last."""
    found = []
    for library in client.function_list(library="swarm_*", withcode=True):
        fields = dict(zip(library[::2], library[1::2], strict=True))
        loaded = _LOADED_AT.search(fields["library_code"])
        if loaded:
            found.append((fields["library_name"], float(loaded[1])))
    return found
