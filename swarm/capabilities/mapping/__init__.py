"""A capability: one order for each line of a list, durable and once each."""
