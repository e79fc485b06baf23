"""What anybody who may write to the broker can put into its lists, read by real workers: none of it ends one.

Tests of tasks/agent_task.py, tasks/connection.py, tasks/entries.py.
"""

from __future__ import annotations

import base64
import json
from itertools import chain, takewhile
from typing import Any

import pytest

from swarm.tasks.app import make_app
from tests.fleet import Fleet, Worker
from tests.waiting import wait_for


def _body(value: object) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def _entry(*, task: object = "swarm.agent", body: object = None, **changed: Any) -> dict[str, Any]:
    """An entry as Celery writes it, but for what is changed: of a part, or of the headers or properties by their names."""
    agent_id = "agent-0123456789abcdef"
    entry: dict[str, Any] = {
        "body": _body([[{}], {}, {}]) if body is None else body,
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": task, "id": agent_id, "argsrepr": "", "kwargsrepr": "{}", "retries": 0},
        "properties": {
            "correlation_id": agent_id,
            "delivery_info": {"exchange": "", "routing_key": "swarm"},
            "body_encoding": "base64",
            "delivery_tag": "0",
        },
    }
    for name, value in changed.items():
        name = name.replace("_", "-") if name.startswith("content") else name
        of = next((part for part in ("headers", "properties") if name.startswith(f"{part}__")), None)
        (entry if of is None else entry[of])[name.removeprefix(f"{of}__")] = value
    return entry


FORMS: dict[str, object] = {
    "no JSON": b"not json",
    "an empty entry": b"",
    "binary garbage": bytes(range(256)),
    "a list": [],
    "an object": {},
    "a string": "a string",
    "a number": 1,
    "null": None,
    "endless brackets": b"[" * 50_000,
    "a number too long": b"1" * 5_000,
    "an unknown type of kombu's": {"__type__": "x", "__value__": 1},
    "a type of kombu's that is none": {"__type__": [], "__value__": 1},
    "a body alone": {"body": 1},
    "a body of 10 MB": _entry(body="A" * 10_000_000),
    "a body that is a number": _entry(body=1),
    "a body that is no base64": _entry(body="é"),
    "a body that is no JSON": _entry(body=base64.b64encode(b"{").decode()),
    "a body that is a number as JSON": _entry(body=_body(5)),
    "a body that is a list of one": _entry(body=_body([1])),
    "a body of two strings and a number": _entry(body=_body(["args", "kwargs", 1])),
    "headers that are a list": _entry(headers=[]),
    "headers that are a string": _entry(headers="x"),
    "no headers": _entry(headers={}),
    "a compression": _entry(headers__compression="application/x-gzip"),
    "a task that is a list": _entry(task=[]),
    "a task that nobody has": _entry(task="other.task"),
    "a task of Celery's own": _entry(task="celery.backend_cleanup"),
    "an id that is a list": _entry(headers__id=[]),
    "an id that is too long": _entry(headers__id="agent-" + "0" * 10_000),
    "a time limit that is a string": _entry(headers__timelimit="x"),
    "a time limit of one": _entry(headers__timelimit=[1]),
    "a time limit of strings": _entry(headers__timelimit=["a", "b"]),
    "a time to begin that is an object": _entry(headers__eta={}),
    "a time to begin that is far away": _entry(headers__eta="9999-12-31T23:59:59"),
    "a time to end that is a list": _entry(headers__expires=[1]),
    "a name for logs that is a list": _entry(headers__shadow=[1]),
    "arguments for logs that are an object": _entry(headers__argsrepr={"a": 1}),
    "stamps that are a number": _entry(headers__stamped_headers=5),
    "properties that are a list": _entry(properties=[]),
    "no properties": _entry(properties={}),
    "a tag that is an object": _entry(properties__delivery_tag={}),
    "an address that is a string": _entry(properties__delivery_info="x"),
    "an address without a queue": _entry(properties__delivery_info={"exchange": ""}),
    "an encoding that nobody knows": _entry(properties__body_encoding="rot13"),
    "an encoding that is a number": _entry(properties__body_encoding=5),
    "content of another type": _entry(content_type="application/x-python-serialize"),
    "content of a type that is a list": _entry(content_type=[]),
    "a tag that is no text": _entry(properties__delivery_tag="\ud800"),
    "arguments for logs that are no text": _entry(headers__argsrepr="\ud800"),
    "a body that is no text": _entry(body="\ud800"),
    "an alphabet that nobody knows": _entry(content_encoding="rot13"),
}


