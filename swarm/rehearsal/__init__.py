"""A local server of the Messages API with scripted replies: demos, tests and load tests that spend no tokens.

The real SDK talks to it over real HTTP; only the model behind it is an actor.
"""
