"""Keep a recording as a test: `python -m tests.recorded FOLDER NAME`, or `--accept NAME` for one that is kept."""

import shutil
import sys
from pathlib import Path

from tests.recorded import HERE, READ, accept

if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, name = sys.argv[1:]
    if source != "--accept":
        shutil.copytree(Path(source), HERE / name)
    accept(HERE / name)
    print(f"{HERE / name / READ}: read it, it is what the test expects")
