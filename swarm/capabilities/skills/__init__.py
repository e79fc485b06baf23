"""Skills and commands that people keep in files: they are read where a job is submitted, and travel with it.

What is told of them to begin with is a line each; an agent is given the text of one when it asks for it, and its files one by one.
"""
