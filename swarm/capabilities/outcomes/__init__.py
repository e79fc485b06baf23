"""A capability: the work of an agent is judged before its end, by a command that checks it and by a grader."""
