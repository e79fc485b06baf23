"""Memory of a pool process after work (PSS), against a process of its own with Celery, redis and the SDK."""

from __future__ import annotations

import statistics
import subprocess
import sys
from argparse import Namespace
from contextlib import closing
from pathlib import Path

from bench.lives import submit
from bench.measure import Report
from bench.served import serve
from tests.fleet import Fleet

SIZES = (16, 8)
_ALONE = """
import anthropic, celery, redis
client = anthropic.Anthropic(base_url={url!r}, api_key="bench", max_retries=0)
message = {{"role": "user", "content": "TREE depth=0 steps=0"}}
with client.messages.stream(model="claude-sonnet-4-5", max_tokens=100, messages=[message]) as stream:
    stream.get_final_message()
print("ready", flush=True)
input()
"""


def pss_mib(pid: int) -> float:
    """A process's proportional share of memory."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no Pss of {pid}")


def run(report: Report, chosen: Namespace) -> None:
    """Every process of the pool serves agents first. What the processes share is divided among them, so larger pools cost less."""
    with serve() as url:
        for size in SIZES:
            with closing(Fleet()) as fleet:
                worker = fleet.start_worker(size)
                job = submit(fleet, url, "TREE depth=2 fanout=8 steps=6 think=20")
                assert job.wait(300).text == "DONE 73"
                pool = [pss_mib(child.pid) for child in worker.children()]
                main = pss_mib(worker.process.pid)
            report.note(f"pool of {size}: largest {max(pool):.1f} MiB, main process {main:.1f} MiB")
            report.figure(f"memory, a process of a pool of {size}", statistics.median(pool), " MiB", target=30)
        alone = subprocess.Popen(
            [sys.executable, "-c", _ALONE.format(url=url)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert alone.stdout is not None and alone.stdout.readline().strip() == "ready"
        bare = pss_mib(alone.pid)
        alone.communicate("\n")
        report.note(f"a process of its own with the bare libraries: {bare:.1f} MiB")
