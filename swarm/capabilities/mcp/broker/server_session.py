"""One server in the broker: started by the first request, listed once, ended with all its processes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from swarm.capabilities.mcp.broker.admission import Admission
from swarm.capabilities.mcp.broker.calls import Event, ServerCall
from swarm.capabilities.mcp.broker.content import (
    describe_error,
    describe_question,
    describe_tool,
    render_contents,
    render_prompt,
    render_result,
)
from swarm.capabilities.mcp.broker.transports import StderrTail, open_transport
from swarm.core.release import VERSION

log = logging.getLogger("swarm.mcp")
MAX_LISTED = 1_000
_PAGES = 100
_CHANGES = 100
_LIST_SECONDS = 5.0
_CLOSED = -32_000
_STOP_SECONDS = 10.0


class CannotStart(Exception):
    """A server did not start, or breaks the protocol; no request reached it."""


class ServerSession:
    """One run of a server."""

    def __init__(self, key: str, launch: dict[str, Any]) -> None:
        self.key, self.launch = key, launch
        self.run = secrets.token_hex(6)
        """The id of this start; what the server holds in memory is lost with it."""
        self.about: dict[str, Any] = {}
        """The server's tools, its instructions, and what else it offers."""
        self.used_at = time.monotonic()
        self.started_at = time.time()
        self.calls: dict[str, ServerCall] = {}
        self.count = 0
        self._client: Client | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hung_up, self._stop = asyncio.Event(), asyncio.Event()
        self._said, self._admission = StderrTail(), Admission(launch)
        self._changed, self._listed = asyncio.Event(), asyncio.Event()
        self._listed.set()
        self._task = asyncio.create_task(self._live())

    # -- start and end -------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Wait until the server is ready. Raises `CannotStart`."""
        seconds = float(self.launch["start_seconds"])
        try:
            await asyncio.wait_for(asyncio.shield(self._ready), seconds)
        except TimeoutError:
            await self.end()
            raise CannotStart(f"it was not ready within {seconds:g} s{self._last_words()}") from None

    @property
    def has_ended(self) -> bool:
        """Whether the server has ended, or is about to."""
        return self._task.done() or self._hung_up.is_set() or self._stop.is_set()

    async def end(self) -> None:
        """End the server with its calls and all its processes."""
        self._stop.set()
        for call in list(self.calls.values()):
            call.end()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait([self._task], timeout=_STOP_SECONDS)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_STOP_SECONDS)

    async def _live(self) -> None:
        failure = "it ended"
        try:
            async with self._open() as client:
                self.about = await self._describe(client)
                self._client = client
                self._ready.set_result(None)
                waits = [asyncio.create_task(event.wait()) for event in (self._hung_up, self._stop)]
                follows = [asyncio.create_task(self._follow(client)), asyncio.create_task(self._listen(client))]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for task in (*waits, *follows):
                    task.cancel()
                await asyncio.gather(*follows, return_exceptions=True)
        except Exception as error:
            failure = self._admission.refusal or describe_error(error)
            log.warning("%s: %s", self.launch["name"], failure)
        finally:
            self._hung_up.set()
            self._said.close()
            await self._admission.close()
            if not self._ready.done():
                self._ready.set_exception(CannotStart(f"{failure}{self._last_words()}"))
                self._ready.exception()  # perhaps no request waits for it
            if home := self.launch.get("home"):
                shutil.rmtree(home, ignore_errors=True)

    def _open(self) -> Client:
        return Client(
            open_transport(self.launch, self._hung_up, self._said, self._admission),
            cache=None,
            client_info=types.Implementation(name="swarm", version=VERSION),
            message_handler=self._hear,
            elicitation_callback=self._elicit,
            list_roots_callback=self._list_roots if self.launch.get("roots") else None,
        )

    async def _describe(self, client: Client) -> dict[str, Any]:
        offers = client.server_capabilities
        return {
            **(await _list_tools(client) if offers.tools else _offer_of([])),
            "instructions": client.instructions or "",
            "resources": offers.resources is not None,
            "prompts": offers.prompts is not None,
        }

    # -- changes of its tools ------------------------------------------------------------------------------

    async def _hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._note_change()

    def _note_change(self) -> None:
        self._listed.clear()
        self._changed.set()

    async def _listen(self, client: Client) -> None:
        """Hear of changes from a server of the protocol of 2026-07-28, which tells only listeners."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not client.server_capabilities.tools:
            return
        with suppress(MCPError, SubscriptionLost, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._note_change()

    async def _follow(self, client: Client) -> None:
        """List the tools again after each change, up to a generous number of times."""
        for _ in range(_CHANGES):
            await self._changed.wait()
            self._changed.clear()
            try:
                async with asyncio.timeout(_LIST_SECONDS):
                    self.about |= await _list_tools(client)
            except (MCPError, TimeoutError) as error:
                log.warning("%s: its changed tools cannot be listed: %s", self.launch["name"], describe_error(error))
            if not self._changed.is_set():
                self._listed.set()
        self._listed.set()

    def offer(self, known: str) -> Event:
        """Describe the server if its tools differ from the known ones."""
        return {"same": True} if self.about.get("offer") == known else {"about": self.about}

    def _last_words(self) -> str:
        return f"; the last it said:\n{self._said.text}" if self._said.text else ""

    # -- requests to the server-----------------------------------------------------------------------------

    def begin_call(self, ticket: str, request: Event) -> ServerCall:
        """Begin a call of a tool and return it; its events carry the result."""
        call = ServerCall(ticket)
        self.calls[ticket] = call
        self.count += 1
        call.start(self._carry_out(call, request))
        return call

    async def _carry_out(self, call: ServerCall, request: Event) -> Event:
        async def tell(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            call.tell({"progress": f"{message} ({share})" if message else share})

        async def work() -> Event:
            assert self._client is not None
            answered: dict[str, Any] | None = request.get("answers")
            answers: types.InputResponses | None = None
            if answered is not None:
                answers = {name: self._answer(each) for name, each in answered.items()}
            result = await self._client.session.call_tool(
                request["tool"],
                request["given"],
                progress_callback=tell,
                input_responses=answers,
                request_state=request.get("state"),
                allow_input_required=True,
            )
            return (
                self._asked(result)
                if isinstance(result, types.InputRequiredResult)
                else {"result": render_result(result)}
            )

        try:
            event = await self._try(work(), request)
            # The caller's next turn begins with the tools that the call has brought.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._listed.wait(), _LIST_SECONDS)
            return event
        finally:
            if self.calls.get(call.ticket) is call:
                del self.calls[call.ticket]
            self.used_at = time.monotonic()

    async def ask(self, request: Event) -> Event:
        """Carry out a request without a ticket: the server's resources and prompts."""
        client = self._client
        assert client is not None

        async def work() -> Event:
            match request["do"]:
                case "resources":
                    listed = await _all_pages(client.list_resources, "resources")
                    return {"result": {"listed": [_brief(each.uri, each.name, each.description) for each in listed]}}
                case "read":
                    return {"result": render_contents((await client.read_resource(request["uri"])).contents)}
                case "prompts":
                    found = await _all_pages(client.list_prompts, "prompts")
                    return {"result": {"listed": [_brief(_signature(each), "", each.description) for each in found]}}
                case _:
                    made = await client.get_prompt(request["name"], request["given"])
                    return {"result": render_prompt(made)}

        self.used_at = time.monotonic()
        return await self._try(work(), request)

    async def _try(self, work: Any, request: Event) -> Event:
        try:
            async with asyncio.timeout(request["seconds"]):
                event: Event = await work
                return event
        except TimeoutError:
            return {
                "failed": "time",
                "why": f"it did not end within {request['seconds']:g} s and was cancelled",
            }
        except MCPError as error:
            if self._hung_up.is_set() or error.error.code == _CLOSED:
                return await self._gone()
            return {"failed": "refused", "why": self._admission.refusal or describe_error(error)}
        except asyncio.CancelledError:
            if self._stop.is_set():
                return {"failed": "ended", "why": "it was ended"}
            raise
        except Exception as error:
            if self.has_ended:
                return await self._gone()
            log.exception("%s", self.launch["name"])
            return {"failed": "refused", "why": f"its answer cannot be used: {describe_error(error)}"}

    async def _gone(self) -> Event:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._task), 2.0)
        return {"failed": "ended", "why": f"it ended{self._last_words()}"}

    # -- requests of the server---------------------------------------------------------------------------

    async def _elicit(self, context: Any, params: Any) -> types.ElicitResult | types.ErrorData:
        # Over pipes a question does not name its call; all calls are for the same person.
        waiting = [call for call in self.calls.values() if not call.waits_for_answer and not call.has_ended]
        if not waiting:
            return types.ElicitResult(action="cancel")
        return _elicited((await waiting[-1].ask({"": describe_question(params)}))[""])

    async def _list_roots(self, context: Any) -> types.ListRootsResult:
        return self._roots()

    def _roots(self) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=f"file://{folder}") for folder in self.launch["roots"]])

    def _asked(self, result: types.InputRequiredResult) -> Event:
        requests: dict[str, Any] = {}
        for name, each in (result.input_requests or {}).items():
            if isinstance(each, types.ListRootsRequest):
                requests[name] = {"mode": "roots"}
                continue
            if not isinstance(each, types.ElicitRequest):
                return {"failed": "refused", "why": f"it asks for {each.method}, which is not offered here"}
            requests[name] = describe_question(each.params)
        return {"asked": {"requests": requests, "state": result.request_state, "held": False}}

    def _answer(self, given: Event) -> types.ElicitResult | types.ListRootsResult:
        return self._roots() if given["action"] == "roots" else _elicited(given)


