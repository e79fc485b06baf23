"""Recordings of real servers (`SWARM_RECORD`), played byte for byte to today's adapters.

`python -m tests.recorded FOLDER NAME` keeps a recording as `tests/recorded/NAME`, with how its replies are read now;
`python -m tests.recorded --accept NAME` accepts another reading. Read a recording before you keep it: only apparent secrets are removed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from swarm.core.errors import ModelError
from swarm.core.settings import Settings
from swarm.models import ModelRequest
from swarm.models.codecs import codec, codec_at
from swarm.models.router import AnyModel
from swarm.models.vendors import WIRES
from swarm.rehearsal.recorded import RecordedExchange, read_recording

HERE = Path(__file__).parent
READ = "read.json"


def read_now(folder: Path) -> list[dict[str, Any]]:
    """Return what the adapters make of each reply and each refusal of a recording, in order."""
    exchanges = [one for one in read_recording(folder) if one.converses and one.body is not None and one.status]
    with _playing(exchanges) as url:
        vendors = {f"recorded-{wire}": f"{url}{codec(wire).root} {wire}" for wire in WIRES}
        settings = Settings(base_url=url, vendors=vendors, request_timeout_seconds=10)
        with closing(AnyModel(settings)) as model:
            return [_ask(model, one) for one in exchanges]


def _ask(model: AnyModel, one: RecordedExchange) -> dict[str, Any]:
    wire = next((wire for wire in WIRES if codec(wire) is codec_at(one.path)), None)
    name = one.request["model"] if wire is None else f"recorded-{wire}:{one.request['model']}"
    said: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "as recorded"}]}]
    try:
        reply = model.complete(ModelRequest(model=name, system="", messages=said, tools=[]))
    except ModelError as error:
        return {"error": error.kind, "message": str(error)}
    return {"content": reply.content, "stop_reason": reply.stop_reason, "usage": reply.usage.model_dump()}


@contextmanager
def _playing(exchanges: list[RecordedExchange]) -> Iterator[str]:
    """A server that answers with the recorded bytes, in order."""
    coming = iter(exchanges)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            one = next(coming)
            self.send_response(one.status)
            for name, value in one.headers.items():
                self.send_header(name, value)
            # Without a length: the reply ends where the recorded one did.
            self.end_headers()
            self.wfile.write((one.body or "").encode())

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def accept(folder: Path) -> None:
    """Write how the recording is read now."""
    (folder / READ).write_text(json.dumps(read_now(folder), indent=1, ensure_ascii=False) + "\n")
