"""The governor: one share of the model for the whole fleet, kept in Redis, learned from what the model's server says."""
