"""Plugins: folders that bring agents, skills, commands, hooks and MCP servers, read where other systems have put them."""
