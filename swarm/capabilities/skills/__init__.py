"""Skills and commands in people's files, read at submission; they travel with the job.

An agent begins with one line about each. It gets a skill's text when it loads it, and its files one by one.
"""
