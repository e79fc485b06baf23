"""The line that is typed below the live tree.

Tests of swarm/cli/live_editor.py.
"""

from __future__ import annotations

import pytest

from swarm.cli.live_editor import Editor


@pytest.mark.parametrize(
    ("keys", "lines", "left"),
    [
        ("go on\r", ["go on"], ""),
        ("  \r\n", [], ""),
        ("gi\x7fo\n", ["go"], ""),
        ("wrong\x15right\n", ["right"], ""),
        ("one two\x17three\n", ["onethree"], ""),
        ("up\x1b[A and \x1b[3~down\x1bOP\n", ["up and down"], ""),
        ("one\rtwo\rth", ["one", "two"], "th"),
        ("Grüße\x00\x07 中\n", ["Grüße 中"], ""),
    ],
)
def test_keys_become_lines_and_no_other_key_leaves_a_trace(keys: str, lines: list[str], left: str) -> None:
    editor = Editor()
    assert [line for key in keys for line in editor.press(key)] == lines
    assert editor.text == left and not editor.left


def test_the_end_of_input_leaves_only_an_empty_line() -> None:
    editor = Editor()
    editor.press("a\x04")
    assert not editor.left
    editor.press("\x7f\x04")
    assert editor.left
