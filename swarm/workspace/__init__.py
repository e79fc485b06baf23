"""An agent's files: all below its workspace, and none outside of it, whatever a path or link says."""

from __future__ import annotations

from swarm.workspace.files import open_file, opened_folder, replace_file, require_unchanged
from swarm.workspace.paths import (
    OUTPUT_PREFIX,
    PLUGIN_PREFIX,
    SKILL_PREFIX,
    current_mtimes,
    is_carried,
    is_output,
    refuse_git_internals,
    resolve_path,
    shown,
)
from swarm.workspace.text import TextEncoding, decode_text, sniff_encoding

__all__ = [
    "OUTPUT_PREFIX",
    "PLUGIN_PREFIX",
    "SKILL_PREFIX",
    "TextEncoding",
    "current_mtimes",
    "decode_text",
    "is_carried",
    "is_output",
    "open_file",
    "opened_folder",
    "refuse_git_internals",
    "replace_file",
    "require_unchanged",
    "resolve_path",
    "shown",
    "sniff_encoding",
]
