"""A TCP proxy whose connections can be made to end in silence: nobody is told, and nothing passes any more."""

from __future__ import annotations

import contextlib
import socket
import threading


class SilentProxy:
    """Passes on what comes to `port`, to a server on another port of this host."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._passing = threading.Event()
        self._passing.set()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def silence(self) -> None:
        """From now on nothing passes on the connections that there are; new ones work."""
        self._passing.clear()
        self._passing = threading.Event()
        self._passing.set()

    def close(self) -> None:
        """Break all connections."""
        self._listener.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._open += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, sink, self._passing), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket, passing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if passing.is_set():
                    sink.sendall(data)
            if passing.is_set():
                sink.shutdown(socket.SHUT_WR)
