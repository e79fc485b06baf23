"""A capability: what people are told of jobs over HTTP, at addresses that workers have or that a job brings."""
