"""What an agent may do: the filter that decides which tools it is given."""
