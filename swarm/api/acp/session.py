"""One session of an editor: it starts the job, follows it, brings its questions to the person and ends each prompt.

Guarantee: the job needs neither the editor nor this process. Whatever dies, the job continues, and its questions stay open.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from swarm.api.acp import commands
from swarm.api.acp.commands import find_command
from swarm.api.acp.connection import EditorPeer, NoAnswer, describe_failure
from swarm.api.acp.options import SessionOptions
from swarm.api.acp.questions import ask_person, read_answer, tell_in_words
from swarm.api.acp.requests import ToInitialize
from swarm.api.acp.thread import JobThread, Look, Told
from swarm.api.acp.updates import as_content, say, show_commands
from swarm.client import aio
from swarm.client.acts import answer_question, cancel_agent, cancel_job, compact_agent, send_message
from swarm.client.failures import BadRequest, Refusal
from swarm.client.operations import Invocation
from swarm.client.swarm import Swarm
from swarm.client.work import Accept
from swarm.core.errors import QuestionClosed, UnknownQuestion
from swarm.core.ids import job_id_for
from swarm.core.records import JobView
from swarm.replay.past import read_past
from swarm.replay.resumption import Resumption, go_on
from swarm.store.outage import follow_async
from swarm.store.questions import Question

_BLOCK_SECONDS = 2.0
_AWAY_SECONDS = 0.5
_WATCH_SECONDS, _RENEW_SECONDS = 10, 3.0
"""How long workers pass on words after one request, and how often it is repeated."""
_STOPS = {"turns": "max_turn_requests", "tokens": "max_tokens", "context": "max_tokens"}
Result = TypeVar("Result")


@dataclass(eq=False)
class _Turn:
    """A prompt that waits for the job's next end."""

    over: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    message: str = ""
    """The id of the message that it is; ends before the message do not count."""


@dataclass
class SessionPlace:
    """The identity of a session, and the order of its job."""

    id: str
    folder: str
    options: SessionOptions
    key: str = ""
    """The idempotency key of the order, if this editor made the session."""


