"""A capability: submit one order for each line of a list, durably and once each."""
