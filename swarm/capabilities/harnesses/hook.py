"""The hook of a program in a box that knows no hooks over HTTP: `python -I -S hook.py PORT`.

It passes its input on, and prints the answer. Without an answer it ends with status 2, which refuses the call.
"""

from __future__ import annotations

import os
import socket
import sys

_REFUSED = 2


def main(port: str) -> None:
    """Ask, and print the answer."""
    body = sys.stdin.buffer.read()
    try:
        with socket.create_connection(("127.0.0.1", int(port))) as connection:
            connection.sendall(
                b"POST /hook HTTP/1.1\r\nhost: box\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
                + body
            )
            answer = b""
            while part := connection.recv(65_536):
                answer += part
    except OSError as error:
        os.write(2, f"no answer: {error.strerror}\n".encode())
        os._exit(_REFUSED)
    head, _, said = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0] + b" ":
        os._exit(_REFUSED)
    os.write(1, said)


if __name__ == "__main__":
    main(*sys.argv[1:])
