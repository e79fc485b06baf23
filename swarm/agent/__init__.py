"""The life of one agent: its journal's entries, the fold over them, what is decided from that, and what it is told.

Nothing here imports Celery, Redis or the SDK.
"""
