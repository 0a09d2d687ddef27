"""How the page says times, sizes and addresses, and how it makes foreign text fit to be shown. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def link(*segments: str, **query: object) -> str:
    """Return the address of a part of the page: ``link("runs", "a b", page=2)`` is ``/ui/runs/a%20b?page=2``."""
    path = "/".join(quote(segment, safe="") for segment in segments)
    asked = {name: value for name, value in query.items() if value not in ("", None)}
    return f"/ui/{path}" + (f"?{urlencode(asked)}" if asked else "")


def moment(seconds: float | None) -> str:
    """Return a time, in seconds since the epoch, as people read it, in UTC; ``—`` for None."""
    return "—" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(seconds: float | None) -> str:
    """Return a length of time in at most two units; ``—`` for None."""
    if seconds is None:
        return "—"
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    for name, length, small, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            return f"{whole // length} {name} {whole % length // part} {small}"
    return f"{whole} s"


def size(count: int | None) -> str:
    """Return a number of bytes in its largest fitting unit of 1024; ``—`` for None."""
    if count is None:
        return "—"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{int(value)} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def plain(text: str) -> str:
    """Return what a job wrote as plain lines: without escape sequences, and a carriage return begins a line."""
    return _CONTROLS.sub("�", _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))
