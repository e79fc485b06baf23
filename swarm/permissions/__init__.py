"""Permissions: the tools that an agent gets, the calls that may run, and the sandbox."""
