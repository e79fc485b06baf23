"""Images are looked at before they are sent.

Tests of swarm/tools/images.py.
"""

from __future__ import annotations

import struct
import zlib

import pytest

from swarm.tools.images import find_image_fault


def _png(width: int, height: int) -> bytes:
    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(b"\0\0")) + part(b"IEND", b"")


GIF = b"GIF89a" + struct.pack("<HH", 3, 2) + b"\0\0\0" + b";"
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08" + struct.pack(">HH", 2, 3) + b"\x01\x11\x00\xff\xd9"
WEBP = b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0\2\0\0\1\0\0"
WHOLE = {"image/png": _png(3, 2), "image/gif": GIF, "image/jpeg": JPEG, "image/webp": WEBP}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_image_is_shown_and_one_that_ends_too_early_is_not(kind: str) -> None:
    assert find_image_fault(kind, WHOLE[kind]) == ""
    for end in range(8, len(WHOLE[kind])):
        assert "no whole" in find_image_fault(kind, WHOLE[kind][:end]), end


def test_an_image_that_is_damaged_or_too_large_is_not_shown() -> None:
    damaged = bytearray(_png(3, 2))
    damaged[20] ^= 1
    assert "damaged" in find_image_fault("image/png", bytes(damaged))
    assert "no whole" in find_image_fault("image/png", b"\x89PNG\r\n\x1a\nthis is no image")
    assert "8,001" in find_image_fault("image/png", _png(8_001, 1))
    assert find_image_fault("image/png", _png(0, 1)) == "it has no pixels"
