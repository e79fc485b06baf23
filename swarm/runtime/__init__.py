"""The runtime: the loop that runs an agent's segment, and its parts. Nothing here imports Celery."""
