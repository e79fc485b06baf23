"""One agent: journal entries, the fold over them, the next action, and prompts.

Nothing here imports Celery, Redis or the SDK.
"""
