"""Times of schedules: cron with time zones, and intervals. Pure.

Fields of cron are read as Debian's cron reads them, also at a change of the clock: a job for a time that the change skips runs right
after it, one for a time that comes twice runs once, and one for every hour or minute follows the real time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

_EVERY = re.compile(r"every\s+(\d{1,6})\s*([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LEAST_SECONDS = 10
MOST_AT_ONCE = 1_000
"""Most missed times that are made up for."""
LATE_SECONDS = 300.0
"""A time that is later than this counts as missed."""


def check_schedule(schedule: str, timezone: str) -> None:
    """Raise `ValueError` for a schedule or a time zone that cannot be used."""
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{timezone!r} is no time zone; give a name such as Europe/Berlin") from None
    if next(times_after(schedule, timezone, 0.0), None) is None:
        raise ValueError(f"the schedule {schedule!r} never comes")


def times_after(schedule: str, timezone: str, after: float) -> Iterator[float]:
    """The times of a schedule after a time, Unix seconds, in order. Raises `ValueError`."""
    if found := _EVERY.fullmatch(schedule.strip()):
        seconds = int(found[1]) * _SECONDS[found[2]]
        if seconds < _LEAST_SECONDS:
            raise ValueError(f"`{schedule}` is more often than every {_LEAST_SECONDS} s")
        at = (int(after) // seconds + 1) * seconds
        while True:
            yield float(at)
            at += seconds
    from cronsim import CronSim, CronSimError

    try:
        times = CronSim(schedule, datetime.fromtimestamp(after, ZoneInfo(timezone)))
    except CronSimError as error:
        raise ValueError(
            f"{schedule!r} is no schedule ({error}); write five fields of cron such as `0 3 * * 1-5`, or `every 15m`"
        ) from None
    for time in times:
        yield time.timestamp()


def due_at(name: str, time: float, jitter_seconds: float) -> float:
    """When a trigger is due for one of its times: later by a part of the jitter that each time has for itself."""
    share = int.from_bytes(hashlib.sha256(f"{name}/{time:.0f}".encode()).digest()[:4]) / 2**32
    return time + share * jitter_seconds


def missed_times(schedule: str, timezone: str, first: float, now: float) -> tuple[list[float], float]:
    """The times from `first` up to now, the newest `MOST_AT_ONCE` of them, and the time after them."""
    if first > now:
        return [], first
    past = [first]
    for time in times_after(schedule, timezone, first):
        if time > now:
            return past[-MOST_AT_ONCE:], time
        past.append(time)
    raise ValueError(f"the schedule {schedule!r} comes no more")


def name_time(time: float) -> str:
    """The id of the event of a time."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
