"""Programs that speak the Agent Client Protocol (version 1), as JSON-RPC lines on their standard input and output.

The program keeps its session; this is its client. Its reports become the same entries as the calls of any agent: a call is
journaled when it is reported, its permission is decided by our rules, and its result ends it. It is durable per prompt: a call that
waits for a person's answer ends the program, and the answer comes with the next prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from swarm.agent.harnesses import PERHAPS_RUN
from swarm.capabilities.harnesses.adapter import URL, Adapter, ProgramStart
from swarm.core.log import EventLog
from swarm.definitions.names import canonical_tool
from swarm.definitions.tools import EDIT, READ, SHELL
from swarm.models import Block

log = EventLog("swarm.harness")
_VERSION = 1
_NO_METHOD = -32601
_DONE = ("completed", "failed")
_STOPS = {"end_turn": "end_turn", "max_tokens": "max_tokens", "refusal": "refusal", "max_turn_requests": "end_turn"}
_CAPABILITIES = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
_PATHS = ("filePath", "filepath", "file_path", "path")

Result = dict[str, Any]


class ToldCall(NamedTuple):
    """A call as far as the program has reported it."""

    id: str
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    given: dict[str, Any] = {}
    paths: tuple[str, ...] = ()
    content: tuple[dict[str, Any], ...] = ()
    output: Any = None

    def merge(self, update: dict[str, Any]) -> ToldCall:
        """Return the call with the parts that an update changes."""
        given = update.get("rawInput")
        places = update.get("locations")
        content = update.get("content")
        return self._replace(
            title=str(update.get("title") or self.title),
            kind=str(update.get("kind") or self.kind),
            status=str(update.get("status") or self.status),
            given={**self.given, **given} if isinstance(given, dict) else self.given,
            paths=tuple(str(one.get("path")) for one in places) if places else self.paths,
            content=tuple(one for one in content if isinstance(one, dict))
            if isinstance(content, list)
            else self.content,
            output=update.get("rawOutput", self.output),
        )

    @property
    def path(self) -> str:
        """The file that it is about; empty if it names none."""
        named = [str(self.given[name]) for name in _PATHS if self.given.get(name)]
        changed = [str(part["path"]) for part in self.content if part.get("type") == "diff"]
        return next(iter([*named, *changed, *self.paths]), "")

    def as_call(self) -> Block:
        """Return the call as one of ours: the tool by its kind, so that rules about files and commands hold."""
        name, given = self._name_tool()
        return {"type": "tool_use", "id": self.id, "name": name, "input": given}

    def _name_tool(self) -> tuple[str, dict[str, Any]]:
        match self.kind:
            case "execute":
                command = self.given.get("command", self.title)
                words = " ".join(map(str, command)) if isinstance(command, list) else str(command)
                return SHELL, {"command": words, **_rest(self.given, "command")}
            case "edit" | "delete" | "move":
                return self._name_change()
            case "read":
                return READ, {"file_path": self.path}
            case "search":
                pattern = str(self.given.get("pattern") or self.title)
                return canonical_tool("grep_search"), {"pattern": pattern, "path": self.path or "."}
            case "fetch":
                return canonical_tool("fetch"), {"url": str(self.given.get("url") or self.title)}
            case "think":
                return canonical_tool("update_plan"), dict(self.given)
        return re.sub(r"\W+", "_", self.title).strip("_")[:60] or "Other", dict(self.given)

    def _name_change(self) -> tuple[str, dict[str, Any]]:
        diff = next((part for part in self.content if part.get("type") == "diff"), {})
        if "content" in self.given and not diff.get("oldText"):
            return canonical_tool("write_file"), {"file_path": self.path, "content": str(self.given["content"])}
        old = diff.get("oldText") or self.given.get("oldString") or ""
        new = diff.get("newText", self.given.get("newString")) or ""
        texts = {"old_string": old, "new_string": new} if old or new else {"action": self.kind}
        return EDIT, {"file_path": self.path, **texts}

    def tell_result(self) -> str:
        """Return its result as text."""
        texts = [
            str(part["content"].get("text") or "") for part in self.content if isinstance(part.get("content"), dict)
        ]
        text = "\n".join(filter(None, texts))
        if text or self.output is None:
            return text
        told = self.output.get("output") if isinstance(self.output, dict) else self.output
        return told if isinstance(told, str) else json.dumps(self.output, ensure_ascii=False)


class AcpClient(Adapter):
    """One run of a program that speaks the protocol: one prompt."""

    keeps_each_call: ClassVar[bool] = False
    lacking: ClassVar[str] = PERHAPS_RUN
    tells_inputs: ClassVar[bool] = True
    """Whether the program reports inputs of calls. A call is then journaled once its input is known."""
    untold: ClassVar[str] = ""
    """Words in place of an empty result."""

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._number = 0
        self._awaited: dict[int, Callable[[Result], None]] = {}
        """Takers of answers, by the number of the request."""
        self._session = ""
        self._prompt = ""
        self._is_prompted = False
        self._text: list[str] = []
        self._thought: list[str] = []
        self._blocks = 0
        self._calls: dict[str, ToldCall] = {}
        self._journaled: set[str] = set()
        self._asked: dict[str, dict[str, Any]] = {}
        """Requests for permission, by call."""
        self._later: list[str] = []
        """Reported calls that wait for the end of another one."""

    def launch(self, program: str, given: Path, *, resumes: bool) -> ProgramStart:
        harness = self.run.spec.definition.harness
        assert harness is not None, "it is no harness"
        environment = {"SWARM_MODEL_URL": URL, "SWARM_MODEL_TOKEN": self.run.token, "SWARM_MODEL": self.run.spec.model}
        return ProgramStart([program, *harness.command[1:]], environment)

    # -- the conversation with the program ------------------------------------------------------------------------

    def begin(self, prompt: str) -> None:
        self._prompt = prompt
        about = {"name": "swarm", "version": "1"}
        given = {"protocolVersion": _VERSION, "clientCapabilities": _CAPABILITIES, "clientInfo": about}
        self._request("initialize", given, self._initialized)

    def _initialized(self, result: Result) -> None:
        capabilities = result.get("agentCapabilities") or {}
        place = {"cwd": self.run.spec.workspace, "mcpServers": []}
        known = self.run.session_id if self.session_files else ""
        if known and (capabilities.get("sessionCapabilities") or {}).get("resume") is not None:
            self._request(
                "session/resume", {"sessionId": known, **place}, lambda told: self._opened(known), self._open_new
            )
        elif known and capabilities.get("loadSession"):
            self._request(
                "session/load", {"sessionId": known, **place}, lambda told: self._opened(known), self._open_new
            )
        else:
            self._open_new("" if not known else "it cannot resume a session")

    def _open_new(self, why: str) -> None:
        if why:
            log.warning("harness.session_lost", agent_id=self.run.spec.agent_id, why=why)
            self._prompt = self.run.tell_everything()
        place = {"cwd": self.run.spec.workspace, "mcpServers": []}
        self._request("session/new", place, lambda told: self._opened(str(told.get("sessionId"))))

    def _opened(self, session: str) -> None:
        self._session = self.run.session_id = session
        self._ask()

    def phrase(self, prompt: str) -> str:
        """Return a prompt in the form in which the program takes it for one."""
        return prompt

    def _ask(self) -> None:
        self._is_prompted = True
        prompt = [{"type": "text", "text": self.phrase(self._prompt)}]
        self._request("session/prompt", {"sessionId": self._session, "prompt": prompt}, self._answered)

    def _answered(self, result: Result) -> None:
        stop = str(result.get("stopReason"))
        self._tell_words(_STOPS.get(stop, "end_turn"))
        self.has_answered = True
        self.run.finish()

    def _request(
        self, method: str, given: Result, then: Callable[[Result], None], otherwise: Callable[[str], None] | None = None
    ) -> None:
        self._number += 1
        number = self._number

        def take(answer: Result) -> None:
            error = answer.get("error")
            if error is None:
                then(answer.get("result") or {})
            elif otherwise is not None:
                otherwise(_describe_error(error))
            else:
                self._tell_words("end_turn" if self._text else "")
                self.error = f"{method}: {_describe_error(error)}"
                self.run.finish()

        self._awaited[number] = take
        self._send({"id": number, "method": method, "params": given})

    def _send(self, message: Result) -> None:
        self.run.input.put_line({"jsonrpc": "2.0", **message})

    def hear(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        match message:
            case {"method": "session/update", "params": {"sessionId": session, "update": dict(update)}}:
                # A session that is loaded tells its past first.
                if self._is_prompted and session == self._session:
                    self._take(update)
            case {"method": "session/request_permission", "id": _, "params": dict(given)}:
                self._take_question(message, given)
            case {"method": _, "id": number}:
                self._send({"id": number, "error": {"code": _NO_METHOD, "message": "this client has no such method"}})
            case {"id": int(number)} if number in self._awaited:
                self._awaited.pop(number)(message)

    # -- its reports ----------------------------------------------------------------------------------------------

    def _take(self, update: dict[str, Any]) -> None:
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                self._hear_words("text", self._text, update)
            case "agent_thought_chunk":
                self._hear_words("thinking", self._thought, update)
            case "tool_call" | "tool_call_update":
                call_id = str(update.get("toolCallId"))
                call = self._calls.get(call_id, ToldCall(call_id)).merge(update)
                self._calls[call_id] = call
                if call.status != "pending" and (call.given or not self.tells_inputs):
                    self._journal(call_id)
                self._settle()

    def _hear_words(self, kind: str, into: list[str], update: dict[str, Any]) -> None:
        text = str((update.get("content") or {}).get("text") or "")
        into.append(text)
        self.run.hear_words(self._blocks + (kind == "text"), {"type": kind}, text)

    def _tell_words(self, stop: str) -> None:
        """Journal the words that no call has followed yet."""
        content = self._take_words()
        if content and stop:
            self.run.note_reply(content, stop)

    def _take_words(self) -> list[Block]:
        content: list[Block] = []
        if thought := "".join(self._thought).strip():
            content.append({"type": "thinking", "thinking": thought, "signature": ""})
        if text := "".join(self._text).strip():
            content.append({"type": "text", "text": text})
        self._text, self._thought = [], []
        return content

    def _journal(self, call_id: str) -> None:
        """Journal a call with the words before it, once no other call is under way."""
        if call_id in self._journaled or call_id in self._later:
            return
        if self.run.history.pending:
            self._later.append(call_id)
            return
        self._journaled.add(call_id)
        self.run.note_reply([*self._take_words(), self._calls[call_id].as_call()], "tool_use")

    def _settle(self) -> None:
        """Journal results, decide about calls, and go on to the calls that have waited for that, as far as possible."""
        while True:
            for call_id in self._journaled & self.run.history.pending.keys():
                call = self._calls[call_id]
                if call.status in _DONE:
                    self._asked.pop(call_id, None)
                    self.run.note_result(call_id, call.tell_result() or self.untold, call.status == "failed")
            if self.run.history.pending or not self._later:
                return
            self._journal_next()

    def _journal_next(self) -> None:
        call_id = self._later.pop(0)
        self._journal(call_id)
        if call_id in self._asked:
            self.run.decisions.decide(self._calls[call_id].as_call())

    # -- its questions --------------------------------------------------------------------------------------------

    def _take_question(self, message: Result, given: Result) -> None:
        told = given.get("toolCall") or {}
        call_id = str(told.get("toolCallId"))
        self._calls[call_id] = self._calls.get(call_id, ToldCall(call_id)).merge(told)
        self._asked[call_id] = message
        self._journal(call_id)
        if call_id in self._journaled:
            self.run.decisions.decide(self._journaled_call(call_id))
        self._settle()

    def _journaled_call(self, call_id: str) -> Block:
        return self.run.history.pending.get(call_id) or self._calls[call_id].as_call()

    def answer(self, call_id: str, allowed: bool, reason: str) -> None:
        message = self._asked.pop(call_id)
        kind = "allow_once" if allowed else "reject_once"
        options = message["params"].get("options") or []
        chosen = next((one["optionId"] for one in options if one.get("kind") == kind), None)
        outcome = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
        self._send({"id": message["id"], "result": {"outcome": outcome}})

    def put_off(self, call_id: str) -> None:
        self._asked.pop(call_id)
        self.run.finish()


def _rest(given: dict[str, Any], *without: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in without}


def _describe_error(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error)
    data = error.get("data")
    more = data.get("message") or data.get("details") if isinstance(data, dict) else data
    return ": ".join(str(part) for part in (error.get("message"), more) if part)
