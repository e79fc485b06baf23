"""The folder on a host where the plugins of jobs are unpacked.

It belongs to this user alone. A plugin's folder in it is named by its content, shared by all jobs, and removed when none has used it for
two weeks.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from swarm.core.settings import Settings
from swarm.definitions.carried_files import write_files
from swarm.definitions.plugins.model import Plugin, PluginBundle
from swarm.runtime.scratch import scratch_root
from swarm.workspace.private import make_private_folder

_KEPT_SECONDS = 14 * 24 * 3_600.0


def plugins_folder(settings: Settings) -> Path:
    """Return the folder of jobs' plugins on this host, made if needed. Raises `ConfigurationError`."""
    root = scratch_root(settings)
    folder = make_private_folder(root.with_name(f"{root.name}-plugins"), remedy="set TMPDIR to another folder")
    return folder.resolve()


def place_bundle(folder: Path, name: str, read: Callable[[], PluginBundle]) -> Path:
    """Return a plugin's folder, unpacked now if it is new here."""
    place = folder / Path(name).name
    if not place.is_dir():
        _remove_unused(folder)
        write_files(read().files, place)
    with suppress(OSError):
        os.utime(place)
    return place


def place_plugins(plugins: Iterable[Plugin], settings: Settings) -> list[Path]:
    """Unpack this machine's plugins as a worker would, and return their folders. Raises `ConfigurationError`."""
    folder = plugins_folder(settings)

    def place(plugin: Plugin) -> Path:
        return place_bundle(folder, plugin.place, lambda: PluginBundle.model_validate_json(plugin.bundle))

    return [place(plugin) for plugin in plugins if plugin.bundle]


def _remove_unused(folder: Path) -> None:
    for place in folder.iterdir():
        with suppress(OSError):
            if time.time() - place.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(place, ignore_errors=True)
