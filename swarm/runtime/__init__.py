"""The runtime: the loop that runs an agent's segment, and what it acts through. Nothing here imports Celery."""
