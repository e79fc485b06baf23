"""Outages: their definition, and a client that waits until Redis is back.

Redis is away if no authorized server answers: it is down, hung, loading, busy with one long step, out of memory, unable to write its
file, or no longer the primary. It is away, too, if it no longer accepts the password that it accepted before: passwords are
rotated. All of these pass, alone or with help. A command that failed because of them can be sent again,
because every step recognizes its own repeat.
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
"""Possible errors of a command; `is_away` selects the outages."""
TELL_EVERY_SECONDS = 3.0
"""Interval of reports on a lasting outage; up to three times that if a hung server is noticed only by a timeout."""
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
    "UNBLOCKED ",  # a blocking command ends this way when its server changes roles
)
_REFUSED = (redis.AuthenticationError, redis.exceptions.AuthorizationError)


def is_away(error: BaseException) -> bool:
    """Whether a command failed because of an outage, not because of itself or of a password."""
    if isinstance(error, _REFUSED):
        return False
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | redis.ReadOnlyError):
        return True
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return True
    # A pipeline's error begins with the failed command.
    return isinstance(error, redis.ResponseError) and str(error).rpartition("caused error: ")[2].startswith(_PASSING)


class Outage:
    """The outages of one task of a client: the current one's duration, and the function that reports them. Thread-safe.

    A client that Redis `has_answered` once has a good password, so a refused one is an outage for all its tasks.
    """

    def __init__(
        self,
        tell: Callable[[str], None],
        *,
        who: str,
        check: Callable[[], None] = lambda: None,
        has_answered: Callable[[], bool] = lambda: False,
    ) -> None:
        self._tell, self._who, self._check, self._has_answered = tell, who, check, has_answered
        self._lock = threading.Lock()
        self._since: float | None = None
        self._told_at = 0.0

    def note(self, error: BaseException) -> None:
        """Record a command's failure. Reports at once, and again while the outage lasts."""
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
        """Record an outage; raise the error if it is none."""
        if not is_away(error) and not (isinstance(error, _REFUSED) and self._has_answered()):
            raise error
        self.note(error)

    def over(self) -> None:
        """Record an answered command."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            self._tell(f"{self._who} has Redis again, after {time.monotonic() - since:.0f} s")

    def outlast(self, act: Callable[[], Answer]) -> Answer:
        """Repeat `act` until it is answered. Raises the errors of `check`, which is called before each pause."""
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
    """Yield the answers of `ask`, again and again; yield None for each outage, and wait for its end."""
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
    """Follow like `follow`, without None."""
    while True:
        try:
            answer = await ask()
        except REDIS_ERRORS as error:
            outage.bear(error)
            await asyncio.sleep(pause_seconds)
            continue
        outage.over()
        yield answer


class AnsweredClient(redis.Redis):
    """A client that knows whether Redis has answered it, and so has accepted its password."""

    answered = False

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        """Read a command's answer."""
        answer = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        self.answered = True
        return answer


class RetryingClient(redis.Redis):
    """A client whose every command outlasts an outage; it shares another client's connections."""

    def __init__(self, client: redis.Redis, outage: Outage) -> None:
        # Copies the other client's state, because making it takes longer than a command.
        self.__dict__.update(client.__dict__)
        self.auto_close_connection_pool = False
        self._outage = outage

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run the other client's command, and wait for Redis."""
        execute = super().execute_command
        return self._outage.outlast(lambda: execute(*args, **options))  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> _RetryingPipeline:
        """Make the other client's pipeline, which waits for Redis."""
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
