"""Hooks: people's own programs and addresses that are told of what agents do, and may refuse or change it."""
