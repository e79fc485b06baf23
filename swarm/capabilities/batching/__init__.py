"""A capability: send requests that are not urgent by the Message Batches API, many at once at half the price."""
