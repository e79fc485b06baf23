"""The archive: ended jobs as objects outside Redis, and back.

Guarantees:

- A job is always whole in Redis or in the archive. Its object is written and read back before a step removes its keys, and that step
  refuses a job that has changed meanwhile.
- Every key of the job comes back, with the same content.
- A caller may die at any moment: the sweep completes its steps, and an unused object goes with its job.
"""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from swarm.core.errors import ConfigurationError, RedisFull
from swarm.store.keyspace import Keyspace, no_job
from swarm.store.objects import JobObjects

_FORMAT, _VERSION = "swarm-archive", 1
_AGENTS_AT_ONCE = 200
_PAGE = 500
_MOST_BYTES = 1 << 20
"""Content of one step, unless a single item has more."""
_LEASE_SECONDS = 600.0
"""How long a due job is left to the worker that took it."""
_BACK_SECONDS = 3_600.0
"""How long a recalled job stays in Redis."""
_Item = list[str]


class Archive:
    """The archived jobs of a swarm. Methods that read or write objects raise `ObjectsAway`, `ObjectRefused` and `ObjectMissing`."""

    def __init__(self, keyspace: Keyspace, objects: Callable[[], JobObjects | None]) -> None:
        self._keyspace, self._objects = keyspace, objects

    def take_in(self, job_id: str) -> bool:
        """Move an ended job to the archive; returns False if it is open, or changes meanwhile. Raises `UnknownAgent`."""
        objects = self._objects()
        if objects is None:
            raise ConfigurationError("the archive needs a store that all hosts reach: set SWARM_OBJECTS")
        record, seq = self._record(job_id), self._seq(job_id)
        if not record:
            raise no_job(job_id)
        if record.get("archived"):
            return True
        if "ended" not in record:
            return False
        with tempfile.TemporaryDirectory(prefix="swarm-archive-") as folder:
            file = Path(folder) / job_id
            with file.open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
                for line in self._lines(job_id, record):
                    packed.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            digest, size = objects.put(job_id, file), file.stat().st_size
        objects.get(job_id, digest)  # checks it
        given = (job_id, digest, size, seq, json.dumps(record))
        while (answer := self._keyspace.run("archive_job", *given)[0]) == "more":
            pass
        if answer == "unknown":
            # It was forgotten meanwhile, perhaps before the object was written.
            self._keyspace.run("hold_objects", job_id, "")
        return bool(answer == "ok")

    def recall(self, job_id: str) -> bool:
        """Bring an archived job back to Redis for a while; returns False if it is not in the archive, or cannot be recalled here.

        Raises `RedisFull` near Redis' limit.
        """
        digest = self._keyspace.client.hget(self._keyspace.key("job", job_id), "archived")
        if digest is None or (objects := self._objects()) is None:
            return False
        while self._keyspace.run("settle", job_id)[0]:  # removal of its keys that is left
            pass
        with gzip.open(io.BytesIO(objects.get(job_id, digest)), "rt", encoding="utf-8") as lines:
            record, parts = _read_lines(lines, job_id)
            for part in parts:
                answer = self._keyspace.run("recall_part", job_id, digest, *part)
                if answer[0] == "full":
                    raise RedisFull(*answer[1:])
                if answer[0] != "ok":
                    return bool(answer[0] == "recalled")  # another client was faster
        while (
            told := self._keyspace.run("recall_job", job_id, digest, json.dumps(record), _BACK_SECONDS)[0]
        ) == "more":
            pass
        return bool(told != "gone")

    def recall_for(self, wanted: str) -> bool:
        """Bring the job of an archived agent or question back; like `recall`."""
        job_id = self._keyspace.client.hget(self._keyspace.key("archived"), wanted)
        return job_id is not None and self.recall(job_id)

    def agent_ids(self) -> list[str]:
        """The ids of the agents of archived jobs."""
        found = self._keyspace.client.hkeys(self._keyspace.key("archived"))
        return [each for each in found if each.startswith("agent-")]

    # -- due jobs ---------------------------------------------------------------------------------------

    def take_due(self, most: int = 100) -> list[str]:
        """Take some jobs that are due; a job that is not archived then is due again after a while."""
        return list(self._keyspace.run("take_archivable", most, _LEASE_SECONDS))

    def has_due(self) -> bool:
        """Whether a job is due."""
        return self.count_due() > 0

    def count_due(self, since_seconds: float = 0.0) -> int:
        """The number of jobs that have been due for so long."""
        last = self._keyspace.now() - since_seconds
        return int(self._keyspace.client.zcount(self._keyspace.key("archivable"), "-inf", last))

    def note_failure(self, why: str) -> None:
        """Note why jobs that are due cannot be archived, until one is."""
        self._keyspace.run("note_archiving", why)

    def trouble(self) -> str:
        """Why jobs that are due could not be archived at the last attempt; empty if they could."""
        return self._keyspace.client.get(self._keyspace.key("archiving")) or ""

    # -- the content ---------------------------------------------------------------------------------------

    def _record(self, job_id: str) -> dict[str, str]:
        return dict(self._keyspace.client.hgetall(self._keyspace.key("job", job_id)))

    def _seq(self, job_id: str) -> str:
        return self._keyspace.client.get(self._keyspace.key("job", job_id, "seq")) or ""

    def _lines(self, job_id: str, record: dict[str, str]) -> Iterator[dict[str, Any]]:
        """Yield a header with the record, the documents, and each key in parts."""
        yield {"t": _FORMAT, "v": _VERSION, "job": job_id, "record": dict(sorted(record.items()))}
        digests = sorted((self._keyspace.client.hget(self._keyspace.key("references"), job_id) or "").split())
        texts = zip(
            digests, self._keyspace.each("get", (self._keyspace.key("document", one) for one in digests)), strict=True
        )
        yield from _in_parts("", "document", ([digest, text] for digest, text in texts if text is not None))
        first = 0
        while first >= 0:
            keys, first = self._keyspace.run("list_keys", job_id, first, _AGENTS_AT_ONCE)
            for key, kind in zip(keys, self._keyspace.each("type", keys), strict=True):
                if kind != "none":
                    yield from _in_parts(key, kind, _READERS[kind](self._keyspace.client, key))