class EditorSession:
    """A session; its job begins with the first prompt. A job that was cancelled is continued by another one."""

    def __init__(
        self, fleet: aio.Swarm, peer: EditorPeer, editor: ToInitialize, place: SessionPlace, call: Invocation
    ) -> None:
        self.place, self.job_id = place, place.id
        self._fleet, self._peer, self._editor, self._call = fleet, peer, editor, call
        self._thread: JobThread | None = None
        self._lock = asyncio.Lock()
        """Held while the thread is read and while a message is sent, so that each prompt knows which ends come after it."""
        self._following: asyncio.Task[None] | None = None
        self._turns: list[_Turn] = []
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._in_words: dict[str, Question] = {}
        """Open questions that the next prompt answers."""
        self._renewed: dict[str, float] = {}

    @property
    def begun(self) -> bool:
        """Whether its job has begun."""
        return self._thread is not None

    def shows(self, session_id: str) -> bool:
        """Whether this is the session, or the one of an agent of its job."""
        return session_id == self.place.id or (self._thread is not None and session_id in self._thread.now.agents)

    # -- the editor's requests -------------------------------------------------------------------------------------

    async def load(self, *, replay: bool) -> None:
        """Follow a job that exists; with `replay`, tell its past first. Raises `UnknownAgent`."""
        async with self._lock:
            latest = await _on_thread(find_latest, self._call.swarm, self.place.id)
            await self._open(latest, since=0.0 if replay else math.inf)
            self._follow()

    async def prompt(self, text: str, submit: Callable[[str, str], Sequence[str]]) -> str:
        """Start the job by `submit` (the text, the key of the order), or write to its first agent; return why the turn has ended."""
        if not text.strip():
            raise BadRequest("the message is empty; describe the task", "prompt")
        turn, (command, words) = _Turn(), find_command(text)
        if command:
            return await self._obey(command, words)
        async with self._lock:
            if self._thread is None:
                await self._begin(text, submit, self.place.key)
            elif self._in_words:
                question_id, _ = self._in_words.popitem()
                await self._answer(question_id, text)
            else:
                turn.message = await self._write(text, submit)
            assert self._thread is not None
            if turn.message or not self._thread.has_ended:
                self._turns.append(turn)
            else:
                # Its end came before the first look, so no event will tell it.
                self._end_turn(turn, await self._view())
            self._follow()
        return await turn.over

    async def _begin(self, text: str, submit: Callable[[str, str], Sequence[str]], key: str) -> None:
        warnings = await _on_thread(submit, text, key)
        await self._open(job_id_for(key), since=0.0, own=True)
        for warning in warnings:
            self._note(warning)

    async def _send(self, text: str) -> str:
        assert self._thread is not None
        sent = await _on_thread(send_message, self._call, self.job_id, text)
        message = sent.receivers[self._thread.root_id]
        self._thread.own.add(message)
        return message

    async def _write(self, text: str, submit: Callable[[str, str], Sequence[str]]) -> str:
        """Write to the job, or continue it if it was cancelled, in a new job of the same session; return the id of a message."""
        view = await self._view()
        if view.state == "cancelled":
            self._end_turns("cancelled")
            latest = await _on_thread(find_latest, self._call.swarm, self.job_id)
            if latest != self.job_id:
                # Others continued it meanwhile: the work is theirs, and two jobs must not do it.
                await self._open(latest, since=view.ended_at or 0.0)
                view = await self._view()
        if view.state != "cancelled":
            return await self._send(text)
        await _on_thread(self._call.ready)
        since, key = await _on_thread(self._call.swarm.store.now), continuation_key(self.job_id)
        if await _on_thread(go_on_after, self._call.swarm, self.job_id, text):
            await self._open(job_id_for(key), since=since)
        else:
            # It was cancelled before its first turn.
            await self._begin(text, submit, key)
        return ""

    async def cancel(self, session_id: str) -> None:
        """Cancel the job, or one agent with those below it."""
        async with self._lock:
            if self._thread is None:
                return
            if session_id != self.place.id:
                await _on_thread(cancel_agent, self._call, session_id)
            else:
                await _on_thread(cancel_job, self._call, self.job_id)

    async def close(self) -> None:
        """Stop following, once the answers that the editor gave are recorded; the job continues."""
        if self._following is not None:
            self._following.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)

    async def leave(self) -> None:
        """Stop following, because another session of this editor takes its place. The next prompt would follow again."""
        async with self._lock:
            for task in (*self._asking.values(), *([self._following] if self._following else [])):
                task.cancel()
            self._asking, self._following = {}, None
            self._end_turns("end_turn")

    # -- commands --------------------------------------------------------------------------------------------------

    async def _obey(self, command: str, words: Sequence[str]) -> str:
        """Carry out a command about the job."""
        if self._thread is None:
            raise BadRequest(f"/{command} is about the session's job, which begins with your first message", "prompt")
        given = (self._call.swarm, self.job_id, self.place.folder)
        match command:
            case commands.APPLY:
                said = await _on_thread(commands.apply_work, *given, words, self._accept())
            case commands.DIFF:
                said = await _on_thread(commands.show_work, *given)
            case _:
                await _on_thread(compact_agent, self._call, self._thread.root_id, " ".join(words))
                said = "The conversation is summarized before the next turn."
        self._say(said)
        return "end_turn"

    def _accept(self) -> Accept:
        """Return the function that asks the person about files that could do harm."""
        loop = asyncio.get_running_loop()

        def accept(found: Mapping[str, str]) -> bool:
            return asyncio.run_coroutine_threadsafe(self._ask_about_files(found), loop).result()

        return accept

    async def _ask_about_files(self, found: Mapping[str, str]) -> bool:
        listed = "\n".join(f"- {path}: {why}" for path, why in sorted(found.items()))
        call = {"toolCallId": f"apply:{time.monotonic_ns()}", "title": "Apply files that could do harm", "kind": "edit"}
        options = [("allow", "Apply them, too", "allow_once"), ("deny", "Leave them out", "reject_once")]
        asked = {
            "sessionId": self.place.id,
            "toolCall": {**call, "status": "pending", "content": as_content(listed)},
            "options": [{"optionId": each, "name": name, "kind": kind} for each, name, kind in options],
        }
        try:
            answer = await self._peer.ask("session/request_permission", asked)
        except NoAnswer:
            return False
        return bool((answer.get("outcome") or {}).get("optionId") == "allow")

    # -- following -------------------------------------------------------------------------------------------------

    async def _open(self, job_id: str, *, since: float, own: bool = False) -> None:
        """Make this job the session's, once its state is read."""
        waiting = self._call.swarm.outlasting(job_id)
        thread = JobThread(waiting, job_id, self.place.id, nested=self._editor.knows("subagents"))
        if own:
            thread.own.add(job_id)
        self._tell(await _on_thread(partial(thread.open, since=since)))
        if self._following is not None:
            self._following.cancel()
        self.job_id, self._thread, self._following = job_id, thread, None
        self._tell([(self.place.id, show_commands(commands.OWN))])
        self._see_to_questions()

    def _follow(self) -> None:
        assert self._thread is not None
        if (self._following is None or self._following.done()) and (self._turns or not self._thread.has_ended):
            self._following = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Follow the job until it has ended and no prompt waits."""
        thread = self._thread
        assert thread is not None
        outage = self._call.swarm.store.outage(self._call.swarm.tell, self.job_id)

        async def read() -> Any:
            await self._want_words(thread.at_work())
            return await self._fleet.streams.wait(thread.streams(), _BLOCK_SECONDS)

        try:
            async for found in follow_async(outage, read, _AWAY_SECONDS):
                if not found:
                    continue
                async with self._lock:
                    look = await _on_thread(thread.take, found)
                    self._tell(look.told)
                    self._see_to_questions()
                    await self._see_to_turns(look)
                    if thread.has_ended and not self._turns:
                        # Before the lock is released, so that the next prompt follows again.
                        self._following = None
                        return
        except Exception as error:
            self._following = None
            for turn in self._turns:
                turn.over.set_exception(error)
            self._turns.clear()

    async def _want_words(self, agents: list[str]) -> None:
        now = time.monotonic()
        due = [agent_id for agent_id in agents if now - self._renewed.get(agent_id, -_WATCH_SECONDS) >= _RENEW_SECONDS]
        for agent_id in due:
            await self._fleet.streams.want_words(agent_id, _WATCH_SECONDS)
            self._renewed[agent_id] = now

    def _tell(self, told: list[Told]) -> None:
        for session_id, update in told:
            self._peer.tell("session/update", {"sessionId": session_id, "update": update})

    async def _see_to_turns(self, look: Look) -> None:
        """End the turns that the look ends."""
        for event in look.events:
            for turn in self._turns:
                if event.kind == "message" and event.fields.get("id") == turn.message:
                    turn.message = ""
        ended = [turn for turn in self._turns if not turn.message] if look.has_ended else []
        if not ended:
            return
        view = await self._view()
        for turn in ended:
            self._turns.remove(turn)
            self._end_turn(turn, view)

    def _end_turns(self, why: str) -> None:
        for turn in self._turns:
            if not turn.over.done():
                turn.over.set_result(why)
        self._turns.clear()

    async def _view(self) -> JobView:
        return await _on_thread(self._call.swarm.store.jobs.get, self.job_id)

    def _end_turn(self, turn: _Turn, view: JobView) -> None:
        if view.state == "cancelled":
            turn.over.set_result("cancelled")
        elif view.state == "failed" and not view.stopped_at:
            turn.over.set_exception(Refusal(502, "job_failed", f"{view.id} has failed: {view.reason}"))
        else:
            if view.reason:
                self._say(f"{view.id} has ended ({view.state.replace('_', ' ')}): {view.reason}")
            turn.over.set_result(_STOPS.get(view.stopped_at, "end_turn"))

    def _say(self, text: str) -> None:
        self._tell([(self.place.id, say("agent", text, f"note:{time.monotonic_ns()}"))])

    def _note(self, text: str) -> None:
        """Tell something beside the conversation."""
        if self._editor.knows("session", "notices"):
            self._tell([(self.place.id, {"sessionUpdate": "notice", "severity": "warning", "title": text})])
        else:
            self._say(f"Note: {text}\n\n")

    # -- questions -------------------------------------------------------------------------------------------------

    def _see_to_questions(self) -> None:
        """Ask the new questions, and withdraw the ones that others have answered."""
        assert self._thread is not None
        there = {question.id: question for question in self._thread.questions}
        for question_id in self._asking.keys() - there.keys():
            self._asking.pop(question_id).cancel()
            self._in_words.pop(question_id, None)
        for question_id in there.keys() - self._asking.keys():
            self._asking[question_id] = asyncio.create_task(self._ask(there[question_id], self._thread))

    async def _ask(self, question: Question, thread: JobThread) -> None:
        placed = thread.place_question(question)
        asked = ask_person(placed, forms=self._editor.knows("elicitation", "form"))
        if asked is None:
            self._in_words[question.id] = question
            self._say(tell_in_words(question, placed.prefix))
            # The person can only type once the turn has ended.
            self._end_turns("end_turn")
            return
        try:
            result = await self._peer.ask(asked.method, asked.params)
        except NoAnswer:
            return  # It stays open, here and for others.
        if (found := read_answer(question, asked, result)) is None:
            return
        try:
            await self._answer(question.id, found.answer, mode=found.mode, always=found.always)
        except Exception as error:
            self._say(f"The answer was not recorded: {describe_failure(error, asked.method)['message']}")
            # The next look asks again.
            self._asking.pop(question.id, None)

    async def _answer(self, question_id: str, answer: str, **given: Any) -> None:
        # The person has answered once, so the answer waits for an unavailable Redis.
        call = replace(self._call, swarm=self._call.swarm.outlasting(self.job_id))
        try:
            await _on_thread(partial(answer_question, call, question_id, answer, **given))
        except (QuestionClosed, UnknownQuestion) as error:
            self._say(str(error))
        except Refusal as error:
            if error.code != "question_closed":
                raise
            self._say(str(error))


def continuation_key(job_id: str) -> str:
    """Return the idempotency key of the job that continues a cancelled one, so that any editor finds it."""
    return f"acp/continues/{job_id}"


def find_latest(swarm: Swarm, job_id: str) -> str:
    """Return the last of the jobs that continue this one; itself if there is none."""
    while swarm.store.jobs.exists(later := job_id_for(continuation_key(job_id))):
        job_id = later
    return job_id


def go_on_after(swarm: Swarm, job_id: str, text: str) -> bool:
    """Continue a cancelled job in a new one, from its last turn; False if it has had none. Raises `ConfigurationError`, `GitFailed`."""
    past = read_past(swarm.store, job_id)
    if not (turns := past.count_turns(past.root)):
        return False
    go_on(swarm, past, Resumption(past.root, turns, text), job_id=job_id_for(continuation_key(job_id)))
    return True


async def _on_thread(function: Callable[..., Result], *given: Any) -> Result:
    return await asyncio.to_thread(function, *given)
