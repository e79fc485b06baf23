"""The shipped fleet is closed: passwords that are made, in no command line; parts that do not reach each other.

Tests of deploy, swarm/permissions/networks.py.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from ipaddress import IPv4Network, IPv6Network, collapse_addresses
from pathlib import Path
from typing import Any

import kubernetes_validate
import psutil
import pytest
import redis
import yaml

from swarm.permissions import networks
from swarm.store.rights import ROLES
from tests.needs import need_program
from tests.waiting import wait_for

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NEVER = ("change-me", "changeme", "password1", "secret1")


def _compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())  # type: ignore[no-any-return]


def _manifests(kind: str) -> dict[str, dict[str, Any]]:
    texts = [path.read_text() for path in (DEPLOY / "kubernetes").glob("*.yaml")]
    documents = [document for text in texts for document in yaml.safe_load_all(text)]
    return {one["metadata"]["name"]: one for one in documents if one["kind"] == kind}


def _pods() -> dict[str, dict[str, Any]]:
    found = {**_manifests("Deployment"), **_manifests("StatefulSet")}
    return {name: one["spec"]["template"]["spec"] for name, one in found.items()}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The folder deploy/, to make secrets in."""
    return Path(shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns(".env")))


def _make(copy: Path, *arguments: str, code: int = 0, **environment: str) -> str:
    ran = subprocess.run(
        [str(copy / "make-secrets"), *arguments],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **environment},
        timeout=30,
    )
    assert ran.returncode == code, ran
    return ran.stdout + ran.stderr


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _values(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Z][A-Z0-9_]*)=(.*)$", path.read_text(), re.MULTILINE))


# -- passwords --------------------------------------------------------------------------------------------------------


def test_nothing_that_is_shipped_is_a_password_that_works() -> None:
    for path in (path for path in DEPLOY.rglob("*") if path.is_file() and path.name != ".env"):
        assert not any(word in path.read_text() for word in NEVER), path
    for example in ("compose.env.example", "systemd/swarm.env.example"):
        values = _values(DEPLOY / example)
        secret = {
            "REDIS_PASSWORD",
            *(f"REDIS_{role.upper()}_PASSWORD" for role in ROLES),
            "FLOWER_BASIC_AUTH",
            "SWARM_REDIS_URL",
            "SWARM_HUB_TOKEN",
            "ANTHROPIC_API_KEY",
        } & values.keys()
        assert secret and all(values[name] == "" for name in secret), example


def test_compose_secrets_are_random_private_and_never_overwritten(copy: Path) -> None:
    told = _make(copy, "compose", ANTHROPIC_API_KEY="sk-test")
    values = _values(copy / ".env")
    passwords = {values[name] for name in values if name.startswith("REDIS_")}
    assert len(passwords) == 4 and all(re.fullmatch("[0-9a-f]{64}", one) and one not in told for one in passwords)
    assert re.fullmatch("swarm:[0-9a-f]{64}", values["FLOWER_BASIC_AUTH"])
    assert re.fullmatch("[0-9a-f]{64}", values["SWARM_HUB_TOKEN"]) and values["SWARM_HUB_TOKEN"] not in told
    assert values["ANTHROPIC_API_KEY"] == "sk-test" and values["REDIS_PASSWORD"] not in told
    assert _mode(copy / ".env") == 0o600
    before = (copy / ".env").read_text()
    assert "exists already" in _make(copy, "compose", code=1)
    assert (copy / ".env").read_text() == before
    (copy / ".env").unlink()
    _make(copy, "compose")
    assert _values(copy / ".env")["REDIS_PASSWORD"] != values["REDIS_PASSWORD"]


