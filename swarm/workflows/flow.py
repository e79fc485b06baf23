"""`Flow`: what a native workflow can do. All of it is journaled, so that nothing is done or paid twice.

from swarm import Flow, workflow

@workflow
async def review(flow: Flow, folder: str) -> list[str]:
    "Review each file of a folder."
    files = await flow.agent(f"List the sources in {folder}", type="explore", returns=list[str])
    found = await flow.pipeline(files, lambda file: flow.agent(f"Review {file}", label=file), limit=20)
    return [one.value for one in found if one.ok]
"""

from __future__ import annotations

import asyncio
import inspect
import json
import random
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar

from swarm.agent.notes import event_missed
from swarm.core.errors import CallFailed, ConfigurationError
from swarm.core.lines import Line, check_lines, fill_all
from swarm.definitions.own.declaration import declaration_of
from swarm.definitions.tools import CLEAN, EVENT, MAP_ROWS, MERGE, MESSAGE, QUESTION, READ_ROWS, SHELL, SPAWN
from swarm.workflows.awaited import WEEK_SECONDS
from swarm.workflows.desk import UNMARKED, Allowance, CallMarks, Desk
from swarm.workflows.results import Failed, Ok, adapter_of, read_task, read_value
from swarm.workflows.rows import MOST_DIRECT, MOST_ROWS, describe_part, part_rows

ItemT = TypeVar("ItemT")
MOST_AT_ONCE = 2_000
Seconds = float | timedelta | None


class Budget(NamedTuple):
    """The job's limits and its use, as of the program's last wait. None: no limit."""

    usd: float | None
    spent_usd: float
    tokens: int | None
    spent_tokens: int

    @property
    def left_usd(self) -> float | None:
        """The money that the job may still spend; None: no limit."""
        return None if self.usd is None else max(0.0, self.usd - self.spent_usd)


class Allowances(NamedTuple):
    """An allowance that a program has given."""

    desk: Desk
    name: str

    @property
    def left_usd(self) -> float:
        """The rest, as of the program's last wait."""
        return self.desk.left_usd(self.name)


class CommandResult(NamedTuple):
    """The result of a command."""

    passed: bool
    output: str