def _elicited(given: Event) -> types.ElicitResult:
    return types.ElicitResult(action=given["action"], content=given.get("content"))


async def _list_tools(client: Client) -> dict[str, Any]:
    return _offer_of([describe_tool(tool) for tool in await _all_pages(client.list_tools, "tools")])


def _offer_of(tools: list[dict[str, Any]]) -> dict[str, Any]:
    tools = sorted(tools, key=lambda tool: str(tool["name"]))
    return {"tools": tools, "offer": hashlib.sha256(json.dumps(tools, sort_keys=True).encode()).hexdigest()[:16]}


async def _all_pages(fetch: Callable[..., Awaitable[Any]], what: str) -> list[Any]:
    """Read a whole list of the server, up to a generous bound."""
    found: list[Any] = []
    cursor = None
    for _ in range(_PAGES):
        page = await fetch(cursor=cursor)
        found += getattr(page, what)
        cursor = page.next_cursor
        if not cursor or len(found) >= MAX_LISTED:
            break
    return found[:MAX_LISTED]


def _brief(name: object, title: str, description: str | None) -> str:
    about = "; ".join(filter(None, [title, " ".join((description or "").split())]))
    return f"{name}: {about}" if about else str(name)


def _signature(prompt: types.Prompt) -> str:
    words = [each.name if each.required else f"{each.name}?" for each in prompt.arguments or ()]
    return f"{prompt.name}({', '.join(words)})"
