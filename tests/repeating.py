"""A client whose every step is sent twice."""

from __future__ import annotations

from typing import Any

import redis


class Repeating(redis.Redis):
    """Makes every call of a step twice and only hears the second answer, as after a broken connection."""

    def fcall(self, *args: Any, **options: Any) -> Any:
        super().fcall(*args, **options)
        return super().fcall(*args, **options)
