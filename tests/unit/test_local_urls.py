"""URLs of Redis, in our form and in the broker's, and of our own servers. Nothing here connects.

Tests of swarm/core/settings.py, swarm/store/connection.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from kombu import Connection
from redis.sentinel import SentinelConnectionPool

from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings, http_address
from swarm.store.connection import (
    broker_transport_options,
    broker_url,
    connect,
    hide_password,
    local_url,
    socket_path,
)


def test_the_url_of_a_server_can_be_used_whatever_its_address_is() -> None:
    assert [http_address(host, 80) for host in ("::1", "10.0.0.5", "hub")] == [
        "http://[::1]:80",
        "http://10.0.0.5:80",
        "http://hub:80",
    ]


def _settings(state: Path, **values: str) -> Settings:
    return Settings(state_dir=state, **values)  # type: ignore[arg-type]


def _broker_parameters(url: str) -> dict[str, object]:
    """How the broker's own library would connect."""
    connection = Connection(broker_url(url), transport_options=broker_transport_options(url))
    parameters = connection.transport.Channel._connparams
    channel = connection.transport.Channel.__new__(connection.transport.Channel)
    channel.connection = type("Holder", (), {"client": connection, "default_port": 6379})()
    return dict(parameters(channel))


def test_plain_urls_are_left_alone_for_the_broker() -> None:
    assert broker_url("redis://:pw@cache:6379/2") == "redis://:pw@cache:6379/2"
    assert broker_transport_options("redis://cache") == {}


def test_certificates_are_verified_by_the_broker_unless_the_url_says_otherwise() -> None:
    assert broker_url("rediss://cache:6380/0") == "rediss://cache:6380/0?ssl_cert_reqs=required"
    assert broker_url("rediss://cache/0?ssl_cert_reqs=none") == "rediss://cache/0?ssl_cert_reqs=none"


def test_a_socket_url_becomes_the_brokers_with_its_database_and_login() -> None:
    assert broker_url("unix:///run/redis.sock?db=3") == "redis+socket:///run/redis.sock?virtual_host=3"
    assert broker_url("unix:///run/r.sock?db=1&password=a/b") == "redis+socket://:a%2Fb@/run/r.sock?virtual_host=1"


@given(st.text("ab ?#%+;@:é&=", min_size=1, max_size=20), st.integers(0, 15))
def test_any_socket_path_reaches_client_and_broker_unchanged(name: str, database: int) -> None:
    state = Path("/var/lib") / name
    url = local_url(_settings(state)).replace("db=0", f"db={database}")
    client = connect(url).connection_pool.connection_kwargs
    broker = _broker_parameters(url)
    expected = str(socket_path(_settings(state)))
    assert (client["path"], client["db"]) == (expected, database)
    assert (broker["path"], broker["db"]) == (expected, database)


def test_sentinels_become_the_brokers_list_and_its_options() -> None:
    url = "sentinel://:pw@one:26379,two:26380/main/4?sentinel_password=sp"
    assert broker_url(url) == "sentinel://:pw@one:26379/4;sentinel://:pw@two:26380/4"
    assert broker_transport_options(url) == {"master_name": "main", "sentinel_kwargs": {"password": "sp"}}


def test_the_port_of_a_sentinel_may_be_left_out_and_its_host_may_be_an_ipv6_address() -> None:
    assert broker_url("sentinel://one,[::1]:26380/main") == "sentinel://one:26379/0;sentinel://[::1]:26380/0"


def test_a_client_of_sentinels_asks_all_of_them_for_the_service() -> None:
    pool = connect("sentinel://u:pw@one:1,two:2/main/4").connection_pool
    assert isinstance(pool, SentinelConnectionPool)
    hosts = [one.connection_pool.connection_kwargs["host"] for one in pool.sentinel_manager.sentinels]
    assert (hosts, pool.service_name) == (["one", "two"], "main")
    assert {name: pool.connection_kwargs[name] for name in ("username", "password", "db")} == {
        "username": "u",
        "password": "pw",
        "db": 4,
    }


@pytest.mark.parametrize(
    "url", ["http://cache", "cache:6379", "sentinel://one/", "sentinel://one:x/main", "sentinel:///main"]
)
def test_a_url_of_no_known_form_is_refused_with_the_forms_that_are(url: str) -> None:
    with pytest.raises(ConfigurationError, match="sentinel://host:port,host:port/service/db"):
        broker_url(url)
    with pytest.raises(ConfigurationError):
        connect(url)


def test_a_url_that_the_client_cannot_read_is_refused_without_its_password() -> None:
    with pytest.raises(ConfigurationError) as caught:
        connect("redis://:secret@cache:notaport/0")
    assert "secret" not in str(caught.value)
    assert "SWARM_REDIS_URL" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:secret@cache/0", "redis://user:***@cache/0"),
        ("redis://:secret@cache/0", "redis://:***@cache/0"),
        ("redis://cache/0", "redis://cache/0"),
        ("unix:///run/r.sock?db=0&password=secret", "unix:///run/r.sock?db=0&password=***"),
        ("sentinel://:secret@a:1,b:2/main?sentinel_password=x", "sentinel://:***@a:1,b:2/main?sentinel_password=***"),
    ],
)
def test_passwords_are_hidden_when_a_url_is_shown(url: str, shown: str) -> None:
    assert hide_password(url) == shown


def test_the_socket_lies_in_the_state_folder_when_its_path_fits(tmp_path: Path) -> None:
    assert socket_path(_settings(Path("/srv/swarm"))) == Path("/srv/swarm/redis/redis.sock")


@given(st.text("abcé", min_size=90, max_size=200))
def test_a_long_state_folder_gets_a_short_socket_path_of_its_own(name: str) -> None:
    path = socket_path(_settings(Path("/var") / name))
    assert len(str(path).encode()) <= 103
    assert path == socket_path(_settings(Path("/var") / name))
    assert path != socket_path(_settings(Path("/var") / (name + "x")))


def test_settings_choose_between_the_url_that_is_set_and_the_local_one(tmp_path: Path) -> None:
    assert connect(_settings(Path("/srv"))).connection_pool.connection_kwargs["path"] == "/srv/redis/redis.sock"
    client = connect(_settings(Path("/srv"), redis_url="redis://cache:7000/1"))
    assert client.connection_pool.connection_kwargs["host"] == "cache"
    assert issubclass(client.connection_pool.connection_class, redis.Connection)
