"""The names of a plugin's folders in texts and commands. Pure."""

from __future__ import annotations

import re

FOLDERS = "SWARM_PLUGINS"
"""The variable with the folder on a worker that holds the plugins of jobs."""
DATA = "SWARM_PLUGIN_DATA"
"""The variable with an empty folder for the data of a plugin's MCP server."""
_DIGITS = 24
_ROOT = re.compile(r"\$(?:\{(?:CLAUDE_)?PLUGIN_ROOT\}|(?:CLAUDE_)?PLUGIN_ROOT\b)")
_DATA = re.compile(r"\$(?:\{(?:CLAUDE_)?PLUGIN_DATA\}|(?:CLAUDE_)?PLUGIN_DATA\b)")


def place_of(name: str, digest: str) -> str:
    """Name the folder of a plugin on workers by the digest of its content."""
    return f"{name}-{digest[:_DIGITS]}"


def name_of(place: str) -> str:
    """Return the plugin's name in the name of its folder."""
    return place[: -_DIGITS - 1]


def mentions_folder(text: str) -> bool:
    """Report whether a text refers to the folder of its plugin."""
    return "PLUGIN_ROOT" in text


def fill_root(text: str, folder: str) -> str:
    """Put a folder in place of the plugin's own."""
    return _ROOT.sub(lambda _: folder, text)


def fill_folders(text: str, root: str, data: str) -> str:
    """Put folders in place of the plugin's own and the one of its data."""
    return _DATA.sub(lambda _: data, fill_root(text, root))
