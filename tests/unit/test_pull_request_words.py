"""The text of a pull request.

Tests of swarm/capabilities/repositories/words.py.
"""

from __future__ import annotations

from swarm.capabilities.repositories.words import write_text
from swarm.core.records import JobView
from swarm.core.usage import Usage

JOB = JobView.model_construct(id="job-1", usage=Usage(), agents=1, cost_usd=None, rehearsed=False)


def test_an_answer_hides_no_warning_and_a_files_name_is_only_shown() -> None:
    risky = {"a`<!--\n/\udcff/Makefile": "a link to `x` <b>", **{f"f{number:03}": "obeyed" for number in range(900)}}
    text = write_text(JOB, "Done. <!-- nothing to see", (), risky)
    assert text.index("Look at these first") < text.index("<!-- nothing to see")
    first = next(line for line in text.splitlines() if line.startswith("- `"))
    assert first == "- `a'<!-- /\ufffd/Makefile`: `a link to 'x' <b>`" and text.encode()
    assert "- 881 more" in text and len(text) < 60_000
    assert len(write_text(JOB, "x" * 99_999, (), dict.fromkeys(map(str, range(50)), "y" * 4_000))) < 65_536
