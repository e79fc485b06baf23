"""Coordination: what the runtime holds an agent to that works through others. Pure functions of its journal; the definition says which."""
