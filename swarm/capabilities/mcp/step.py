"""One running agent's MCP servers: their tools when the agent begins, and their calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

from swarm.agent.coordination.messages import explain_servers
from swarm.agent.decision import Action, CallModel
from swarm.agent.entries import Finished, Started
from swarm.agent.needs import SERVERS, needs_of, offer, read_workers
from swarm.agent.spec import AgentSpec
from swarm.capabilities.mcp.caller import Access, ServerAway, ServerCaller
from swarm.capabilities.mcp.changes import ToolChange, adopt
from swarm.capabilities.mcp.host import end_servers, line_of
from swarm.capabilities.mcp.logins import way_to
from swarm.capabilities.mcp.messages import ABSENT, introduce
from swarm.capabilities.mcp.pins import Pin, PinnedTool, Pins
from swarm.capabilities.mcp.server_tools import ABOUT_SERVERS, TOOL_SEARCH, ServerTool, must_defer
from swarm.core.errors import ToolError
from swarm.definitions.mcp.lacks import NO_EXTRA, has_extra
from swarm.definitions.mcp.reader import may_have, needed_servers, wanted_servers
from swarm.definitions.mcp.servers import JobServers, Server, server_keys
from swarm.definitions.memory_stores import Places
from swarm.definitions.names import canonical_tool, split_pattern
from swarm.definitions.tools import is_mcp
from swarm.models.catalogue import context_tokens
from swarm.runtime.approvals import judge_call
from swarm.runtime.parts import Parts
from swarm.runtime.request_prefix import permitted
from swarm.runtime.steps import Offer, Step
from swarm.tools import Tool, ToolContext

_MAX_TOLD = 500


class Servers(Step):
    """The servers of one segment's agent."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._segment = parts.segment
        self._pinned: dict[str, Pin] = {}
        self.missing: dict[str, str] = {}
        """Servers that could not be started when the agent began: name → reason."""

    @cached_property
    def all(self) -> dict[str, Server]:
        """Servers whose tools the agent may have, by their part of the tools' names."""
        segment = self._segment
        own = segment.spec.definition.servers
        found = {server.key: server for server in [*self._of_job(), *own]}
        return {key: server for key, server in found.items() if may_have(segment.spec.definition, server)}

    takes = (CallModel,)

    @property
    def adds_tools(self) -> bool:  # type: ignore[override]
        """Whether the agent has servers."""
        return bool(self.all)

    def unfit(self) -> str:
        """Why this worker cannot run the agent, and another can: it lacks the MCP extra, or servers that others report.

        If no worker has the extra, the agent goes without servers. Only a job whose first agent needs one waits.
        """
        segment = self._segment
        if has_extra():
            fits = set(self.at_home) <= set(server_keys(segment.settings))
        else:
            waits = segment.spec.parent_id is None and self._needed
            fits = not waits and offer("mcp", SERVERS) not in self._offered
        if not self.all or fits:
            return ""
        segment.store.agents.need(segment.claim, needs_of(segment.claim.spec, serving=True, servers=self.at_home))
        return "its worker lacks support for its MCP servers"

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
        """The agent's servers that only some workers report, by their part of the tools' names."""
        if not self.all:
            return []
        return [key for key in self.all if offer("mcp", key) in self._offered]

    @cached_property
    def _offered(self) -> set[str]:
        """Capabilities that any worker offers."""
        return {name for has in read_workers(self._segment.store.fleet.workers().values()) for name in has.offers}

    @cached_property
    def _needed(self) -> list[str]:
        """The servers that the agent does not start without, by name."""
        return [server.name for server in needed_servers(self._segment.spec.definition, self._of_job())]

    def _of_job(self) -> list[Server]:
        found = self._segment.carried("servers", JobServers, "the MCP servers")
        return [] if found is None else found.servers

    # -- when it begins ------------------------------------------------------------------------------------

    def offer(self, spec: AgentSpec) -> Offer | None:
        """Offer the servers of an agent that has some, or must know of missing ones."""
        is_own = spec.agent_id == self._segment.spec.agent_id
        return ServersOffer(self) if is_own and (self.all or self.elsewhere or self.absent) else None

    def opened(self, entry: Started) -> Started | Finished:
        required = [server.name for server in self.all.values() if server.required] if has_extra() else self._needed
        if absent := [name for name in required if name in self.missing]:
            reason = f"the MCP server {absent[0]} is required: {self.missing[absent[0]]}"
            return Finished(state="failed", reason=reason)
        given, segment = [tool["name"] for tool in entry.tools], self._segment
        if self.at_home:
            segment.store.agents.need(segment.claim, needs_of(segment.claim.spec, given, servers=self.at_home))
        offers = {key: pin.offer for key, pin in self._pinned.items() if pin.offer}
        return entry.model_copy(update={"kinds": self._kinds(given), "offers": offers})

    # -- changed tools -------------------------------------------------------------------------------------

    def due(self, action: Action) -> Callable[[], None] | None:
        if not isinstance(action, CallModel) or not action.tools_allowed or self._segment.spec.fork is not None:
            return None
        changes = [change for key in self._segment.history.offers if (change := self._find_change(key)) is not None]
        return partial(self._follow, changes) if changes else None

    def _find_change(self, key: str) -> ToolChange | None:
        server = self.all.get(key)
        if server is None:
            return None
        known = self._segment.history.offers[key]
        pin = self._calling.find_change(server, self.parts.toolbox.context_of(""), known)
        if pin is None:
            return None
        names = permitted(
            self._segment.spec, [tool.called for tool in pin.tools], sandboxed=self.parts.toolbox.is_sandboxed()
        )
        tools = [tool for tool in pin.tools if tool.called in names and self._may_have(tool)]
        return ToolChange(server, pin, [self._make_tool(server, tool) for tool in tools])

    def _follow(self, changes: list[ToolChange]) -> None:
        segment = self._segment
        pins = Pins(segment.store.keyspace, segment.spec.job_id)
        for change in changes:
            # First, so that the agent's next worker finds the tools.
            self._pinned[change.server.key] = pins.renew(self._place(change.server), change.pin)
        room = context_tokens(segment.model_id, prices_file=segment.settings.prices_file)
        segment.journal.append(adopt(segment.history, segment.spec, changes, room))

    def list_tools(self) -> list[Tool]:
        """Return the servers' tools before any filter, starting servers that this job has not used yet."""
        if not self.all:
            return []
        if not has_extra():
            self._miss(list(self.all.values()), NO_EXTRA)
            return []
        pins = Pins(self._segment.store.keyspace, self._segment.spec.job_id)
        known = pins.load()
        fresh = [server for server in self.all.values() if self._place(server) not in known]
        with ThreadPoolExecutor(max(1, min(8, len(fresh)))) as pool:
            for server, pin in zip(fresh, pool.map(self._try_to_list, fresh), strict=True):
                if isinstance(pin, Pin):
                    known[self._place(server)] = pins.pin(self._place(server), pin)
                else:
                    self._miss([server], pin)
        self._take(known)
        return self._make_tools()

    def _miss(self, servers: list[Server], why: str) -> None:
        names, spec = [server.name for server in servers], self._segment.spec
        self.missing |= dict.fromkeys(names, why)
        told = f"{', '.join(names)} could not be started: {' '.join(why.split())}"
        self._segment.store.events.emit_once(spec.job_id, "server", spec.agent_id, why=told[:_MAX_TOLD])

    def _place(self, server: Server) -> str:
        """The pin's place: a definition's private server is pinned apart from another of that name."""
        return server.key if server.scope != "definition" else f"{server.key}@{server.digest[:16]}"

    def _try_to_list(self, server: Server) -> Pin | str:
        try:
            return self._calling.find_pin(server, self.parts.toolbox.context_of(""))
        except ServerAway as away:
            return away.why

    def _make_tools(self) -> list[Tool]:
        allowed = [(server, tool) for server, tool in self._each_offered() if self._may_have(tool)]
        plain = [self._make_tool(server, tool) for server, tool in allowed]
        room = context_tokens(self._segment.model_id, prices_file=self._segment.settings.prices_file)
        deferrable = [tool.schema() for (server, _), tool in zip(allowed, plain, strict=True) if not server.always_load]
        if not must_defer(deferrable, room):
            return list(plain)
        return [self._make_tool(server, tool, deferred=not server.always_load) for server, tool in allowed]

    def _each_tool(self) -> Iterable[tuple[Server, PinnedTool]]:
        for key, pin in sorted(self._pinned.items()):
            yield from ((self.all[key], tool) for tool in pin.tools)

    def _each_offered(self) -> Iterable[tuple[Server, PinnedTool]]:
        return ((server, tool) for server, tool in self._each_tool() if not tool.gone)

    def _may_have(self, tool: PinnedTool) -> bool:
        """Whether the agent may have a tool: a read-only agent gets read-only tools and those named one by one."""
        definition = self._segment.spec.definition
        if not definition.read_only or tool.kind == "look":
            return True
        return tool.called in (split_pattern(entry)[0] for entry in definition.tools or ())

    def add_tools_about(self, tools: list[Tool]) -> list[Tool]:
        """Add the tools that tools of servers depend on."""
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
        """The job's servers that a delegating agent has no tools of, by name."""
        if not self._segment.spec.definition.coordination:
            return []
        return [server.name for server in self._of_job() if server.key not in self.all]

    @cached_property
    def absent(self) -> list[str]:
        """Servers that the agent's definition names and its job does not have."""
        return [key for key in wanted_servers(self._segment.spec.definition) if key not in self.all]

    def introduce(self) -> str:
        """The system prompt's part about servers."""
        absent = ABSENT.format(names=", ".join(self.absent)) if self.absent else ""
        others = explain_servers(self.elsewhere) if self.elsewhere else ""
        return "\n\n".join(filter(None, [introduce(self._pinned, self.missing), absent, others]))

    def _kinds(self, names: Iterable[str]) -> dict[str, str]:
        """The kinds of those tools whose calls are not effects, by name."""
        given = set(names)
        return {
            tool.called: tool.kind for _, tool in self._each_tool() if tool.called in given and tool.kind != "effect"
        }

    # -- its calls -----------------------------------------------------------------------------------------

    def equip(self, context: ToolContext) -> None:
        context.servers, context.servers_seen = self, self._segment.history.servers

    def find_tool(self, name: str) -> Tool | None:
        """Return a server's tool by name; None if it is another's. Raises `ToolError` if its server is unavailable."""
        if not is_mcp(name):
            return None
        self._load_pins()
        for server, tool in self._each_tool():
            if tool.called == name:
                return self._make_tool(server, tool)
        raise ToolError(f"The MCP server of {name} is no longer part of this job: the call was not made.")

    def _load_pins(self) -> None:
        if not self._pinned:
            self._take(Pins(self._segment.store.keyspace, self._segment.spec.job_id).load())

    def _take(self, known: dict[str, Pin]) -> None:
        self._pinned = {key: pin for key, server in self.all.items() if (pin := known.get(self._place(server)))}

    def _make_tool(self, server: Server, tool: PinnedTool, *, deferred: bool = False) -> ServerTool:
        # The kind that counts is the one journaled when the agent began.
        run = partial(self._calling.call, server, tool)
        return ServerTool(tool.called, tool.description, {}, run=run, pinned=tool, deferred=deferred)

    def names(self, what: str) -> list[str]:
        """The servers that offer resources, or prompts, and that rules and mode let the agent list without a question."""
        self._load_pins()
        offering = [self.all[key].name for key, pin in sorted(self._pinned.items()) if getattr(pin, what)]
        listing = ABOUT_SERVERS[what][0].name
        return [name for name in offering if judge_call(self._segment, listing, {"server": name}).action == "allow"]

    def ask(self, server: str, request: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Ask a server about its resources or prompts. Raises `ToolError`."""
        found = next((one for one in self.all.values() if server in (one.name, one.key)), None)
        if found is None:
            raise ToolError(
                f"there is no MCP server {server!r}; this agent has: {', '.join(one.name for one in self.all.values())}"
            )
        return self._calling.ask(found, request, context)

    def deferred(self) -> list[dict[str, Any]]:
        """The schemas of the tools that must be searched for."""
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
                may_answer=lambda server: any(step.may_answer(server) for step in self.parts.steps),
                find_login=self._find_login,
            )
        )

    def _find_login(self, url: str) -> dict[str, Any] | None:
        segment = self._segment
        # An agent uses the logins of the person whose memory it has.
        document = segment.store.jobs.memory(segment.spec.job_id)
        person = Places.model_validate_json(document).owner if document else ""
        return way_to(segment.settings, segment.store, person, url)


class ServersOffer(Offer):
    """The servers' part of the beginning of an agent's requests."""

    def __init__(self, servers: Servers) -> None:
        self._servers, self._tools = servers, servers.list_tools()
        self.key = (json.dumps([tool.schema() for tool in self._tools]), servers.introduce())

    def tools(self) -> list[Tool]:
        return self._tools

    def finish(self, tools: list[Tool]) -> list[Tool]:
        return self._servers.add_tools_about(tools)

    def introduce(self) -> str:
        return self._servers.introduce()
