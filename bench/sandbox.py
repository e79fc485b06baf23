"""A shell command in each sandbox, against the same command without one."""

from __future__ import annotations

import statistics
import tempfile
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from bench.lives import make_context
from bench.measure import Report, alternate
from swarm.permissions.sandbox import Backend, SandboxPolicy, choose_backend, confine_argv
from swarm.tools import Confine, ToolContext, ToolResult
from swarm.tools.processes import run_command
from swarm.tools.shell import try_look

ROUNDS = 25
HEAVY_ROUNDS = 7
FILES = (
    "mkdir t && for i in $(seq 1500); do echo $i > t/$i; done && cat t/* > all && cp -r t u && "
    "find t u -type f | xargs grep -l 7 | wc -l && rm -r t u all"
)
"""Thousands of small files made, read, copied, searched and removed."""


def run(report: Report, chosen: Namespace) -> None:
    """Wall time of whole commands under the real supervisor, in turns."""
    for backend in (choose_backend("bubblewrap"), choose_backend("landlock")):
        if not isinstance(backend, Backend):
            report.note(f"left out: {backend.reason}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            _measure(report, backend, Path(folder).resolve())


def _measure(report: Report, backend: Backend, folder: Path) -> None:
    workspace, scratch, own = folder / "work", folder / "scratch", folder / "scratch" / "files"
    for path in (workspace, scratch, own):
        path.mkdir()
    ctx = replace(make_context(workspace), scratch=scratch)

    def confine(ctx: ToolContext, argv: list[str]) -> list[str]:
        if ctx.hold is not None and ctx.hold.home is not None:
            policy = SandboxPolicy(workspace=workspace, scratch=ctx.hold.home, read_only=True, kept=own)
        else:
            policy = SandboxPolicy(workspace=workspace, scratch=own, read_only=False)
        return confine_argv(policy, backend, argv)

    def timed(command: str, confine: Confine | None) -> float:
        began = time.monotonic()
        outcome = run_command(ctx, command, confine, 120)
        assert outcome.exit_code == 0, outcome
        return time.monotonic() - began

    timed("true", confine)
    confined, free = alternate(ROUNDS, lambda: timed("true", confine), lambda: timed("true", None))
    ours, theirs = statistics.median(confined) * 1e3, statistics.median(free) * 1e3
    report.note(f"{backend.name}: `true` {ours:.1f} ms, without {theirs:.1f} ms")
    report.figure(f"sandbox {backend.name}, a command", ours - theirs, " ms", target=40)
    looking = replace(ctx, confine=confine)

    def look() -> float:
        began = time.monotonic()
        assert isinstance(try_look(looking, {"command": "true"}), ToolResult)
        return time.monotonic() - began

    looked, confined = alternate(ROUNDS, look, lambda: timed("true", confine))
    report.figure(
        f"sandbox {backend.name}, a look", statistics.median(looked) / statistics.median(confined), "×", target=1.0
    )
    confined, free = alternate(HEAVY_ROUNDS, lambda: timed(FILES, confine), lambda: timed(FILES, None))
    ours, theirs = statistics.median(confined) * 1e3, statistics.median(free) * 1e3
    report.note(f"{backend.name}: many files {ours:.0f} ms, without {theirs:.0f} ms")
    report.figure(f"sandbox {backend.name}, many files", ours / theirs, "×", target=1.5)
