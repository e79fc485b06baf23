"""The governor: a rate limiter in Redis for the whole fleet, which learns from the model server's responses."""
