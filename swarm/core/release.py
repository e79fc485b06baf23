"""This release: its version, and the format that it writes. Nothing else states either."""

from __future__ import annotations

VERSION = "0.3.0.dev0"
"""Version of the package; `pyproject.toml` reads it here. It changes with every release."""
FORMAT: int = 1
"""Format of all that workers share: records, journal entries, wake-up messages, and the keys of the steps in Lua.

A worker reads every format up to its own, and leaves agents of a newer one to others. Raise it, at most once for a release, when a
worker of the last release would refuse or misread something that this one writes: a new field of a record that forbids others, a new
kind of entry, another meaning of a value. Then add the way there to `swarm.core.formats.UPGRADES`.

A new key or field of a hash needs no new number if older steps may leave it alone. A key or field that exists keeps its type and
meaning for ever, because older steps wake, rescue and end agents of newer formats: another meaning gets another name.
"""
