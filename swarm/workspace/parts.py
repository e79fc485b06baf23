"""Large contents in parts: chunks of a few MiB that Git keeps, sends and fetches one by one.

Equal chunks are stored and sent once, whichever file or version they belong to, and a connection that breaks costs a few of them. A
part is a blob; a snapshot's message names the parts that it needs, and at the hub each has a ref named by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from swarm.workspace.git_command import SiteToken, call_git, write_object

CHUNK_BYTES = 4 << 20
REFETCH = ("-c", "fetch.unpackLimit=1", "fetch", "--refetch")
"""Fetches all objects, into packs: Git searches these before single objects, one of which may be half-written."""
Token = str | SiteToken | None
_AT_ONCE = 4
"""Parts sent together. A server that compares them all before it sends the first byte must not seem dead."""
_NO_DELTAS = ("-c", "pack.window=0", "-c", "pack.compression=1")
_OPTIONAL = ("-c", "http.extraHeader=Swarm-Optional: 1")
"""Chunks are not alike, and looking for likeness takes longer than sending them."""


def store_parts(git_dir: Path, chunks: Iterable[bytes]) -> list[str]:
    """Store chunks, and return the ids of the parts. Raises `GitFailed`."""
    return [write_object(git_dir, "blob", chunk) for chunk in chunks]


def read_parts(git_dir: Path, parts: Iterable[str]) -> Iterator[bytes]:
    """Yield the chunks of parts, in order. Raises `GitFailed`."""
    for part in parts:
        yield call_git(git_dir, ["cat-file", "blob", part])[1]


def find_missing(git_dir: Path, parts: Sequence[str]) -> list[str]:
    """Return the parts that a git folder does not have. Raises `GitFailed`."""
    asked = "".join(f"{part}\n" for part in parts).encode()
    told = call_git(git_dir, ["cat-file", "--batch-check"], stdin=asked)[1].decode().splitlines() if parts else []
    return [line.split(" ")[0] for line in told if line.endswith(" missing")]


def push_parts(
    git_dir: Path, url: str, parts: Iterable[str], token: Token, seconds: float, *, optional: bool = False
) -> None:
    """Send parts that have not been sent there yet, a few at once; a hub refuses `optional` ones sooner. Raises `GitFailed`."""
    sent = git_dir / "swarm-parts-sent"
    known = set[str]()
    with suppress(OSError):
        known = set(sent.read_text().splitlines())
    wanted = [part for part in dict.fromkeys(parts) if f"{url} {part}" not in known]
    for some in _take_some(wanted):
        words = ["push", "-q", "--porcelain", "--no-verify", url, *(f"{part}:{_ref(part)}" for part in some)]
        call_git(git_dir, [*_NO_DELTAS, *(_OPTIONAL if optional else ()), *words], token=token, seconds=seconds)
        with sent.open("a") as file:
            file.writelines(f"{url} {part}\n" for part in some)


def fetch_parts(
    git_dir: Path, url: str, parts: Iterable[str], token: Token, seconds: float, command: Sequence[str]
) -> None:
    """Fetch parts that a git folder does not have, or with `REFETCH` as command all of them. Raises `GitFailed`."""
    wanted = list(dict.fromkeys(parts))
    for some in _take_some(wanted if command is REFETCH else find_missing(git_dir, wanted)):
        words = ["-q", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", url]
        refs = [f"+{_ref(part)}:{_ref(part)}" for part in some]
        call_git(git_dir, [*command, *words, *refs], token=token, seconds=seconds)


def keep_parts(git_dir: Path, parts: Iterable[str]) -> None:
    """Keep parts from being removed with objects that nothing needs. Raises `GitFailed`."""
    for part in parts:
        call_git(git_dir, ["update-ref", _ref(part), part])


def _take_some(parts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(parts), _AT_ONCE):
        yield parts[start : start + _AT_ONCE]


def _ref(part: str) -> str:
    return f"refs/swarm/part/{part}"
