"""What a small model is asked for people who watch.

Tests of swarm/agent/digests.py.
"""

from __future__ import annotations

from swarm.agent.digests import ask_for_digest, excerpt, fit, system_of
from swarm.agent.entries import Finished


def test_an_excerpt_is_the_end_of_the_conversation_with_each_part_cut() -> None:
    old = {"role": "user", "content": [{"type": "text", "text": f"old {n} " + "x" * 5_000} for n in range(40)]}
    call = {"type": "tool_use", "id": "a", "name": "Grep", "input": {"pattern": "tax"}}
    said = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, call]}
    found = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "till/tax.py:20"}]}
    text = excerpt([old, said, found])
    assert text.endswith("call: Grep {'pattern': 'tax'}\nresult: till/tax.py:20")
    assert len(text) < 6_500 and "old 39" in text and "old 1 " not in text and "hm" not in text


def test_a_line_is_one_line_without_marks_and_no_longer_than_there_is_room() -> None:
    assert fit("progress", '\n**"Reading the tests"**\nand more') == "Reading the tests"
    assert fit("title", "# Fix the VAT of lines\n") == "Fix the VAT of lines"
    assert len(fit("title", "word " * 50)) == 60 and fit("title", "word " * 50).endswith("…")
    assert fit("digest", "One.\n\nTwo.") == "One.\nTwo."


def test_what_is_summed_up_is_marked_as_data() -> None:
    ask = ask_for_digest("do it", Finished(state="failed", text="half", reason="why"), ["explore: a: completed"])
    assert "<end>failed: why</end>" in ask and "explore: a: completed" in ask
    assert "data" in system_of("digest") and '"summary"' in system_of("progress")
