"""Callbacks on RabbitMQ: none is lost because its application has not declared its queue yet.

Tests of tasks/callbacks.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from kombu import Connection, Queue

from tests.fleet import Fleet
from tests.needs import need_program
from tests.redis_servers import free_ports
from tests.waiting import wait_for


@pytest.fixture
def broker() -> Iterator[str]:
    """A RabbitMQ of its own."""
    folder = Path(tempfile.mkdtemp(prefix="swarm-q-"))
    port, distribution, mapper = free_ports(3)
    (folder / "enabled_plugins").write_text("[].")
    environment = {
        **os.environ,
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"swarm{port}@localhost",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": str(distribution),
        "ERL_EPMD_PORT": str(mapper),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false",
    }
    script = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one on the PATH changes its user
    program = str(script) if script.exists() else need_program("rabbitmq-server")
    log = (folder / "log").open("ab")
    # One that RabbitMQ starts would outlive it.
    names = subprocess.Popen([need_program("epmd"), "-port", str(mapper)])
    process = subprocess.Popen([program], env=environment, stdout=log, stderr=log, start_new_session=True)
    url = f"amqp://guest:guest@127.0.0.1:{port}//"

    def answers() -> bool:
        assert process.poll() is None, (folder / "log").read_text()[-3000:]
        try:
            with Connection(url, connect_timeout=2) as connection:
                connection.connect()
        except OSError:
            return False
        return True

    try:
        wait_for("RabbitMQ answers", answers, 120)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        names.kill()
        names.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def test_a_callback_waits_until_its_application_has_declared_its_queue(fleet: Fleet, broker: str) -> None:
    worker = fleet.start_worker(1, SWARM_BROKERS=json.dumps({"shop": broker}))
    shop = Celery("shop", broker=broker, set_as_current=False)
    callback = shop.signature("shop.mail", args=("hello",), immutable=True, queue="mails")
    job = fleet.swarm.submit(
        "TREE depth=0 fanout=0 steps=1",
        agent="general-purpose",
        workspace=fleet.workspace,
        base_url=fleet.rehearse().url,
        on_end=callback,
        broker="shop",
    )
    assert job.wait(60).state == "completed"
    wait_for("the missing queue is told", lambda: "callback.put_off" in worker.text() and "NO_ROUTE" in worker.text())
    with Connection(broker) as connection:
        queue = Queue("mails", durable=True)(connection.default_channel)
        queue.declare()
        message = wait_for("the callback", lambda: queue.get(no_ack=True))
        assert message.headers["task"] == "shop.mail"
        wait_for("it is settled", lambda: "callback.published" in worker.text())
