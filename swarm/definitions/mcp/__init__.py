"""The MCP servers that are configured: their formats, where they are read, and how one is added."""
