"""One session of an editor: it starts the job, follows it, brings its questions to the person and ends each prompt.

Guarantee: the job needs neither the editor nor this process. Whatever dies, the job continues, and its questions stay open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from swarm.api.acp.connection import EditorPeer, NoAnswer
from swarm.api.acp.options import SessionOptions
from swarm.api.acp.questions import ask_person, read_answer, tell_in_words
from swarm.api.acp.requests import ToInitialize
from swarm.api.acp.thread import JobThread, Look, Told
from swarm.api.acp.updates import say
from swarm.client import aio
from swarm.client.acts import answer_question, cancel_agent, cancel_job, send_message
from swarm.client.failures import BadRequest, Refusal
from swarm.client.operations import Invocation
from swarm.core.errors import QuestionClosed, UnknownQuestion
from swarm.core.records import JobView
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


class EditorSession:
    """A session; its job begins with the first prompt."""

    def __init__(
        self, fleet: aio.Swarm, peer: EditorPeer, editor: ToInitialize, session_id: str, call: Invocation
    ) -> None:
        self.id, self.options = session_id, None
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

    options: SessionOptions | None

    @property
    def job_id(self) -> str:
        """The id of its job."""
        return self.id

    def shows(self, session_id: str) -> bool:
        """Whether this is the session, or the one of an agent of its job."""
        return session_id == self.id or (self._thread is not None and session_id in self._thread.now.agents)

    # -- the editor's requests -------------------------------------------------------------------------------------

    async def load(self, *, replay: bool) -> None:
        """Follow a job that exists; with `replay`, tell its past first. Raises `UnknownAgent`."""
        async with self._lock:
            await self._open(replay=replay)
            self._follow()

    async def prompt(self, text: str, submit: Callable[[str], Any]) -> str:
        """Start the job by `submit`, or write to its first agent; return why the turn has ended."""
        if not text.strip():
            raise BadRequest("the message is empty; describe the task", "prompt")
        turn = _Turn()
        async with self._lock:
            if self._thread is None:
                await _on_thread(submit, text)
                await self._open(replay=True, own=True)
            elif self._in_words:
                question_id, _ = self._in_words.popitem()
                await self._answer(question_id, text)
            else:
                sent = await _on_thread(send_message, self._call, self.job_id, text)
                turn.message = sent.receivers[self._thread.root_id]
                self._thread.own.add(turn.message)
            self._turns.append(turn)
            self._follow()
        return await turn.over

    async def cancel(self, session_id: str) -> None:
        """Cancel the job, or one agent with those below it."""
        async with self._lock:
            if self._thread is None:
                return
            if session_id != self.id:
                await _on_thread(cancel_agent, self._call, session_id)
            else:
                await _on_thread(cancel_job, self._call, self.job_id)

    def close(self) -> None:
        """Stop following; the job continues."""
        for task in (*self._asking.values(), *([self._following] if self._following else [])):
            task.cancel()

    # -- following -------------------------------------------------------------------------------------------------

    async def _open(self, *, replay: bool, own: bool = False) -> None:
        waiting = self._call.swarm.outlasting(self.job_id)
        thread = JobThread(waiting, self.job_id, self.id, nested=self._editor.knows("subagents"))
        if own:
            thread.own.add(self.job_id)
        self._tell(await _on_thread(partial(thread.open, replay=replay)))
        self._thread = thread
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
                    await self._end_turns(look)
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

    async def _end_turns(self, look: Look) -> None:
        for event in look.events:
            for turn in self._turns:
                if event.kind == "message" and event.fields.get("id") == turn.message:
                    turn.message = ""
        ended = [turn for turn in self._turns if not turn.message] if look.has_ended else []
        if not ended:
            return
        view = await _on_thread(self._call.swarm.store.jobs.get, self.job_id)
        for turn in ended:
            self._turns.remove(turn)
            self._end_turn(turn, view)

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
        self._tell([(self.id, say("agent", text, f"note:{time.monotonic_ns()}"))])

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
        call_id, call = thread.find_call(question)
        prefix = "" if thread.nested or question.agent_id == thread.root_id else f"[{question.label}] "
        forms = self._editor.knows("elicitation", "form")
        asked = ask_person(question, thread.session_of(question.agent_id), call_id, call, prefix=prefix, forms=forms)
        if asked is None:
            self._in_words[question.id] = question
            self._say(tell_in_words(question, prefix))
            # The person can only type once the turn has ended.
            for turn in self._turns:
                turn.over.set_result("end_turn")
            self._turns.clear()
            return
        try:
            result = await self._peer.ask(asked.method, asked.params)
        except NoAnswer:
            return  # It stays open, here and for others.
        if (found := read_answer(question, asked, result)) is not None:
            await self._answer(question.id, found.answer, mode=found.mode, always=found.always)

    async def _answer(self, question_id: str, answer: str, **given: Any) -> None:
        try:
            await _on_thread(partial(answer_question, self._call, question_id, answer, **given))
        except (QuestionClosed, UnknownQuestion) as error:
            self._say(str(error))
        except Refusal as error:
            if error.code != "question_closed":
                raise
            self._say(str(error))


async def _on_thread(function: Callable[..., Result], *given: Any) -> Result:
    return await asyncio.to_thread(function, *given)
