"""Large contents in parts: commits of a few chunks each, which Git stores, sends and fetches one by one.

Equal chunks are stored and sent once, whichever file or version they belong to, and a connection that breaks costs one part. The
same chunks give the same part, on any host. A snapshot's message names the parts that it needs; at the hub each has a ref named by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from swarm.workspace.git_command import SiteToken, call_git, write_object

Token = str | SiteToken | None

CHUNK_BYTES = 4 << 20
_CHUNKS = 4
"""Chunks of a part. A server that compares them all before it sends the first byte must not seem dead."""
_NO_DELTAS = ("-c", "pack.window=0", "-c", "pack.compression=1")
"""Chunks are not alike, and looking for likeness takes longer than sending them."""
REFETCH = ("-c", "fetch.unpackLimit=1", "fetch", "--refetch")
"""Fetches all objects, into packs: Git searches these before single objects, one of which may be half-written."""
_BY = "swarm <swarm@localhost> 0 +0000"


def store_parts(git_dir: Path, chunks: Iterable[bytes]) -> list[str]:
    """Store chunks, and return the ids of their parts. Raises `GitFailed`."""
    parts, rest = list[str](), iter(chunks)
    while blobs := [write_object(git_dir, "blob", chunk) for chunk in islice(rest, _CHUNKS)]:
        entries = "".join(f"100644 blob {blob}\t{number:02}\0" for number, blob in enumerate(blobs))
        tree = call_git(git_dir, ["mktree", "-z"], stdin=entries.encode())[1].decode().strip()
        parts.append(write_object(git_dir, "commit", f"tree {tree}\nauthor {_BY}\ncommitter {_BY}\n\npart\n".encode()))
    return parts


def read_parts(git_dir: Path, parts: Iterable[str]) -> Iterator[bytes]:
    """Yield the chunks of parts, in order. Raises `GitFailed`."""
    for part in parts:
        for blob in call_git(git_dir, ["ls-tree", "--object-only", part])[1].decode().split():
            yield call_git(git_dir, ["cat-file", "blob", blob])[1]


def find_missing(git_dir: Path, parts: Sequence[str]) -> list[str]:
    """Return the parts that a git folder does not have. Raises `GitFailed`."""
    asked = "".join(f"{part}\n" for part in parts).encode()
    told = call_git(git_dir, ["cat-file", "--batch-check"], stdin=asked)[1].decode().splitlines() if parts else []
    return [line.split(" ")[0] for line in told if line.endswith(" missing")]


def push_parts(git_dir: Path, url: str, parts: Iterable[str], token: Token, seconds: float) -> None:
    """Send parts one by one, except those known to be there. Raises `GitFailed`."""
    sent = git_dir / "swarm-parts-sent"
    known = set[str]()
    with suppress(OSError):
        known = set(sent.read_text().splitlines())
    for part in dict.fromkeys(parts):
        if f"{url} {part}" not in known:
            words = ["push", "-q", "--porcelain", "--no-verify", url, f"{part}:{_ref(part)}"]
            call_git(git_dir, [*_NO_DELTAS, *words], token=token, seconds=seconds)
            with sent.open("a") as file:
                file.write(f"{url} {part}\n")


def fetch_parts(
    git_dir: Path, url: str, parts: Iterable[str], token: Token, seconds: float, command: Sequence[str]
) -> None:
    """Fetch parts that a git folder does not have, or with `REFETCH` as command all of them, one by one. Raises `GitFailed`."""
    wanted = list(dict.fromkeys(parts))
    for part in wanted if command is REFETCH else find_missing(git_dir, wanted):
        words = ["-q", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", url, f"+{_ref(part)}:{_ref(part)}"]
        call_git(git_dir, [*command, *words], token=token, seconds=seconds)


def keep_parts(git_dir: Path, parts: Iterable[str]) -> None:
    """Keep parts from being removed with objects that nothing needs. Raises `GitFailed`."""
    for part in parts:
        call_git(git_dir, ["update-ref", _ref(part), part])


def _ref(part: str) -> str:
    return f"refs/swarm/part/{part}"
