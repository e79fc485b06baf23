"""A local Messages API server with scripted replies, for demos, tests and load tests that spend no tokens.

The real SDK talks to it over real HTTP; only the model is replaced.
"""
