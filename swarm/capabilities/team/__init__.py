"""Shared state of a job's agents: the team, its task board, the scratchpad. Each has its domain, tools and Lua side by side."""
