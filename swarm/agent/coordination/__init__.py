"""Coordination rules for an agent that delegates. Pure; its definition selects the rules."""
