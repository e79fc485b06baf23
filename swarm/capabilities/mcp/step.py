"""The MCP servers of one running agent: which it has, the tools that it is given of them when it begins, and their calls."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

from swarm.agent.coordination.messages import explain_servers
from swarm.agent.entries import Finished, Started
from swarm.agent.needs import needs_of, offer, read_workers
from swarm.agent.spec import AgentSpec
from swarm.capabilities.mcp.broker_client import can_start_broker
from swarm.capabilities.mcp.caller import Access, ServerAway, ServerCaller
from swarm.capabilities.mcp.host import end_servers, line_of
from swarm.capabilities.mcp.logins import way_to
from swarm.capabilities.mcp.messages import ABSENT, introduce
from swarm.capabilities.mcp.pins import Pin, PinnedTool, Pins
from swarm.capabilities.mcp.server_tools import ABOUT_SERVERS, TOOL_SEARCH, ServerTool, must_defer
from swarm.capabilities.memory.stores import Places
from swarm.core.errors import ToolError
from swarm.definitions.mcp.reader import wanted_servers
from swarm.definitions.mcp.servers import JobServers, Server, server_keys, tool_name
from swarm.definitions.names import canonical_tool, split_pattern
from swarm.definitions.tools import is_mcp, matches_tool
from swarm.models.catalogue import context_tokens
from swarm.runtime.parts import Parts
from swarm.runtime.steps import Offer, Step
from swarm.tools import Tool, ToolContext

_MAX_TOLD = 500


class Servers(Step):
    """Those of one segment's agent."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._segment = parts.segment
        self._pinned: dict[str, Pin] = {}
        self.missing: dict[str, str] = {}
        """By name, servers that could not be started when it began, and why."""

    @cached_property
    def all(self) -> dict[str, Server]:
        """Those that it may have tools of, by the part that the tools' names have of them."""
        segment = self._segment
        own = segment.spec.definition.servers
        found = {server.key: server for server in [*self._of_job(), *own]}
        return {key: server for key, server in found.items() if self._wants(server)}

    @property
    def adds_tools(self) -> bool:  # type: ignore[override]
        """Whether it has any."""
        return bool(self.all)

    def unfit(self) -> str:
        """It has servers, and this worker nothing to speak with them, or not those that others say they have."""
        segment = self._segment
        if not self.all or (can_start_broker() and set(self.at_home) <= set(server_keys(segment.settings))):
            return ""
        segment.store.agents.need(segment.claim, needs_of(segment.claim.spec, serving=True, servers=self.at_home))
        return "its worker has not what it takes for its MCP servers"

    def clear(self) -> None:
        spec, settings = self._segment.spec, self._segment.settings
        if spec.parent_id is None:
            end_servers(settings, job=spec.job_id)
        elif spec.isolation != "none" or spec.is_carried:
            end_servers(settings, job=spec.job_id, workspace=spec.workspace)
        elif spec.definition.servers:
            end_servers(settings, owner=spec.agent_id)

    @cached_property
    def at_home(self) -> list[str]:
        """Those of its servers that workers say they have, by the part that tools' names have of them: others may not have these."""
        if not self.all:
            return []
        named = {name for has in read_workers(self._segment.store.fleet.workers().values()) for name in has.offers}
        return [key for key in self.all if offer("mcp", key) in named]

    def _of_job(self) -> list[Server]:
        found = self._segment.carried("servers", JobServers, "the MCP servers")
        return [] if found is None else found.servers

    def _wants(self, server: Server) -> bool:
        listed = self._segment.spec.definition.tools
        if listed is None:
            return True
        names = [canonical_tool(split_pattern(entry)[0]) for entry in listed]
        prefix = tool_name(server.name, "")
        return any(
            name == prefix.removesuffix("__") or name.startswith(prefix) or matches_tool(name, f"{prefix}x")
            for name in names
        )

    # -- when it begins ------------------------------------------------------------------------------------

    def offer(self, spec: AgentSpec) -> Offer | None:
        """Of an agent that has servers, or is to be told of some; only its own."""
        is_own = spec.agent_id == self._segment.spec.agent_id
        return ServersOffer(self) if is_own and (self.all or self.elsewhere or self.absent) else None

    def opened(self, entry: Started) -> Started | Finished:
        required = [server.name for server in self.all.values() if server.required and server.name in self.missing]
        if required:
            reason = f"the MCP server {required[0]} is required: {self.missing[required[0]]}"
            return Finished(state="failed", reason=reason)
        given, segment = [tool["name"] for tool in entry.tools], self._segment
        if self.at_home:
            segment.store.agents.need(segment.claim, needs_of(segment.claim.spec, given, servers=self.at_home))
        return entry.model_copy(update={"kinds": self._kinds(given)})

    def list_tools(self) -> list[Tool]:
        """The tools of its servers, before any filter. Servers whose tools nobody has asked for yet in this job are started."""
        if not self.all or not can_start_broker():
            return []
        pins = Pins(self._segment.store.keyspace, self._segment.spec.job_id)
        known = pins.load()
        fresh = [server for server in self.all.values() if self._place(server) not in known]
        with ThreadPoolExecutor(max(1, min(8, len(fresh)))) as pool:
            for server, pin in zip(fresh, pool.map(self._try_to_list, fresh), strict=True):
                if isinstance(pin, Pin):
                    known[self._place(server)] = pins.pin(self._place(server), pin)
                else:
                    self._miss(server, pin)
        self._take(known)
        return self._make_tools()

    def _miss(self, server: Server, why: str) -> None:
        self.missing[server.name] = why
        spec = self._segment.spec
        told = f"{server.name} could not be started: {' '.join(why.split())}"
        self._segment.store.events.emit_once(spec.job_id, "server", spec.agent_id, why=told[:_MAX_TOLD])

    def _place(self, server: Server) -> str:
        """One that a definition has to itself is pinned apart from another of that name."""
        return server.key if server.scope != "definition" else f"{server.key}@{server.digest[:16]}"

    def _try_to_list(self, server: Server) -> Pin | str:
        try:
            return self._calling.find_pin(server, self.parts.toolbox.context_of(""))
        except ServerAway as away:
            return away.why

    def _make_tools(self) -> list[Tool]:
        allowed = [(server, tool) for server, tool in self._each_tool() if self._may_have(tool)]
        plain = [self._make_tool(server, tool) for server, tool in allowed]
        room = context_tokens(self._segment.spec.model, prices_file=self._segment.settings.prices_file)
        deferrable = [tool.schema() for (server, _), tool in zip(allowed, plain, strict=True) if not server.always_load]
        if not must_defer(deferrable, room):
            return list(plain)
        return [self._make_tool(server, tool, deferred=not server.always_load) for server, tool in allowed]

    def _each_tool(self) -> Iterable[tuple[Server, PinnedTool]]:
        for key, pin in sorted(self._pinned.items()):
            yield from ((self.all[key], tool) for tool in pin.tools)

    def _may_have(self, tool: PinnedTool) -> bool:
        """An agent that only reads gets what is known to only read, and what its definition names one by one."""
        definition = self._segment.spec.definition
        if not definition.read_only or tool.kind == "look":
            return True
        return tool.called in (split_pattern(entry)[0] for entry in definition.tools or ())

    def add_tools_about(self, tools: list[Tool]) -> list[Tool]:
        """The agent's tools, with those that tools of servers are of no use without."""
        mine = [tool for tool in tools if isinstance(tool, ServerTool)]
        keys = {tool.name.split("__")[1] for tool in mine}
        pins = [pin for key, pin in self._pinned.items() if key in keys or not pin.tools]
        about = [
            one for what, found in ABOUT_SERVERS.items() if any(getattr(pin, what) for pin in pins) for one in found
        ]
        search = [TOOL_SEARCH] if any(tool.deferred for tool in mine) else []
        barred = {canonical_tool(split_pattern(entry)[0]) for entry in self._segment.spec.definition.disallowed_tools}
        return [*tools, *(tool for tool in [*search, *about] if tool.name not in barred)]

    @cached_property
    def elsewhere(self) -> list[str]:
        """Of an agent that works through others: the job's servers that it has no tools of, by name."""
        if not self._segment.spec.definition.coordination:
            return []
        return [server.name for server in self._of_job() if server.key not in self.all]

    @cached_property
    def absent(self) -> list[str]:
        """Servers that its definition names, and that its job has not."""
        return [key for key in wanted_servers(self._segment.spec.definition) if key not in self.all]

    def introduce(self) -> str:
        """What its system prompt says of them."""
        absent = ABSENT.format(names=", ".join(self.absent)) if self.absent else ""
        others = explain_servers(self.elsewhere) if self.elsewhere else ""
        return "\n\n".join(filter(None, [introduce(self._pinned, self.missing), absent, others]))

    def _kinds(self, names: Iterable[str]) -> dict[str, str]:
        """Of tools whose calls are not effects, what they are."""
        given = set(names)
        return {
            tool.called: tool.kind for _, tool in self._each_tool() if tool.called in given and tool.kind != "effect"
        }

    # -- its calls -----------------------------------------------------------------------------------------

    def equip(self, context: ToolContext) -> None:
        context.servers, context.servers_seen = self, self._segment.history.servers

    def find_tool(self, name: str) -> Tool | None:
        """The tool of that name; None if it is no tool of a server. Raises `ToolError` if its server cannot be had."""
        if not is_mcp(name):
            return None
        self._load_pins()
        for server, tool in self._each_tool():
            if tool.called == name:
                return self._make_tool(server, tool)
        raise ToolError(f"The MCP server of {name} does not travel with this job any more: the call was not made.")

    def _load_pins(self) -> None:
        if not self._pinned:
            self._take(Pins(self._segment.store.keyspace, self._segment.spec.job_id).load())

    def _take(self, known: dict[str, Pin]) -> None:
        self._pinned = {key: pin for key, server in self.all.items() if (pin := known.get(self._place(server)))}

    def _make_tool(self, server: Server, tool: PinnedTool, *, deferred: bool = False) -> ServerTool:
        # The kind that holds is the one that was journaled when the agent began.
        run = partial(self._calling.call, server, tool)
        return ServerTool(tool.called, tool.description, {}, run=run, pinned=tool, deferred=deferred)

    def names(self, what: str) -> list[str]:
        """The servers that offer resources, or prompts."""
        self._load_pins()
        return [self.all[key].name for key, pin in sorted(self._pinned.items()) if getattr(pin, what)]

    def ask(self, server: str, request: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Ask a server about its resources or prompts. Raises `ToolError`."""
        found = next((one for one in self.all.values() if server in (one.name, one.key)), None)
        if found is None:
            raise ToolError(
                f"there is no MCP server {server!r}; there are: {', '.join(one.name for one in self.all.values())}"
            )
        return self._calling.ask(found, request, context)

    def deferred(self) -> list[dict[str, Any]]:
        """The schemas of its tools that must be searched for."""
        return [tool for tool in self._segment.history.tools if tool.get("defer_loading")]

    @cached_property
    def _calling(self) -> ServerCaller:
        segment = self._segment
        return ServerCaller(
            Access(
                line=line_of(segment.settings),
                allowed=segment.settings.mcp_variables(),
                network_off=segment.settings.network == "off",
                read_only=segment.spec.definition.read_only or segment.mode == "plan",
                ask_seconds=segment.ask_seconds,
                find_login=self._find_login,
            )
        )

    def _find_login(self, url: str) -> dict[str, Any] | None:
        segment = self._segment
        # Whose memory its agents have, his logins they have.
        document = segment.store.jobs.memory(segment.spec.job_id)
        person = Places.model_validate_json(document).owner if document else ""
        return way_to(segment.settings, segment.store, person, url)


class ServersOffer(Offer):
    """What an agent's servers add to the beginning of its requests."""

    def __init__(self, servers: Servers) -> None:
        self._servers, self._tools = servers, servers.list_tools()
        self.key = (json.dumps([tool.schema() for tool in self._tools]), servers.introduce())

    def tools(self) -> list[Tool]:
        return self._tools

    def finish(self, tools: list[Tool]) -> list[Tool]:
        return self._servers.add_tools_about(tools)

    def introduce(self) -> str:
        return self._servers.introduce()
