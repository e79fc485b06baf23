"""Agents, jobs and journals in Redis: the truth. The data model heads `scripts/common.lua`."""