class Flow:
    """The acts of one running workflow. What waits is awaited; `asyncio` can gather, limit, time out and cancel it."""

    def __init__(self, desk: Desk, args: Mapping[str, Any]) -> None:
        self._desk = desk
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._allowance: ContextVar[Allowance | None] = ContextVar("allowance", default=None)
        self.args = dict(args)
        """The workflow's arguments."""
        self.random = random.Random(desk.seed)
        """Random numbers, the same ones in each replay."""

    # -- agents ----------------------------------------------------------------------------------------------

    async def agent(
        self,
        prompt: str,
        *,
        type: str | None = None,
        returns: Any = None,
        label: str = "",
        retry: int = 0,
        timeout: Seconds = None,
        phase: str = "",
        allowance: tuple[str, float] | None = None,
        **options: Any,
    ) -> Any:
        """Run an agent, and return its answer: its text, or a value of the type `returns`.

        `options` are further parameters of the tool `Agent`: `model`, `effort`, `isolation`, `mode`, `name`, `cwd`. With `merge=False`
        the changes in its own copy are left there, until `flow.merge(name)`. `retry` is how often a failed one is started again.
        `timeout` is the time limit of each try, in seconds.
        `phase` is another one than the current; `allowance`, a name and dollars, another one than the block's.
        Raises `CallFailed` and `TimeoutError`.
        """
        marks = CallMarks(phase, Allowance(*allowance) if allowance else None, bool(options.pop("merge", True)))
        given = {"description": label or " ".join(prompt.split()[:6])[:80] or "work", "prompt": prompt, **options}
        if type is not None:
            given["subagent_type"] = type
        if returns not in (None, str):
            given["result_schema"] = adapter_of(returns).json_schema()
        while True:
            try:
                text = await self._call_within(timeout, SPAWN, given, marks)
                return text if returns in (None, str) else read_value(text, returns)
            except (CallFailed, TimeoutError):
                retry -= 1
                if retry < 0:
                    raise

    @contextmanager
    def allowance(self, name: str, usd: float) -> Iterator[Allowances]:
        """Bound the money of all agents that are started in this block, with all below them, together.

        An agent that finds it used up gives a last answer or fails; the rest of the job goes on."""
        self._desk.allow(Allowance(name, usd))
        before = self._allowance.get()
        self._allowance.set(Allowance(name, usd))
        try:
            yield Allowances(self._desk, name)
        finally:
            # Not `reset`: a program that is dropped ends in another context.
            self._allowance.set(before)

    async def workflow(self, name: str, task: Any = "", *, returns: Any = None, **options: Any) -> Any:
        """Run another workflow, and return its value. `task` is its task: a text, or data such as a dictionary of its arguments."""
        prompt = task if isinstance(task, str) else json.dumps(task, ensure_ascii=False)
        given = {"description": f"workflow {name}", "prompt": prompt or "{}", "subagent_type": name, **options}
        text = await self._call(SPAWN, given)
        return read_task(text) if returns in (None, str) else read_value(text, returns)

    async def merge(self, name: str, *, strategy: str = CLEAN) -> str:
        """Merge the copy of an agent that has this name into the workflow's files, and return its changes, a line each.

        `clean` raises `CallFailed` with the lines if something conflicts, and merges nothing. `ours` and `theirs` choose a side where
        both changed the same; `merge` leaves both there, between markers.
        """
        return await self._call(MERGE, {"agent_id": name, "strategy": strategy})

    async def parallel(self, *branches: Awaitable[Any], limit: int = MOST_AT_ONCE) -> list[Ok[Any] | Failed]:
        """Await all branches, at most `limit` at once, and return their results in order. A failed one is a value, and stops no other."""
        return await self._settle_all([partial(_same, branch) for branch in branches], limit)

    @staticmethod
    async def _settle_all(makers: Sequence[Callable[[], Awaitable[Any]]], limit: int) -> list[Ok[Any] | Failed]:
        free = asyncio.Semaphore(limit)

        async def run(make: Callable[[], Awaitable[Any]]) -> Ok[Any] | Failed:
            async with free:
                try:
                    return Ok(await make())
                except Exception as error:
                    return Failed(error)

        return list(await asyncio.gather(*map(run, makers)))

    async def pipeline(
        self, items: Iterable[Any], *stages: Callable[..., Awaitable[Any]], limit: int = MOST_AT_ONCE
    ) -> list[Ok[Any] | Failed]:
        """Bring each item through all stages by itself, at most `limit` items at once. No stage waits for another item's.

        A stage is called with the result so far, and may take the item and its number, too. A failed item is a value.
        """

        async def through(number: int, item: Any) -> Any:
            result = item
            for stage in stages:
                result = await stage(*(result, item, number)[: _takes(stage)])
            return result

        # A coroutine that is made here, and never awaited because its turn does not come, would warn.
        return await self._settle_all([partial(through, number, item) for number, item in enumerate(items)], limit)

    async def each(
        self, items: Iterable[ItemT], work: Callable[[ItemT], Awaitable[Any]], *, limit: int = MOST_AT_ONCE
    ) -> list[Any]:
        """Do work for each item, at most `limit` at once, and return the values in order.

        The first failure cancels the others and is raised."""
        free = asyncio.Semaphore(limit)

        async def run(item: ItemT) -> Any:
            async with free:
                return await work(item)

        tasks = [asyncio.ensure_future(run(item)) for item in items]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            raise

    async def rows(self, path: str) -> list[Line]:
        """Return the rows of a file, a line each: JSON objects, or texts. Raises `CallFailed`."""
        return list(read_value(await self._call(READ_ROWS, {"file_path": path}), list))

    async def map(
        self, rows: Sequence[Mapping[str, Any] | str] | str, template: str, *, limit: int = 50, **options: Any
    ) -> list[Ok[Any] | Failed]:
        """Run an agent for each row, with the template filled from it (`Classify {title}`). `options` are those of `agent`.

        `rows` are objects or texts, or the path of a file of such lines. Those of a file, and more than 1,000, are run in parts of 250,
        each a workflow below this one.
        """
        given = await self.rows(rows) if isinstance(rows, str) else rows
        found = check_lines(given) if given else []
        if isinstance(rows, str) or len(found) > MOST_DIRECT:
            return await self._map_parts(found, template, limit, options)
        prompts = fill_all(template, found) if found else ()
        return await self._settle_all([partial(self.agent, prompt, **options) for prompt in prompts], limit)

    async def _map_parts(
        self, rows: Sequence[Line], template: str, limit: int, options: dict[str, Any]
    ) -> list[Ok[Any] | Failed]:
        returns, timeout = options.pop("returns", None), options.pop("timeout", None)
        part = options.pop("allowance", None)
        marks = CallMarks(options.pop("phase", ""), Allowance(*part) if part else None)
        options |= {} if returns in (None, str) else {"result_schema": adapter_of(returns).json_schema()}
        options |= {} if timeout is None else {"timeout": _seconds(timeout)}

        async def run(rows: Sequence[Line]) -> list[Ok[Any] | Failed]:
            done = json.loads(await self._call(MAP_ROWS, describe_part(rows, template, limit, options), marks))
            return [self._read_row(one, returns) for one in done]

        parts = list(part_rows(rows))
        done = await self._settle_all([partial(run, rows) for rows in parts], max(1, limit // MOST_ROWS))
        return [
            row for one, rows in zip(done, parts, strict=True) for row in (one.value if one.ok else [one] * len(rows))
        ]

    @staticmethod
    def _read_row(one: dict[str, Any], returns: Any) -> Ok[Any] | Failed:
        try:
            value = (
                one["value"]
                if returns in (None, str) or not one["ok"]
                else adapter_of(returns).validate_python(one["value"])
            )
        except ValueError as error:
            return Failed(CallFailed(f"the result is no {returns}: {error}"))
        return Ok(value) if one["ok"] else Failed(CallFailed(one["error"]))

    # -- people, events, time -------------------------------------------------------------------------------

    async def ask(self, question: str, *, choices: Sequence[str] = (), timeout: Seconds = None) -> str:
        """Ask the job's person. Raises `CallFailed` without an answer, and `TimeoutError`."""
        return await self._call_within(timeout, QUESTION, {"question": question, "options": list(choices)})

    async def event(self, key: str, *, timeout: Seconds = None) -> str:
        """Wait for an external event, at most a week, and return its text with the data. Raises `TimeoutError`."""
        text = await self._call_within(timeout, EVENT, {"event": key, "timeout_seconds": WEEK_SECONDS})
        if text == event_missed(key, WEEK_SECONDS):
            raise TimeoutError(text)
        return text

    async def sleep_until(self, moment: datetime) -> None:
        """Wait until a moment, which has a time zone. It holds no process."""
        if moment.tzinfo is None:
            raise ConfigurationError("the moment has no time zone; count from flow.now()")
        await asyncio.sleep(max(0.0, moment.timestamp() - self._desk.now))

    def now(self) -> datetime:
        """The time of the program's last wait, in UTC."""
        return datetime.fromtimestamp(self._desk.now, UTC)

    def uuid(self) -> uuid.UUID:
        """A new id, the same one in each replay."""
        return uuid.UUID(int=self.random.getrandbits(128), version=4)

    # -- effects --------------------------------------------------------------------------------------------

    async def call(self, tool: str | Callable[..., Any], *args: Any, returns: Any = None, **given: Any) -> Any:
        """Call a tool by name, or one of your own functions, and return its result's text, or JSON as the type `returns`.

        Rules, modes and hooks apply, and an interrupted call is repeated only if the tool says that it may be. Raises `CallFailed`.
        """
        declared = declaration_of(tool)
        if declared is not None:
            bound = inspect.signature(declared.function).bind_partial(*args, **given)
            name, given = declared.row.name, json.loads(adapter_of(Any).dump_json(bound.arguments))
        elif isinstance(tool, str) and not args:
            name = tool
        else:
            raise ConfigurationError(
                f"{tool!r} is no tool; give a tool's name with its parameters, or a function with `@tool`"
            )
        text = await self._call(name, given)
        return text if returns in (None, str) else read_value(text, returns)

    async def check(self, command: str, *, timeout: Seconds = 600) -> CommandResult:
        """Run a command in the workflow's sandbox and folder. A failing one is a value."""
        try:
            return CommandResult(
                True, await self._call(SHELL, {"command": command, "timeout": int((_seconds(timeout) or 600) * 1000)})
            )
        except CallFailed as error:
            return CommandResult(False, str(error))

    async def send(self, to: str, message: str) -> None:
        """Send a message to another agent. Raises `CallFailed`."""
        await self._call(MESSAGE, {"to": to, "message": message})

    async def _call_within(
        self,
        timeout: Seconds,
        tool: str,
        given: dict[str, Any],
        marks: CallMarks = UNMARKED,
    ) -> str:
        if timeout is None:
            return await self._call(tool, given, marks)
        async with asyncio.timeout(_seconds(timeout)):
            return await self._call(tool, given, marks)

    async def _call(self, tool: str, given: dict[str, Any], marks: CallMarks = UNMARKED) -> str:
        future = asyncio.get_running_loop().create_future()
        if tool in (SPAWN, MAP_ROWS) and marks.allowance is None:
            marks = marks._replace(allowance=self._allowance.get())
        call_id = self._desk.ask(tool, given, marks)
        self._waiting[call_id] = future
        try:
            return str(await future)
        except asyncio.CancelledError:
            if self._waiting.pop(call_id, None) is not None:
                self._desk.drop(call_id)
            raise

    def settle(self, call_id: str, text: str, *, failed: bool) -> None:
        """Give a call its result; without effect for one that was given up. Called by the runtime."""
        future = self._waiting.pop(call_id, None)
        if future is None or future.done():
            return
        if failed:
            future.set_exception(CallFailed(text))
        else:
            future.set_result(text)

    # -- words for people ------------------------------------------------------------------------------------

    def phase(self, title: str) -> None:
        """Say which phase begins."""
        self._desk.note("phase", title)

    def log(self, text: str) -> None:
        """Write a line for people."""
        self._desk.note("log", text)

    def progress(self, done: int, of: int) -> None:
        """Say how far it is."""
        self._desk.note("progress", f"{done} of {of}")

    @property
    def budget(self) -> Budget:
        """The job's limits and use."""
        desk = self._desk
        return Budget(desk.limits.budget_usd, desk.spent_usd, desk.limits.max_tokens, desk.spent_tokens)


def _same(branch: Awaitable[Any]) -> Awaitable[Any]:
    return branch


def _seconds(given: Seconds) -> float | None:
    return given.total_seconds() if isinstance(given, timedelta) else given


def _takes(stage: Callable[..., Any]) -> int:
    """Return how many of the result, the item and its number a stage takes."""
    try:
        parameters = inspect.signature(stage).parameters.values()
    except ValueError:
        return 1
    kinds = [one.kind for one in parameters]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return 3
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return min(3, sum(kind in positional for kind in kinds))
