"""Become one confined command, the way a worker starts it: `python sandbox_driver.py JSON`, as any user.

It needs the standard library and the checkout only, so that a user who cannot read the developer's environment can run
it with the system's Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from swarm.permissions.sandbox import Backend, SandboxPolicy, choose_backend, close_to_others, confine_argv

    given = json.loads(sys.argv[1])
    if "probe" in given:
        found = choose_backend(given["probe"])
        known = isinstance(found, Backend)
        print(json.dumps({"works": known, **vars(found), **({"promises": sorted(found.promises)} if known else {})}))
        return
    argv = given["argv"]
    if given["backend"] is not None:
        backend = Backend(**{**given["backend"], "promises": frozenset(given["backend"]["promises"])})
        policy = {
            name: Path(value) if name in ("workspace", "scratch") else value for name, value in given["policy"].items()
        }
        for name in ("readable", "writable", "hidden", "hooks"):
            policy[name] = tuple(Path(value) for value in policy.get(name, ()))
        argv = confine_argv(SandboxPolicy(**policy), backend, argv)
    launcher = str(ROOT / "swarm" / "tools" / "launcher.py")
    start = [sys.executable, "-I", "-S", launcher, str(given["limit"]), str(64 << 20), "1", "-1", *argv]
    if given.get("closed"):
        close_to_others()
        sys.exit(subprocess.run(start, pass_fds=()).returncode)
    os.execv(sys.executable, start)


main()
