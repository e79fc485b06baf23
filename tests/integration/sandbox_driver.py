"""Become confined commands, the way a worker starts them, as any user: `python sandbox_driver.py SOCKET` does so for each request.

It needs the standard library and the checkout only, so that a user who cannot read the developer's environment can run
it with the system's Python. `python sandbox_driver.py JSON` says what the probe of a backend says.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REQUEST_BYTES = 1 << 17


def main() -> None:
    sys.path.insert(0, str(ROOT))
    # Loaded once for all commands: it is most of what the start of one costs.
    from swarm.permissions.sandbox import Backend, choose_backend

    if sys.argv[1].isdecimal():
        with socket.socket(fileno=int(sys.argv[1])) as line:
            serve(line)
        return
    found = choose_backend(json.loads(sys.argv[1])["probe"])
    known = isinstance(found, Backend)
    print(json.dumps({"works": known, **vars(found), **({"promises": sorted(found.promises)} if known else {})}))


def serve(line: socket.socket) -> None:
    """Start a copy of this process for each request that brings three descriptors, and tell of others how they ended."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(line, REQUEST_BYTES, 3)
        if not request:
            return
        asked = json.loads(request)
        if pid := asked.get("poll"):
            ended, status = os.waitpid(pid, os.WNOHANG)
            reply = os.waitstatus_to_exitcode(status) if ended else None
        elif not (reply := os.fork()):
            line.close()
            os.setsid()
            os.chdir(asked["cwd"])
            os.environ.update(asked["env"])
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            become(asked["given"])
        for descriptor in descriptors:
            os.close(descriptor)
        line.send(json.dumps(reply).encode())


def become(given: dict[str, Any]) -> None:
    from swarm.permissions.sandbox import Backend, SandboxPolicy, close_to_others, confine_argv

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
