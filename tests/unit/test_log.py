"""Lines of the log as JSON.

Tests of swarm/core/log.py.
"""

from __future__ import annotations

import io
import json
import logging

from swarm.core.log import EventLog, at_work_for, shape_lines


def test_json_lines_say_for_whom_they_were_written_and_those_of_others_are_json_too() -> None:
    written = io.StringIO()
    logger = logging.getLogger("swarm.test_log")
    logger.propagate, logger.handlers = False, [logging.StreamHandler(written)]
    logger.setLevel(logging.INFO)
    shape_lines(logger, "json")
    log = EventLog("swarm.test_log")
    with at_work_for(job_id="job-1", agent_id="agent-1", trace_id="ab"):
        log.info("files.brought", seconds=0.25, why="a b\nc")
    try:
        raise ValueError("broken")
    except ValueError:
        logger.exception("theirs %s", 1)
    own, theirs = map(json.loads, written.getvalue().splitlines())
    about = {"level": "info", "logger": "swarm.test_log", "job_id": "job-1", "agent_id": "agent-1", "trace_id": "ab"}
    assert own == {**about, "time": own["time"], "event": "files.brought", "seconds": 0.25, "why": "a b\nc"}
    assert theirs["message"] == "theirs 1" and theirs["level"] == "error" and "broken" in theirs["exception"]
    assert "job_id" not in theirs
    shape_lines(logger, "text")
