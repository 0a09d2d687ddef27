"""Builds by the engine's BuildKit, over the engine's own interface.

Without a client's session, which only the docker command has, the context is the request's body, as for the classic builder
(moby, ``builder/builder-next/builder.go``: ``reqBodyHandler``). Its messages are BuildKit's ``StatusResponse`` (moby/buildkit,
``api/services/control/control.proto``), which become the lines of ``--progress=plain`` here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

TRACE: Final = "moby.buildkit.trace"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class TraceError(ValueError):
    """A message that is not BuildKit's."""


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protobuf message: number and value.

    Source: https://protobuf.dev/programming-guides/encoding/.

    Raises:
        TraceError: it is not one.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        length = 8 if kind == _FIXED64 else 4 if kind == _FIXED32 else -1
        if kind == _BYTES:
            length, at = _varint(data, at)
        if length < 0 or at + length > len(data):
            raise TraceError(f"a field of the kind {kind} at {at} of {len(data)} bytes")
        yield number, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise TraceError("a number without an end")


@dataclass
class _Vertex:
    """A step as it was last shown."""

    number: int
    name: str = ""
    named: bool = False
    ended: bool = False
    began: float | None = None


class PlainTrace:
    """Turns the messages of one build into lines of text."""

    def __init__(self) -> None:
        self._vertices: dict[bytes, _Vertex] = {}

    def read(self, message: Mapping[str, Any]) -> Iterator[str]:
        """Yield the lines of a message; none for one that is no trace.

        Raises:
            TraceError: a trace that cannot be read.
        """
        if message.get("id") != TRACE:
            return
        try:
            data = base64.b64decode(str(message.get("aux")), validate=True)
        except binascii.Error as error:
            raise TraceError(str(error)) from error
        for number, value in fields(data):
            if isinstance(value, int):
                continue
            if number == 1:
                yield from self._vertex(dict(fields(value)))
            elif number == 3:
                yield from self._log(dict(fields(value)))

    def _of(self, digest: object) -> _Vertex:
        key = digest if isinstance(digest, bytes) else b""
        return self._vertices.setdefault(key, _Vertex(number=len(self._vertices) + 1))

    def _vertex(self, given: Mapping[int, int | bytes]) -> Iterator[str]:
        vertex = self._of(given.get(1))
        vertex.name = _text(given.get(3)) or vertex.name
        started, completed, error = _seconds(given.get(5)), _seconds(given.get(6)), _text(given.get(7))
        if started is not None and not vertex.named:
            vertex.named, vertex.began = True, started
            yield f"#{vertex.number} {vertex.name}\n"
        if vertex.ended or not vertex.named:
            return
        if error:
            vertex.ended = True
            yield f"#{vertex.number} ERROR: {error}\n"
        elif given.get(4):
            vertex.ended = True
            yield f"#{vertex.number} CACHED\n"
        elif completed is not None:
            vertex.ended = True
            yield f"#{vertex.number} DONE {completed - (vertex.began or completed):.1f}s\n"

    def _log(self, given: Mapping[int, int | bytes]) -> Iterator[str]:
        vertex, written = self._of(given.get(1)), _seconds(given.get(2))
        after = 0.0 if written is None or vertex.began is None else max(written - vertex.began, 0.0)
        for line in _text(given.get(4)).splitlines():
            yield f"#{vertex.number} {after:.3f} {line}\n"


def _text(value: int | bytes | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _seconds(value: int | bytes | None) -> float | None:
    """Return a ``Timestamp`` as seconds since the epoch."""
    if not isinstance(value, bytes):
        return None
    parts = dict(fields(value))
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    return seconds + nanos / 1e9 if isinstance(seconds, int) and isinstance(nanos, int) else None
