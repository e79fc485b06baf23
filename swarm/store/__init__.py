"""Agents, jobs and journals in Redis, the only source of truth. `lua/common.lua` begins with the data model."""
