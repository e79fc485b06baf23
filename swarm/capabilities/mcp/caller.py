"""Calls of servers' tools for one agent: through the host's broker, and back as results.

A call is made once. A call that certainly did not reach its server is made again. If the outcome is unknown, a call that may be repeated
is repeated; for any other the agent is notified.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from swarm.capabilities.mcp import messages
from swarm.capabilities.mcp.broker_client import BrokerClient, BrokerGone, Event
from swarm.capabilities.mcp.elicitation import CANCEL, DECLINE, ROOTS, TRIES, describe_request, make_ask, read_answer
from swarm.capabilities.mcp.launch import Confining, FindLogin, describe_launch, profile_of
from swarm.capabilities.mcp.pins import Pin, PinnedTool, make_pin
from swarm.core.errors import SwarmError, ToolError
from swarm.core.ids import question_id
from swarm.definitions.mcp.servers import Server
from swarm.definitions.plugins.words import FOLDERS
from swarm.tools import AwaitsAnswer, ToolContext, ToolResult
from swarm.tools.images import SHOWN_TYPES, find_image_fault
from swarm.tools.outputs import fit
from swarm.workspace import OUTPUT_PREFIX

_HELD_LONGER_SECONDS = 60.0
_ROUNDS = 20
"""How often one call may ask a person."""


def _confining(context: ToolContext) -> Confining | None:
    confine = context.confine
    return None if confine is None else lambda hold, argv: confine(replace(context, hold=hold), argv)


class ServerAway(ToolError):
    """A server cannot be used now; no request reached it."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(messages.NOT_STARTED.format(name=name, why=why))
        self.why = why


@dataclass(frozen=True)
class Access:
    """What an agent's calls need from its worker."""

    line: BrokerClient
    allowed: list[str]
    """Variables of the worker's environment that servers may have."""
    network_off: bool
    read_only: bool
    """Whether the agent's processes are read-only."""
    ask_seconds: float
    """How long a person can answer; 0: questions cannot be answered."""
    find_login: FindLogin
    """Finds the login of the job's person at an address."""
    may_answer: Callable[[str], bool] = lambda server: False
    """Whether a hook may answer a server's questions, by the server's name."""


class ServerCaller:
    """Calls the servers of one agent."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def find_pin(self, server: Server, context: ToolContext) -> Pin:
        """Return what a server offers, starting it if needed. Raises `ServerAway`."""
        return make_pin(server, self._start(server, self._key(server, context), context)["about"])

    def find_change(self, server: Server, context: ToolContext, known: str) -> Pin | None:
        """Return a server's offer if it runs on this host, and its tools are no longer the known ones."""
        event = self._access.line.tell({"do": "offer", "key": self._key(server, context), "known": known})
        return make_pin(server, event["about"]) if "about" in event else None

    def call(self, server: Server, tool: PinnedTool, context: ToolContext, given: dict[str, Any]) -> ToolResult:
        """Call a tool. Raises `ToolError`, or `AwaitsAnswer` if a person must answer first."""
        kept = _CachedTools(context)
        request: Event = {
            "do": "call",
            "ticket": context.idempotency_key,
            "tool": tool.name,
            "given": given,
            "seconds": server.call_seconds,
            "hold": self._access.ask_seconds + _HELD_LONGER_SECONDS,
        }
        answers: dict[str, Any] | None = None
        asked, number = kept.load()
        for _ in range(_ROUNDS):
            if asked is not None:
                answers = self._find_answers(server, tool, context, asked, number)
                request |= {"answers": answers, "state": asked["state"], "resumed": asked["held"]}
            event = self._speak(server, request, context, repeatable=tool.kind != "effect")
            if "asked" not in event:
                return self._result(server, context, event, answers)
            asked, number = event["asked"], number + 1
            kept.save(asked, number)
        raise ToolError(
            f"the MCP server {server.name} has asked {_ROUNDS} times, and still does not carry the call out"
        )

    def ask(self, server: Server, request: Event, context: ToolContext) -> Event:
        """Send a request without a ticket, for resources or prompts. Raises `ToolError`."""
        event = self._speak(server, {**request, "seconds": server.call_seconds}, context, repeatable=True)
        if "failed" in event:
            raise ToolError(_explain(server, event, None))
        return dict(event["result"])

    # -- the line ------------------------------------------------------------------------------------------

    def _key(self, server: Server, context: ToolContext) -> str:
        return profile_of(context, server, read_only=self._access.read_only).key_for(server)

    def _speak(self, server: Server, request: Event, context: ToolContext, *, repeatable: bool) -> Event:
        request = {**request, "key": self._key(server, context)}
        for last in (False, True):
            try:
                event = self._listen(server, request, context)
                if event.get("unknown") and not request.get("resumed"):
                    self._start(server, request["key"], context)
                    event = self._listen(server, request, context)
                if event.get("unknown"):
                    event = {"failed": "lost", "why": "the server has ended"}
                return event
            except BrokerGone as gone:
                if gone.said and not repeatable:
                    raise ToolError(messages.BROKER_GONE.format(name=server.name)) from gone
                if last:
                    raise ServerAway(server.name, str(gone)) from gone
        raise AssertionError("it returned, or raised")

    def _listen(self, server: Server, request: Event, context: ToolContext) -> Event:
        event: Event = {}
        for event in self._access.line.events(request, context.check):
            if "progress" in event:
                context.tell(f"{server.name}: {event['progress']}")
        return event

    def _start(self, server: Server, key: str, context: ToolContext) -> Event:
        try:
            access = self._access
            profile = profile_of(context, server, read_only=access.read_only)
            launch = describe_launch(
                server,
                profile,
                _confining(context),
                access.line.folder,
                access.allowed,
                access.network_off,
                access.find_login,
                context.environment.get(FOLDERS, ""),
            )
            event = access.line.ask({"do": "start", "key": key, "launch": launch}, context.check)
        except BrokerGone as gone:
            raise ServerAway(server.name, str(gone)) from gone
        except SwarmError as error:
            raise ServerAway(server.name, str(error)) from error
        if "failed" in event:
            raise ServerAway(server.name, event["why"])
        return event

    # -- questions -----------------------------------------------------------------------------------------

    def _find_answers(
        self, server: Server, tool: PinnedTool, context: ToolContext, asked: Event, number: int
    ) -> dict[str, Any]:
        """Return the answers to all questions. Raises `AwaitsAnswer` for the first open one."""
        answers = {}
        for name, request in sorted(asked["requests"].items()):
            if request["mode"] == "roots":
                answers[name] = ROOTS  # the broker fills them in
            elif self._access.ask_seconds <= 0 and not self._access.may_answer(server.name):
                answers[name] = DECLINE
            else:
                answers[name] = self._find_answer(server, tool, context, request, f"{number}/{name}")
        return answers

    def _find_answer(
        self, server: Server, tool: PinnedTool, context: ToolContext, request: Event, place: str
    ) -> dict[str, Any]:
        fault = ""
        for attempt in range(TRIES):
            asked_id = question_id(context.agent_id, f"{context.tool_use_id}/{place}/{attempt}")
            question = context.store.questions.find(asked_id)
            if question is None or (question.state == "open" and question.expires_at > context.now()):
                seconds = max(self._access.ask_seconds, _HELD_LONGER_SECONDS)
                ask = make_ask(server.name, tool.called, request, seconds=seconds, fault=fault)
                told = describe_request(server.name, request)
                raise AwaitsAnswer(asked_id, ask, context.tool_use_id, told, DECLINE["action"])
            if question.state != "answered":
                return CANCEL
            try:
                return read_answer(request, question.answer)
            except ValueError as error:
                fault = str(error)
        return DECLINE

    # -- results -------------------------------------------------------------------------------------------

    def _result(self, server: Server, context: ToolContext, event: Event, answers: dict[str, Any] | None) -> ToolResult:
        if "failed" in event:
            raise ToolError(_explain(server, event, answers))
        result, run = event["result"], event["run"]
        known = context.servers_seen.get(server.key)
        note = (
            messages.RESTARTED.format(name=server.name)
            if known and known != run and server.transport == "stdio"
            else ""
        )
        rendered = render(context, result, note=note)
        return rendered.model_copy(update={"servers": {server.key: run}})


