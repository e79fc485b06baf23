"""Who gets a process next: an agent that holds one and waits actively must not keep those from starting that it waits for.

Tests of swarm/runtime/wait.py, tasks/fetcher.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fleet import Fleet


@pytest.fixture
def no_retry() -> Iterator[Fleet]:
    """A fleet whose agents give their process up after every turn."""
    fleet = Fleet(segment_seconds=0.05)
    try:
        yield fleet
    finally:
        fleet.close()


def test_an_agent_that_polls_gives_way_to_the_one_it_polls_for(no_retry: Fleet) -> None:
    no_retry.start_worker(1)
    server = no_retry.rehearse(
        """
name: polling
rules:
  - when: {prompt: '^leave a mark', turn: 0}
    reply: {tools: [{name: Bash, input: {command: 'echo here > mark'}}]}
  - when: {prompt: '^leave a mark'}
    reply: {text: left}
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: mark, prompt: leave a mark, run_in_background: true}}]}
  - when: {last_result: '^here'}
    reply: {text: I found the mark}
  - when: {last_text: task-notification}
    reply: {text: I found the mark}
  - reply: {tools: [{name: Bash, input: {command: 'cat mark || sleep 0.1'}}]}
"""
    )
    job = no_retry.submit("go", server, max_turns=1_000)
    assert job.wait(40).text == "I found the mark"
