"""Hooks: people's own programs and addresses that are notified of agents' actions and may refuse or change them."""
