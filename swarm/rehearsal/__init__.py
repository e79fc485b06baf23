"""A local Messages API server with scripted replies, for demos and tests without tokens.

The real SDK talks to it over real HTTP; only the model is replaced.
"""
