"""What agents can do beside their turns, a folder each: its domain, its tools, its Lua and its words for the model."""