def render(context: ToolContext, result: Event, *, note: str = "") -> ToolResult:
    """Render a server's result for the model: long text shortened in the middle, images if they can be shown."""
    lines, shown = [line for line in (note, result["text"]) if line], []
    for image in result["images"]:
        if fault := _find_fault(image):
            lines.append(f"[an image that cannot be shown: {fault}]")
        else:
            shown.append({"type": "image", "source": {"type": "base64", **image}})
    text = "\n".join(lines) or "(It returned nothing.)"
    fitted = fit(context.outputs, context.tool_use_id, text)
    blocks = [{"type": "text", "text": fitted}, *shown] if shown else None
    return ToolResult(text=text, is_error=result["is_error"], blocks=blocks)


def _find_fault(image: dict[str, str]) -> str:
    if image["media_type"] not in SHOWN_TYPES:
        return f"{image['media_type']} is none of {', '.join(sorted(SHOWN_TYPES))}"
    try:
        return find_image_fault(image["media_type"], base64.b64decode(image["data"], validate=True))
    except ValueError as error:
        return str(error)


def _explain(server: Server, event: Event, answers: dict[str, Any] | None) -> str:
    given = {"name": server.name, "why": event["why"]}
    match event["failed"]:
        case "ended":
            return messages.ENDED.format(**given)
        case "time":
            return messages.TIMED_OUT.format(**given)
        case "lost":
            return messages.LOST.format(**given, answer=json.dumps(answers, ensure_ascii=False)[:500])
    return f"The MCP server {server.name} refused the call: {event['why']}"


class _CachedTools:
    """The last questions of a call, kept with the agent's long outputs so that any host can continue the call."""

    def __init__(self, context: ToolContext) -> None:
        self._outputs, self._key = context.outputs, f"{context.tool_use_id}.asked"

    def load(self) -> tuple[Event | None, int]:
        found = self._outputs.load(f"{OUTPUT_PREFIX}{self._key}")
        known: dict[str, Any] = json.loads(found) if found else {"asked": None, "number": 0}
        return known["asked"], known["number"]

    def save(self, asked: Event, number: int) -> None:
        self._outputs.keep(self._key, json.dumps({"asked": asked, "number": number}))
