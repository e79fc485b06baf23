"""Whether jobs that are over were worked off right: a program of its own that reads what Redis kept of them, and nothing else.

`python -m tests.chaos.check DUMP` judges a file that a chaos run has written, `python -m tests.chaos.check URL` what is in a
Redis now. It imports neither the product nor what deals the blows; a test holds it to that. What it knows of both is what it reads:
the kinds of entries, the words of an interrupted call, and the orders that the rehearsed models are given.
"""
