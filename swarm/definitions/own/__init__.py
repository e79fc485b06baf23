"""Your own tools: agents get a typed function that is declared with `tool` like any other tool.

This package has the declaration and the context of a call. It needs neither Redis nor Celery, so a sandboxed function loads
nothing else. `swarm.tools.own` carries calls out.
"""

from __future__ import annotations
