"""What the agents of a job share: the team, its task board, the scratchpad. Each has its domain, its tools and its Lua side by side."""
