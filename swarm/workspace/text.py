"""Recognise text and its encoding, or binary data, from the first bytes."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

HEAD_BYTES = 65_536
"""Bytes of a file that `sniff_encoding` needs."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r\f\b\x1b") | frozenset(range(0x7F, 0xA0))
_CONTROLS_TOLERATED = 0.1


@dataclass(frozen=True)
class TextEncoding:
    """A file's encoding, so that an edit keeps it."""

    codec: str
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """Encode `text` as the file's bytes. Raises `UnicodeEncodeError` for a character that the encoding lacks."""
        return self.bom + text.encode(self.codec)


def sniff_encoding(head: bytes) -> TextEncoding | None:
    """The encoding of a file that begins with `head`, or None for binary data."""
    for bom, codec in _BOMS:
        if head.startswith(bom):
            return TextEncoding(codec, bom)
    if b"\0" in head:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=False)
    except UnicodeDecodeError:
        controls = sum(byte in _CONTROLS for byte in head[:8192])
        # Latin-1 maps every byte to a character and back: foreign 8-bit text survives an edit unharmed.
        return None if controls > _CONTROLS_TOLERATED * min(len(head), 8192) else TextEncoding("latin-1")
    return TextEncoding("utf-8")


def decode_text(content: bytes) -> tuple[str, TextEncoding] | None:
    """The whole text of a file and its encoding, without loss; None for binary data."""
    encoding = sniff_encoding(content)
    if encoding is None:
        return None
    try:
        return content[len(encoding.bom) :].decode(encoding.codec), encoding
    except UnicodeDecodeError:
        return (content.decode("latin-1"), TextEncoding("latin-1")) if not encoding.bom else None
