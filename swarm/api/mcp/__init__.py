"""The fleet as an MCP server: clients (an editor, another agent) start, follow, answer and cancel jobs.

Only `server` uses the protocol's SDK. No state is kept here: any number of servers serve the same swarm, and a returning
client finds its jobs.
"""
