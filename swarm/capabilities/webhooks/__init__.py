"""A capability: notify people of jobs over HTTP, at workers' addresses or one that a job brings."""
