"""Shared state of a job's agents: the team, its task board, the scratchpad, each with its tools and Lua."""
