"""Outages: what counts as one, and a client that waits until it is over.

Redis is away when nobody answers who may: it is down, hung, loading, busy with one long step, out of memory, unable to write its
file, or no primary any more. All of these pass, by themselves or with somebody's help, and a command that failed because of them can
be sent again: every step knows its own repeat.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import redis
from redis import RedisError as RedisError

from swarm.core.errors import RedisUnavailable

Answer = TypeVar("Answer")
REDIS_ERRORS = (redis.RedisError, OSError)
"""What a command can fail with; `is_away` tells which of them are an outage."""
TELL_EVERY_SECONDS = 3.0
"""Between two words about an outage that lasts; as a hung server is found out only by a timeout, it may become three times that."""
_LONGEST_PAUSE_SECONDS = 0.5
_PASSING = (
    "BUSY ",
    "LOADING ",
    "MISCONF ",
    "MASTERDOWN ",
    "NOREPLICAS ",
    "READONLY ",
    "OOM ",
    "TRYAGAIN ",
    "CLUSTERDOWN ",
)


def is_away(error: BaseException) -> bool:
    """Whether a command failed because nobody answers it who may, and not because of itself."""
    if isinstance(error, redis.AuthenticationError | redis.exceptions.AuthorizationError):
        return False
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | redis.ReadOnlyError):
        return True
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return True
    # A pipeline says first which of its commands it was.
    return isinstance(error, redis.ResponseError) and str(error).rpartition("caused error: ")[2].startswith(_PASSING)


class Outage:
    """One client's outages: how long the present one lasts, and who is told of it. Thread-safe."""

    def __init__(self, tell: Callable[[str], None], *, who: str, check: Callable[[], None] = lambda: None) -> None:
        self._tell, self._who, self._check = tell, who, check
        self._lock = threading.Lock()
        self._since: float | None = None
        self._told_at = 0.0

    def note(self, error: BaseException) -> None:
        """A command failed because of it. Tells at once, and again as long as it lasts."""
        with self._lock:
            now = time.monotonic()
            if self._since is None:
                self._since, self._told_at = now, 0.0
            if now - self._told_at < TELL_EVERY_SECONDS:
                return
            self._told_at, lasts = now, now - self._since
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        self._tell(f"{self._who} waits for Redis, for {lasts:.0f} s now ({reason})")

    def bear(self, error: BaseException) -> None:
        """As `note`, of what may be no outage: raises the error itself then."""
        if not is_away(error):
            raise error
        self.note(error)

    def over(self) -> None:
        """A command was answered."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            self._tell(f"{self._who} has Redis again, after {time.monotonic() - since:.0f} s")

    def outlast(self, act: Callable[[], Answer]) -> Answer:
        """Do it, and again until it is answered. Raises what `check` raises, which is called before each pause."""
        pause = 0.02
        while True:
            try:
                answer = act()
            except REDIS_ERRORS as error:
                self.bear(error)
                self._give_up_or_go_on(error)
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue
            self.over()
            return answer

    def _give_up_or_go_on(self, error: Exception) -> None:
        try:
            self._check()
        except RedisUnavailable as told:
            raise told from error


def follow(outage: Outage, ask: Callable[[], Answer], pause_seconds: float) -> Iterator[Answer | None]:
    """What `ask` answers, again and again; None whenever Redis is away, which is waited for."""
    while True:
        try:
            answer = ask()
        except REDIS_ERRORS as error:
            outage.bear(error)
            time.sleep(pause_seconds)
            yield None
            continue
        outage.over()
        yield answer


async def follow_async(
    outage: Outage, ask: Callable[[], Awaitable[Answer]], pause_seconds: float
) -> AsyncIterator[Answer]:
    """As `follow`, without those that are None."""
    while True:
        try:
            answer = await ask()
        except REDIS_ERRORS as error:
            outage.bear(error)
            await asyncio.sleep(pause_seconds)
            continue
        outage.over()
        yield answer


class RetryingClient(redis.Redis):
    """A client whose every command outlasts an outage; it shares the connections of another one."""

    def __init__(self, client: redis.Redis, outage: Outage) -> None:
        # All that the other one is, which to make anew takes longer than a command.
        self.__dict__.update(client.__dict__)
        self.auto_close_connection_pool = False
        self._outage = outage

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """As the other client's, but it waits."""
        execute = super().execute_command
        return self._outage.outlast(lambda: execute(*args, **options))  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> _RetryingPipeline:
        """As the other client's, but it waits."""
        pipeline = _RetryingPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipeline.outage = self._outage
        return pipeline


class _RetryingPipeline(redis.client.Pipeline):
    outage: Outage

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        commands = list(self.command_stack)

        def attempt() -> list[Any]:
            # A failed attempt forgets its commands.
            self.command_stack = list(commands)
            return super(_RetryingPipeline, self).execute(raise_on_error)

        return self.outage.outlast(attempt)
