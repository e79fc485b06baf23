"""Your own tools: a typed function that is declared with `tool` is given to agents like any other tool.

Here is what such a function is made into, and what it is told of a call; it needs neither Redis nor Celery, so a sandboxed function
loads nothing else. `swarm.tools.own` carries calls out.
"""

from __future__ import annotations
