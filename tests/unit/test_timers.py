"""Timers of tasks that have ended are forgotten; the others are called as before.

Tests of tasks/app.py, tasks/consumer.py.
"""

from __future__ import annotations

from itertools import islice

from kombu.asynchronous.timer import Timer

from swarm.tasks.consumer import TimerCare, forget_cancelled
from swarm.tasks.worker import app


def test_cancelled_timers_are_forgotten_and_the_others_come_in_their_order() -> None:
    timer, called = Timer(), list[int]()
    waiting = iter(timer)
    entries = [timer.call_at(float(-n), called.append, (n,)) for n in range(1000)]
    for entry in entries:
        if entry.args[0] % 100:
            entry.cancel()
    forget_cancelled(timer)
    assert len(timer.queue) == 10
    for _, entry in islice(waiting, 10):
        entry()
    assert called == [900, 800, 700, 600, 500, 400, 300, 200, 100, 0]


def test_workers_do_so() -> None:
    assert TimerCare in app.steps["consumer"]
