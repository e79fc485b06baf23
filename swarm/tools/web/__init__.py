"""The web for agents: fetching pages of public addresses, reading them, searching."""
