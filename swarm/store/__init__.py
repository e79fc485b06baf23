"""Agents, jobs and journals in Redis: the truth. The data model heads `lua/common.lua`."""
