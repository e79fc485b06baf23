"""One agent: its journal's entries, the fold over them, the decision about the next step, and its prompts.

Nothing here imports Celery, Redis or the SDK.
"""