def _push(fleet: Fleet, form: object, queue: str = "swarm") -> None:
    fleet.swarm.store.keyspace.client.lpush(queue, form if isinstance(form, bytes) else json.dumps(form))


def _is_there(worker: Worker) -> bool:
    return worker.process.poll() is None


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_malformed_entry_is_refused_and_the_same_worker_takes_the_next_message(fleet: Fleet, pool: str) -> None:
    worker, server = fleet.start_worker(1, pool=pool), fleet.rehearse()
    [own] = [f"swarm.{name}" for name in fleet.swarm.store.fleet.staffed()]
    for number, (name, form) in enumerate(FORMS.items(), 1):
        _push(fleet, form, own if number % 2 else "swarm")
        refused = wait_for(
            f"it refuses {name}, or ends",
            lambda count=number: worker.text().count("message.refused") >= count or not _is_there(worker),
        )
        assert refused and _is_there(worker), f"{name}: {worker.text()[-3000:]}"
    assert worker.text().count("message.refused") == len(FORMS), "each is told once"
    assert "Traceback" not in worker.text()
    # Nothing of them is kept to come again.
    assert not fleet.swarm.store.keyspace.client.exists("swarm", own)
    assert fleet.submit("TREE depth=1 fanout=2 steps=1", server).wait(30).state == "completed"
    assert _is_there(worker)


def test_messages_among_malformed_entries_are_taken_by_the_worker_that_begins_with_them(fleet: Fleet) -> None:
    server, jobs = fleet.rehearse(), []
    for form in FORMS.values():
        _push(fleet, form)
        if len(jobs) < 3:
            jobs.append(fleet.submit("TREE depth=0 fanout=0 steps=1", server))
    for form in FORMS.values():
        _push(fleet, form)
    worker = fleet.start_worker(1)
    assert [job.wait(60).state for job in jobs] == ["completed"] * 3
    wait_for("all are refused", lambda: worker.text().count("message.refused") == 2 * len(FORMS))
    assert _is_there(worker) and not worker.text().count("broke")


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_malformed_broadcast_ends_no_worker_either(fleet: Fleet, pool: str) -> None:
    client = fleet.swarm.store.keyspace.client
    forms = [form if isinstance(form, bytes) else json.dumps(form).encode() for form in FORMS.values()]
    worker = fleet.start_worker(1, pool=pool)
    wait_for("the worker hears broadcasts", lambda: client.publish("/0.swarm.pidbox", b"") == 1)
    for form in forms:
        assert client.publish("/0.swarm.pidbox", form) == 1, worker.text()[-3000:]
    job = fleet.submit(
        "FOREVER", fleet.rehearse("name: s\nrules: [{reply: {tools: [{name: Bash, input: {command: sleep 600}}]}}]\n")
    )
    fleet.wait_state(job.view().root_id, "running")
    job.cancel()
    assert job.wait(30).state == "cancelled"
    assert _is_there(worker), worker.text()[-3000:]


def test_a_message_is_taken_with_one_command_and_recorded_nowhere(fleet: Fleet) -> None:
    server, client = fleet.rehearse(), fleet.swarm.store.keyspace.client
    fleet.start_worker(1)
    assert fleet.submit("TREE depth=0 fanout=0 steps=0", server).wait(30).state == "completed"
    with client.monitor() as monitor:
        heard = monitor.listen()
        assert fleet.submit("TREE depth=0 fanout=0 steps=0", server).wait(30).state == "completed"
        client.echo("that was all")
        said = (each["command"] for each in heard)
        commands = list(takewhile(lambda each: "that was all" not in each, said))
        # A worker may be slow to ask for its next message.
        assert any(each.startswith("BRPOP") for each in chain(commands, said))
    assert not [each for each in commands if "unacked" in each or each.startswith("MULTI")]


def test_a_process_sends_its_messages_with_one_client(fleet: Fleet) -> None:
    app = make_app(fleet.settings)
    with app.pool.acquire() as connection:
        channel = connection.default_channel
        with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
            assert first is second
            assert first.connection_pool is channel.pool