def _read_string(client: Any, key: str) -> Iterator[_Item]:
    # None: the key has expired, or another client has archived the job meanwhile.
    if (text := client.get(key)) is not None:
        yield [text]


def _read_stream(client: Any, key: str) -> Iterator[_Item]:
    after = "-"
    while page := client.xrange(key, after, "+", count=_PAGE):
        for entry_id, fields in page:
            yield [entry_id, *(text for pair in fields.items() for text in pair)]
        after = f"({page[-1][0]}"


def _read_sorted(client: Any, key: str) -> Iterator[_Item]:
    for member, score in client.zrange(key, 0, -1, withscores=True, score_cast_func=_as_text):
        yield [score, member]


def _as_text(score: bytes | str) -> str:
    return score if isinstance(score, str) else score.decode()


_READERS: Mapping[str, Callable[[Any, str], Iterator[_Item]]] = {
    "hash": lambda client, key: ([name, value] for name, value in sorted(client.hgetall(key).items())),
    "set": lambda client, key: ([member] for member in sorted(client.smembers(key))),
    "list": lambda client, key: ([value] for value in client.lrange(key, 0, -1)),
    "zset": _read_sorted,
    "string": _read_string,
    "stream": _read_stream,
}
"""Type of a key → its items, as `recall_part` takes them."""


def _in_parts(key: str, kind: str, items: Iterator[_Item]) -> Iterator[dict[str, Any]]:
    """Yield the items of a key in lines that one step can take; `at` is the number of items before."""
    part: list[_Item] = []
    at = size = 0
    for item in items:
        part.append(item)
        size += sum(map(len, item))
        if len(part) == _PAGE or size >= _MOST_BYTES:
            yield {"k": key, "t": kind, "at": at, "items": part}
            at, size, part = at + len(part), 0, []
    if part:
        yield {"k": key, "t": kind, "at": at, "items": part}


def _read_lines(lines: IO[str], job_id: str) -> tuple[dict[str, str], Iterator[tuple[str, str, int, str]]]:
    """Read the record, and yield the parts for the step `recall_part`. Raises `ConfigurationError`."""
    header = json.loads(next(lines))
    if (header["t"], header["v"]) != (_FORMAT, _VERSION):
        raise ConfigurationError(f"{job_id} was archived by a newer release; upgrade this one")
    found = map(json.loads, lines)
    return header["record"], (
        (one["k"], one["t"], one["at"], json.dumps(one["items"], ensure_ascii=False)) for one in found
    )
