"""Small pictures of every kind that the page shows, made here."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 3, height: int = 2, *, trailer: bytes = b"") -> bytes:
    """Return a red PNG; *trailer* follows its end."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\x00" + b"\xd0\x20\x20" * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
        + trailer
    )


def gif(width: int = 1, height: int = 1) -> bytes:
    """Return a GIF of one colour."""
    return (
        b"GIF89a" + struct.pack("<HH", width, height) + b"\x80\x00\x00\xff\xff\xff\x00\x00\x00"
        b",\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
    )


def jpeg(width: int = 5, height: int = 4, *, before: int = 20) -> bytes:
    """Return the beginning of a JPEG, with so many bytes of metadata."""
    metadata = b"\xff\xe1" + struct.pack(">H", before + 2) + b"x" * before
    return b"\xff\xd8" + metadata + b"\xff\xff\xc2\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03"


def webp(kind: str, width: int = 7, height: int = 6) -> bytes:
    """Return the beginning of a WebP: ``VP8 ``, ``VP8L`` or ``VP8X``."""
    if kind == "VP8X":
        body = b"\x00" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif kind == "VP8L":
        body = b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little") + b"\x00" * 5
    else:
        body = b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return b"RIFF" + struct.pack("<I", len(body) + 12) + b"WEBP" + kind.encode() + struct.pack("<I", len(body)) + body
