"""The runtime: the loop of an agent's segment, and its parts. Nothing here imports Celery."""
