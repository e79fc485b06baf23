"""A capability: requests that have time, sent many at once by the Message Batches API at half the price."""
