"""What lies in the folder of a host's broker of MCP servers."""

SOCKET, LOCK, LOG, HOMES = "socket", "lock", "log", "homes"
