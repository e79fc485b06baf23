"""Coordination rules for an agent that delegates. Pure functions of its journal; the definition selects the rules."""
