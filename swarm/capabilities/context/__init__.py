"""What an agent is given to read beside its task: instruction files, and what is said again after a summary."""
