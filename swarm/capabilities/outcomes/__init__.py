"""A capability: judge an agent's work before its end, by a command that checks it and by a grader."""
