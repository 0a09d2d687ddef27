"""Kind and size of pictures, from their content. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEAD_BYTES: Final = 256 * 1024
"""The beginning of a file, in which a picture says its size; JPEG's comes after its metadata."""

MOST_PIXELS: Final = 50_000_000
"""A picture of more would take 200 MB of a browser's memory, however small its file is."""

_SOF: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG's markers of a frame: https://www.w3.org/Graphics/JPEG/itu-t81.pdf, table B.1."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture: its media type, and its size in pixels."""

    type: str
    width: int
    height: int


def picture_of(head: bytes) -> Picture | None:
    """Return what the beginning of a file says, None if it is no picture for browsers.

    Only PNG, JPEG, GIF and WebP are pictures here: they have no scripts and no links. The name of a file says nothing.
    """
    found: Picture | None = None
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        found = _sized("image/png", head[16:20], head[20:24], order="big")
    elif head[:6] in (b"GIF87a", b"GIF89a"):
        found = _sized("image/gif", head[6:8], head[8:10], order="little")
    elif head.startswith(b"\xff\xd8\xff"):
        found = _jpeg(head)
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        found = _webp(head)
    if found is None or not 0 < found.width * found.height <= MOST_PIXELS:
        return None
    return found


def is_text(head: bytes) -> bool:
    """Return whether a file may be text: it has no NUL byte, and is no picture."""
    return b"\x00" not in head and picture_of(head) is None


def _sized(type_: str, width: bytes, height: bytes, *, order: str) -> Picture | None:
    if not width or len(width) != len(height):
        return None
    little = order == "little"
    return Picture(
        type=type_,
        width=int.from_bytes(width, "little" if little else "big"),
        height=int.from_bytes(height, "little" if little else "big"),
    )


def _jpeg(head: bytes) -> Picture | None:
    """Return the size in the first frame's header, behind any other segments."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _SOF:
            return _sized("image/jpeg", head[at + 7 : at + 9], head[at + 5 : at + 7], order="big")
        else:
            length = int.from_bytes(head[at + 2 : at + 4], "big")
            at += 2 + max(2, length)
    return None


def _webp(head: bytes) -> Picture | None:
    """Return the size in the first chunk.

    The format: https://developers.google.com/speed/webp/docs/riff_container.
    """
    kind = head[12:16]
    if kind == b"VP8X" and len(head) >= 30:
        width, height = (1 + int.from_bytes(head[at : at + 3], "little") for at in (24, 27))
    elif kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a" and len(head) >= 30:
        width, height = (int.from_bytes(head[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    elif kind == b"VP8L" and head[20:21] == b"\x2f" and len(head) >= 25:
        bits = int.from_bytes(head[21:25], "little")
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    else:
        return None
    return Picture(type="image/webp", width=width, height=height)
