"""Make all pictures of the documentation, or the named ones: `python -m docs.pictures [NAME…]`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from docs.pictures.jobs import jobs_at_work
from docs.pictures.page import SHOTS, take_shots
from docs.pictures.terminal import RUNS, TOPS, take_terminals

FOLDER = Path(__file__).parent


def main(names: list[str]) -> None:
    """Write the pictures into this folder."""

    def wanted(known: Iterable[str]) -> list[str]:
        return [name for name in known if not names or name in names]

    with jobs_at_work() as jobs:
        # The browser comes first: the agents on its pictures must still be writing.
        taken = (take_shots(jobs, wanted(SHOTS)), take_terminals(jobs, wanted([*RUNS, *TOPS])))
        for name, data in chain(*taken):
            (FOLDER / name).write_bytes(data)
            sys.stdout.write(f"{name} {len(data) // 1024} KiB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
