"""Outcomes: work must pass a check, a grader or both before its agent can end. Pure; `capabilities/outcomes` acts."""
