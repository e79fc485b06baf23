"""Check that an image can be shown to a model: whole, and no larger than the API takes. Pure.

The server refuses a request with a broken image, and every later request of that conversation, so images are checked first.
"""

from __future__ import annotations

import struct
import zlib

MAX_SIDE_PIXELS = 8_000
SHOWN_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""The segments that state the size."""
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD8)})
"""Markers without a length."""


class _Broken(Exception):
    pass


def find_image_fault(kind: str, data: bytes) -> str:
    """Say why an image of this media type cannot be shown; empty if it can."""
    try:
        width, height = _SIZES[kind](data)
    except (_Broken, struct.error, IndexError) as error:
        return f"it is no whole {kind.removeprefix('image/').upper()} file ({error or 'it ends too early'})"
    if not width or not height:
        return "it has no pixels"
    if max(width, height) > MAX_SIDE_PIXELS:
        return f"it has {width:,} × {height:,} pixels, and no side may have more than {MAX_SIDE_PIXELS:,}"
    return ""


def _png(data: bytes) -> tuple[int, int]:
    at, size, ended = len(_PNG), None, False
    while at < len(data) and not ended:
        length, name = struct.unpack_from(">I4s", data, at)
        body = data[at + 4 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(body) != checksum:
            raise _Broken(f"its part {name.decode('latin-1')!r} is damaged")
        if name == b"IHDR":
            size = struct.unpack_from(">II", data, at + 8)
        ended = name == b"IEND"
        at += 12 + length
    if size is None or not ended:
        raise _Broken("its end is missing")
    return size[0], size[1]


def _gif(data: bytes) -> tuple[int, int]:
    if not data.rstrip(b"\0").endswith(b";"):
        raise _Broken("its end is missing")
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        if data[at] != 0xFF:
            raise _Broken("its parts do not follow each other")
        marker = data[at + 1]
        if marker == 0xFF:  # filling
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        elif marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            if b"\xff\xd9" not in data[at:]:
                raise _Broken("its end is missing")
            return width, height
        else:
            at += 2 + int(struct.unpack_from(">H", data, at + 2)[0])


def _webp(data: bytes) -> tuple[int, int]:
    (length,) = struct.unpack_from("<I", data, 4)
    if len(data) < length + 8:
        raise _Broken("its end is missing")
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8L":
            bits = struct.unpack_from("<I", data, 21)[0]
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
    raise _Broken("it holds no picture")


_SIZES = {"image/png": _png, "image/gif": _gif, "image/jpeg": _jpeg, "image/webp": _webp}
