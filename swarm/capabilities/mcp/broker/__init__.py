"""Hold the MCP servers of one host for all its workers.

Run as `python -m swarm.capabilities.mcp.broker FOLDER IDLE_SECONDS`. Nothing outside this folder imports the protocol's SDK. A worker
sends lines of JSON to the Unix socket in FOLDER (`capabilities/mcp/broker_client.py`); `service.py` describes them. Guarantees:

- A server runs once per key that workers name.
- A server ends with its job, with the broker, or after IDLE_SECONDS without use.
- The broker ends when no worker is connected.
"""
