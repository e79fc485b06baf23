"""What an agent is given to read beside its task: the instruction files of people and projects."""
