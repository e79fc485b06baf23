"""What lies in the folder of a host's broker of MCP servers."""

SOCKET, LOCK, STARTING, LOG, HOMES = "socket", "lock", "starting", "log", "homes"
