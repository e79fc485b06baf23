"""The first program in a box: `python -I -S inside.py PORT SOCKET ERRORS COMMAND…`.

It passes connections to PORT of the box's loopback on to SOCKET, which is the only way out, because most programs can only
speak to a port. The command runs as its child, with descriptor 20 as standard input, and ERRORS as standard error. Nothing of
the project is in a box: it imports the standard library alone.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

_GIVEN = 20


def main(port: str, path: str, errors: str, *command: str) -> None:
    """Run the command, and end with its exit code."""
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=64)
    child = os.fork()
    if child == 0:
        _become(errors, command)
    for given in (0, _GIVEN):
        try:
            os.close(given)
        except OSError:
            pass
    threading.Thread(target=_serve, args=(listener, path), daemon=True).start()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _become(errors: str, command: tuple[str, ...]) -> None:
    try:
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        os.dup2(_GIVEN, 0)
        os.close(_GIVEN)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"cannot start {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _serve(listener: socket.socket, path: str) -> None:
    while True:
        inner, _ = listener.accept()
        outer = socket.socket(socket.AF_UNIX)
        try:
            outer.connect(path)
        except OSError:
            inner.close()
            continue
        for source, target in ((inner, outer), (outer, inner)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
    except OSError:
        pass
    for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        try:
            end.shutdown(how)
        except OSError:
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
