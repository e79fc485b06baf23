"""The fleet as an MCP server: whoever has a client (an editor, another agent) starts jobs, follows, answers and cancels them.

Only `server` knows the protocol's SDK. Nothing is kept here: any number of these serve the same swarm, and a client that
comes back finds its jobs as they are.
"""