def test_secrets_of_services_fit_together(copy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    _make(copy, "systemd", str(folder), "10.0.0.5")
    values = _values(folder / "swarm.env")
    users = dict(
        re.findall(r"^user swarm-(\w+) on >(\w+) ", (folder / "redis-password.conf").read_text(), re.MULTILINE)
    )
    assert users.keys() == set(ROLES) and len(set(users.values())) == 3
    for role, file in zip(ROLES, ("swarm.env", "client.env", "exporter.env"), strict=True):
        assert _values(folder / file)["SWARM_REDIS_URL"] == f"redis://swarm-{role}:{users[role]}@10.0.0.5:6379/0"
        assert _mode(folder / file) == 0o600
    assert _mode(folder / "swarm.env") == 0o600 and _mode(folder / "redis-password.conf") in (0o600, 0o640)
    assert values["SWARM_WORKSPACES"] and values["SWARM_MODE_CEILING"]
    assert "exists already" in _make(copy, "systemd", str(folder), code=1)
    _make(copy, "kubernetes", str(tmp_path / "k"))
    made = {path.name: path.read_text() for path in (tmp_path / "k").iterdir()}
    assert made["redis-password.conf"].startswith(f"requirepass {made['redis-password']}\nuser swarm-worker on >")
    for role, name in zip(ROLES, ("redis-url", "redis-url-client", "redis-url-exporter"), strict=True):
        [password] = re.findall(f"^user swarm-{role} on >(\\w+) resetkeys ", made["redis-password.conf"], re.MULTILINE)
        assert made[name] == f"redis://swarm-{role}:{password}@swarm-redis:6379/0"
    assert {_mode(path) for path in (tmp_path / "k").iterdir()} == {0o600}
    assert "make-secrets" in _make(copy, code=2)


def test_redis_does_not_start_without_its_password(tmp_path: Path) -> None:
    configuration = tmp_path / "redis.conf"
    missing = str(tmp_path / "none.conf")
    shipped = (DEPLOY / "redis" / "redis.conf").read_text()
    assert "include /etc/swarm/redis-password.conf" in shipped
    configuration.write_text(shipped.replace("/etc/swarm/redis-password.conf", missing))
    argv = [need_program("redis-server"), str(configuration), "--port", "0", "--dir", str(tmp_path)]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert ran.returncode != 0 and missing in ran.stdout + ran.stderr


def test_composes_redis_takes_its_password_from_the_environment_and_shows_it_in_no_command_line(tmp_path: Path) -> None:
    need_program("redis-server")
    service, password, place = _compose()["services"]["redis"], "a" * 64, tmp_path / "swarm"
    place.mkdir()
    (tmp_path / "redis.conf").write_text(
        (DEPLOY / "redis" / "redis.conf").read_text().replace("/etc/swarm", str(place))
    )
    script = service["command"][2].replace("$$", "$").replace("/etc/swarm", str(place)).replace("/data", str(tmp_path))
    script = script.replace("/usr/local/etc/redis/redis.conf", str(tmp_path / "redis.conf"))
    script = script.replace("/usr/local/etc/redis/users.acl", str(DEPLOY / "redis" / "users.acl"))
    given = {f"REDIS_{role.upper()}_PASSWORD": f"{role}-{password}" for role in ROLES}
    script += f" --port 0 --unixsocket {tmp_path}/r.sock"
    assert service["environment"]["REDISCLI_AUTH"].startswith("${REDIS_PASSWORD:?")
    server = subprocess.Popen(
        ["sh", "-c", script], env={**os.environ, **given, "REDISCLI_AUTH": password}, stdout=subprocess.DEVNULL
    )
    try:
        wait_for("Redis listens", (tmp_path / "r.sock").exists)
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(unix_socket_path=str(tmp_path / "r.sock")).ping()
        assert redis.Redis(unix_socket_path=str(tmp_path / "r.sock"), password=password).ping()
        for role in ROLES:
            own = {"username": f"swarm-{role}", "password": f"{role}-{password}"}
            assert redis.Redis(unix_socket_path=str(tmp_path / "r.sock"), **own).ping()
        process = psutil.Process(server.pid)
        assert process.name() == "redis-server" and password not in " ".join(process.cmdline())
        assert _mode(place / "redis-password.conf") == 0o600
    finally:
        server.kill()
        server.wait()


def test_no_shipped_command_has_a_password() -> None:
    commands = [
        str(one.get("command", "")) + str(one.get("healthcheck", "")) for one in _compose()["services"].values()
    ]
    for pod in _pods().values():
        (only,) = pod["containers"]
        commands.append(f"{only.get('command')} {only.get('args')} {only.get('readinessProbe')}")
    commands += [line for unit in (DEPLOY / "systemd").glob("*.service") for line in unit.read_text().splitlines()]
    for command in commands:
        assert not re.search(r"--requirepass|--pass\b|--basic.auth|redis-cli -a|\$\{?REDIS_PASSWORD", command), command
    text = (DEPLOY / "compose.yaml").read_text()
    assert re.findall(r"\$\{REDIS_PASSWORD(?!:\?)", text) == [], "it is required wherever it is used"


def test_units_do_not_start_without_their_secrets() -> None:
    for name, needed in (
        ("worker", ["SWARM_REDIS_URL"]),
        ("flower", ["SWARM_REDIS_URL", "FLOWER_BASIC_AUTH"]),
        ("hub", ["SWARM_REDIS_URL", "SWARM_HUB_TOKEN"]),
    ):
        text = (DEPLOY / "systemd" / f"swarm-{name}.service").read_text()
        (script,) = re.findall(r"^ExecStartPre=/bin/sh -c '(.*)'$", text, re.MULTILINE)
        script = script.replace("$$", "$")
        full = dict.fromkeys(needed, "x")
        assert subprocess.run(["sh", "-c", script], env=full).returncode == 0
        for missing in needed:
            assert subprocess.run(["sh", "-c", script], env={**full, missing: ""}).returncode != 0


# -- walls ------------------------------------------------------------------------------------------------------------


def test_containers_have_nothing_that_they_do_not_need() -> None:
    for name, service in _compose()["services"].items():
        assert service["cap_drop"] == ["ALL"] and service["read_only"] is True, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["networks"], name
    for name, pod in _pods().items():
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        for one in pod["containers"]:
            given = {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert one["securityContext"] == given, name


def test_compose_keeps_redis_from_the_world_and_flower_on_this_host() -> None:
    given = _compose()
    services, networks = given["services"], given["networks"]
    assert services["redis"]["networks"] == ["store"] and networks["store"] == {"internal": True}
    assert "ports" not in services["redis"] and "ports" not in services["worker"]
    assert services["flower"]["ports"] == ["127.0.0.1:5555:5555"]
    for name in ("world", "front"):
        assert networks[name]["driver_opts"] == {"com.docker.network.bridge.enable_icc": "false"}
    assert "world" not in services["flower"]["networks"]


def test_policies_let_in_and_out_what_is_needed_and_no_more() -> None:
    policies = {name: one["spec"] for name, one in _manifests("NetworkPolicy").items()}
    assert policies.keys() == _pods().keys()
    for name, spec in policies.items():
        assert spec["podSelector"] == {"matchLabels": {"app": name}} and spec["policyTypes"] == ["Ingress", "Egress"]
    [hub] = policies["swarm-hub"]["ingress"]
    assert [one["podSelector"]["matchLabels"] for one in hub["from"]] == [
        {"app": "swarm-worker"},
        {"swarm-client": "true"},
    ]
    into = policies["swarm-redis"]["ingress"]
    labels = [peer["podSelector"]["matchLabels"] for rule in into for peer in rule["from"]]
    assert labels == [{"app": f"swarm-{name}"} for name in ("worker", "flower", "hub")] + [{"swarm-client": "true"}]
    assert policies["swarm-redis"]["egress"] == policies["swarm-worker"]["ingress"] == []
    blocks = [
        peer["ipBlock"] for rule in policies["swarm-worker"]["egress"] for peer in rule["to"] if "ipBlock" in peer
    ]
    assert "169.254.0.0/16" in blocks[0]["except"] and "10.0.0.0/8" in blocks[0]["except"]
    assert {"fc00::/7", "fe80::/10"} <= set(blocks[1]["except"])


def test_agents_in_a_cluster_reach_what_they_reach_elsewhere() -> None:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes/network.yaml").read_text())
    worker = next(one for one in documents if one["metadata"]["name"] == "swarm-worker")
    blocks = [peer["ipBlock"] for rule in worker["spec"]["egress"] for peer in rule["to"] if "ipBlock" in peer]
    for version, block in zip((4, 6), blocks, strict=True):
        kept = [IPv4Network(one) if version == 4 else IPv6Network(one) for one in block["except"]]
        meant = [one for one in (*networks.NEVER, *networks.PRIVATE) if one.version == version]
        assert sorted(collapse_addresses(kept)) == sorted(collapse_addresses(meant))  # type: ignore[type-var]


def test_manifests_are_valid_for_kubernetes() -> None:
    for path in sorted([*(DEPLOY / "kubernetes").glob("*.yaml"), DEPLOY / "telemetry/kubernetes.yaml"]):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] != "Kustomization":
                kubernetes_validate.validate(document, "1.32", strict=True)


def test_all_ways_start_workers_with_ceilings() -> None:
    worker = _pods()["swarm-worker"]["containers"][0]["env"]
    fixed = {each["name"]: each["value"] for each in worker if "value" in each}
    assert fixed["SWARM_WORKSPACES"] == "/workspace" and fixed["SWARM_MODE_CEILING"] == "acceptEdits"
    environment = _compose()["services"]["worker"]["environment"]
    assert environment["SWARM_WORKSPACES"] == "/workspace" and "acceptEdits" in environment["SWARM_MODE_CEILING"]
