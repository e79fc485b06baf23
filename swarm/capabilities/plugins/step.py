"""The plugins of one running agent: their folders, which its commands, hooks and servers only read."""

from __future__ import annotations

import os
from functools import cached_property, partial
from pathlib import Path

from swarm.core.errors import ToolError, UnreadableRecord
from swarm.definitions.plugins.model import JobPlugins, PluginBundle
from swarm.definitions.plugins.words import FOLDERS, name_of, place_of
from swarm.runtime.plugins import place_bundle, plugins_folder
from swarm.runtime.steps import Step
from swarm.store.documents import read_record
from swarm.store.prefixes import digest_of
from swarm.tools import ToolContext
from swarm.workspace import PLUGIN_PREFIX


class PluginsStep(Step):
    """The plugins of one segment's agent."""

    @cached_property
    def _folders(self) -> list[Path]:
        """Unpack the job's plugins on this host, once per segment."""
        segment = self.segment
        plugins = segment.carried("plugins", JobPlugins, "the plugins") or JobPlugins()
        folder = plugins_folder(segment.settings)
        return [
            place_bundle(folder, name, partial(self._bundle, name, digest)) for name, digest in plugins.bundles.items()
        ]

    def _bundle(self, place: str, digest: str) -> PluginBundle:
        """Read a plugin's folder. Raises `UnreadableRecord` also for another content than its place says."""
        document = self.segment.store.jobs.document(digest) or ""
        if digest_of(document) != digest or place_of(name_of(place), digest) != place:
            raise UnreadableRecord(f"the plugin {place} of its job has another content than its name says")
        return read_record(PluginBundle, document, f"the document {digest[:12]} with a plugin of its job")

    def equip(self, context: ToolContext) -> None:
        if self._folders:
            context.environment[FOLDERS] = str(self._folders[0].parent)
            context.readable = (*context.readable, *self._folders)
            context.carried_files[PLUGIN_PREFIX] = self._read

    def _read(self, path: str) -> bytes:
        """Read a file by its path for agents. Raises `ToolError`."""
        name, _, rest = path.removeprefix(PLUGIN_PREFIX).partition("/")
        folder = next((one for one in self._folders if one.name == name), None)
        file = Path(os.path.normpath(folder / rest)) if folder is not None else None
        if folder is None or file is None or not file.is_relative_to(folder) or not file.is_file():
            raise ToolError(f"the job's plugins have no file {path!r}")
        return file.read_bytes()
