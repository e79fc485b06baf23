"""Folders and locks of the local stack, used before anything starts or stops."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.workspace import private

_POLL_SECONDS = 0.05


def make_state_folder(settings: Settings) -> Path:
    """Make the state folder with mode 0700 if it is missing.

    An existing folder keeps its mode, because it may be a shared one that a person chose. Private files lie in private folders inside it.
    """
    folder = settings.state_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"the state folder {folder} cannot be made ({error.strerror}). Set SWARM_STATE_DIR to one that can."
        ) from error
    return folder


def make_private_folder(folder: Path) -> Path:
    """Make a folder of our own with mode 0700. Raises `ConfigurationError` if someone else owns it."""
    return private.make_private_folder(folder, remedy="set SWARM_STATE_DIR to another folder")


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically: a reader sees the old or the new text, never a part."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)


@contextlib.contextmanager
def hold_lock(path: Path, *, deadline_seconds: float) -> Iterator[None]:
    """Hold this file's lock; it excludes processes and threads. It is free when its holder dies."""
    give_up = time.monotonic() + deadline_seconds
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not try_lock(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > give_up:
                raise ConfigurationError(
                    f"another process has held {path} for {deadline_seconds:.0f} s. "
                    "Wait until its `swarm` command ends, or end it."
                )
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, kind: int) -> bool:
    """Try to take the lock (`LOCK_EX` or `LOCK_SH`); this descriptor's earlier lock is given up."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
