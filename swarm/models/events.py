"""Server-sent events of a reply, read from its bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def read_events(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and the data of each event that has data. Lines end with LF or CRLF; an unfinished event is dropped."""
    rest = b""
    for chunk in chunks:
        *events, rest = (rest + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        for event in events:
            name, data = b"", []
            for line in event.split(b"\n"):
                field, _, value = line.partition(b":")
                if field == b"data":
                    data.append(value)
                elif field == b"event":
                    name = value.strip()
            if data:
                yield name, b"\n".join(data)
