"""Objects: content that is too large for Redis, in a folder, on the hub and in S3, and what becomes of it.

Tests of swarm/objects/__init__.py, swarm/objects/port.py, swarm/objects/folder.py, swarm/objects/hub.py, swarm/objects/remote.py,
swarm/hub/objects.py, swarm/hub/handler.py, swarm/store/objects.py, swarm/store/lua/objects.lua.
"""

from __future__ import annotations

import hashlib
import http.client
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from swarm import Settings
from swarm.core.errors import ObjectMissing, ObjectRefused, ObjectsAway
from swarm.objects import open_objects
from swarm.objects.folder import FolderObjects
from swarm.objects.hub import HubObjects
from swarm.objects.port import Objects
from tests.hub_world import TOKEN, HubProcess

CONTENT = os.urandom(300_000)
OWNER = "job-00000000000000aa"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    with closing(HubProcess(tmp_path_factory.mktemp("hub"), SWARM_HUB_JOB_MIB="2")) as hub:
        yield hub


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket of a server that speaks S3."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    given = {
        "AWS_ENDPOINT": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "a-key",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        with closing(http.client.HTTPConnection(host, port)) as connection:
            connection.request("PUT", "/a-bucket")
            assert connection.getresponse().status == 200
        yield "s3://a-bucket/below"
    server.stop()


@pytest.fixture(params=["folder", "hub", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    settings = {"state_dir": tmp_path}
    match request.param:
        case "folder":
            return open_objects(Settings(**settings))
        case "hub":
            url = request.getfixturevalue("hub").url
            return open_objects(Settings(**settings, hub=url, hub_token=TOKEN))
        case _:
            return open_objects(Settings(**settings, objects=request.getfixturevalue("bucket")))


def test_each_store_keeps_and_serves_objects_alike(objects: Objects, tmp_path: Path) -> None:
    digest = objects.put(OWNER, CONTENT)
    assert digest == hashlib.sha256(CONTENT).hexdigest() == objects.put(OWNER, CONTENT)
    assert objects.get(OWNER, digest) == CONTENT
    assert objects.get(OWNER, digest, 1_000, 50) == CONTENT[1_000:1_050]
    assert objects.get(OWNER, digest, len(CONTENT) - 3, 50) == CONTENT[-3:]
    assert objects.get(OWNER, digest, 299_000) == CONTENT[299_000:]
    assert objects.get(OWNER, digest, len(CONTENT), 50) == objects.get(OWNER, digest, 5, 0) == b""
    (file := tmp_path / "file").write_bytes(b"from a file")
    assert objects.get(OWNER, objects.put(OWNER, file)) == b"from a file"
    assert objects.get(OWNER, objects.put(OWNER, b"")) == b""
    assert objects.exists(OWNER, digest) and not objects.exists("job-bb", digest)
    with pytest.raises(ObjectMissing, match="set SWARM_OBJECTS"):
        objects.get("job-bb", digest)
    objects.put("job-cc", CONTENT)
    objects.delete(OWNER)
    objects.delete("job-never")
    assert objects.get("job-cc", digest) == CONTENT
    objects.discard("job-cc", digest)
    objects.discard("job-cc", digest)
    assert not objects.exists("job-cc", digest)
    # The hub deletes by itself, when the job is forgotten.
    assert objects.exists(OWNER, digest) == isinstance(objects, HubObjects)


def test_an_object_is_checked_when_it_is_read_and_only_a_jobs_own_names_are_read(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path / "objects")
    digest = objects.put(OWNER, CONTENT)
    file = tmp_path / "objects" / OWNER / digest
    assert file.stat().st_mode & 0o077 == 0 and list(file.parent.iterdir()) == [file]
    file.write_bytes(CONTENT[:-1])
    with pytest.raises(ObjectMissing, match="is damaged"):
        objects.get(OWNER, digest)
    for owner, name in (("../etc", digest), (OWNER, "../../etc/passwd")):
        with pytest.raises(ValueError):
            objects.get(owner, name)


def test_a_job_is_deleted_while_another_process_deletes_and_stores_its_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = FolderObjects(tmp_path)
    digests = [objects.put(OWNER, bytes([number])) for number in range(5)]
    unlink = os.unlink

    def unlink_last(path: str, **given: int) -> None:
        monkeypatch.undo()
        for digest in digests[1:4]:
            objects.discard(OWNER, digest)
        objects.put(OWNER, b"one more")
        unlink(path, **given)

    monkeypatch.setattr(os, "unlink", unlink_last)
    objects.delete(OWNER)
    assert not (tmp_path / OWNER).exists()


def test_a_store_that_cannot_keep_objects_says_why(hub: HubProcess, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ObjectRefused, match="Not a directory"):
        FolderObjects(tmp_path / "file").put(OWNER, CONTENT)
    with pytest.raises(ObjectRefused, match="SWARM_HUB_TOKEN"):
        HubObjects(hub.url, "another").put(OWNER, CONTENT)
    with pytest.raises(ObjectsAway, match="cannot be reached"):
        HubObjects("http://127.0.0.1:9", TOKEN).put(OWNER, CONTENT)
    ours = HubObjects(hub.url, TOKEN)
    with pytest.raises((ObjectRefused, ObjectsAway)):
        ours.put("job-large", bytes(3 << 20))
    for part in range(4):
        ours.put("job-filling", os.urandom(500_000 + part))
    with pytest.raises(ObjectRefused, match="SWARM_HUB_JOB_MIB"):
        ours.put("job-filling", os.urandom(500_000))


def test_the_hub_takes_only_content_that_is_what_its_name_says(hub: HubProcess) -> None:
    ours, wrong = HubObjects(hub.url, TOKEN), "0" * 64
    with pytest.raises(ObjectsAway, match="422"):
        ours._write(OWNER, wrong, CONTENT)
    assert not ours.exists(OWNER, wrong)
    assert not [path for path in hub.folder.rglob("swarm/*") if path.name.startswith(".new")]
