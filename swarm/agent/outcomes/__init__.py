"""Outcomes: an agent's end is accepted only once its work has passed a check, a grader, or both. Pure; `capabilities/outcomes` acts."""
