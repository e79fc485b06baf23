"""The life of one agent: its journal's entries, the fold over them, its limits and prompts, and the loop.

Nothing here imports Celery, Redis or the SDK.
"""
