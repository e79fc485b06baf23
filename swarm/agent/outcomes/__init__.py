"""Outcomes: work must pass a check, a grader or both. Pure; `capabilities/outcomes` acts."""
