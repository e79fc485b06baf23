"""What goes with a job although git ignores it.

Tests of swarm/workspace/upload.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from swarm import Settings
from swarm.workspace.upload import send_folder
from tests.needs import need_program


def test_what_worktreeinclude_names_goes_along_and_nothing_else_that_is_ignored(tmp_path: Path) -> None:
    git, folder = need_program("git"), tmp_path / "folder"
    (folder / "conf").mkdir(parents=True)
    subprocess.run([git, "init", "-q", str(folder)], check=True)
    ignored = {".env": "", "conf/one.local": "", "conf/two.cache": "", "out.log": ""}
    included = "# secrets\n.env\nconf/*\n!conf/*.cache\n"
    files = {".gitignore": "\n".join(ignored), ".worktreeinclude": included, "code.py": "", **ignored}
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")
    sent = send_folder(Settings(state_dir=tmp_path / "s"), folder, f"{tmp_path}/hub", "job-1", "agent-1")
    [repository] = tmp_path.glob("hub/**/job-1.git")
    listed = subprocess.run(
        [git, "ls-tree", "-r", "--name-only", sent.commit], cwd=repository, capture_output=True, text=True, check=True
    )
    assert set(listed.stdout.split()) == files.keys() - {"conf/two.cache", "out.log"}
