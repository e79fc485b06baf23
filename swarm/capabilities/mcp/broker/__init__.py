"""The one process of a host that speaks with MCP servers for all workers: `python -m swarm.capabilities.mcp.broker FOLDER IDLE_SECONDS`.

Nothing outside of this folder imports the protocol's SDK. A worker speaks to it by lines of JSON on the Unix socket in FOLDER
(`capabilities/mcp/line.py`); what they say heads `serving.py`. Guarantees: a server runs once for each key that workers name; it ends
with its job, when nobody has used it for IDLE_SECONDS, and in any case when the broker does; the broker ends when no worker is connected.
"""
