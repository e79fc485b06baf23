"""Fit a long result into the conversation: the beginning and the end stay, the whole is kept and read by page."""

from __future__ import annotations

from swarm.tools import MAX_OUTPUT_CHARACTERS
from swarm.tools.outputs import Outputs

_HEAD_SHARE = 0.4
"""The end of an output (a test summary, an error) tells more than its beginning."""
_NOTE_ROOM = 400


def fit(outputs: Outputs, key: str, text: str) -> str:
    """`text` itself if it is short enough; else its head and tail around a line that says how to read the rest."""
    if len(text) <= MAX_OUTPUT_CHARACTERS:
        return text
    handle = outputs.keep(key, text)
    room = MAX_OUTPUT_CHARACTERS - _NOTE_ROOM
    head_end = int(room * _HEAD_SHARE)
    tail_start = len(text) - (room - head_end)
    # Cut at line ends where one is near, so that no half line is taken for a whole one.
    head_end = _near(text.rfind("\n", head_end - 1000, head_end) + 1, head_end)
    tail_start = _near(text.find("\n", tail_start, tail_start + 1000) + 1, tail_start)
    left_out = text[head_end:tail_start]
    first_line = text.count("\n", 0, head_end) + 1
    note = (
        f"[… {len(left_out):,} of {len(text):,} characters ({left_out.count(chr(10)):,} lines) left out here. "
        f'Read(file_path="{handle}", offset={first_line}, limit=500) pages through the whole output …]'
    )
    return f"{text[:head_end].rstrip(chr(10))}\n{note}\n{text[tail_start:]}"


def _near(found: int, otherwise: int) -> int:
    return found if found > 0 else otherwise
