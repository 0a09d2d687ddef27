"""The files in which two builds of one commit differ."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from scripts.release.layout import Layout
from scripts.release.record import Record


def compare_builds(one: Path, other: Path) -> list[str]:
    """Return a line for each difference of the builds in two folders.

    The lists of packages are left out: SPDX has the time of each.
    """
    records = Record.read(one), Record.read(other)
    lines = [
        f"{first.file}: {first.sha256} and {second.sha256}"
        for first, second in zip(records[0].distributions, records[1].distributions, strict=True)
        if first != second
    ]
    for image in records[0].images:
        layouts = [Layout.open(folder / image.archive) for folder in (one, other)]
        lines += [f"{image.name}: {line}" for line in compare_layouts(*layouts)]
    return lines


def compare_layouts(one: Layout, other: Layout) -> Iterator[str]:
    """Yield a line for each file that is not the same in both images."""
    if one.digest == other.digest:
        return
    if one.blobs[0] != other.blobs[0]:
        yield "the configuration differs"
    for number, (first, second) in enumerate(zip_longest(one.blobs[1:], other.blobs[1:]), 1):
        if first is None or second is None:
            yield f"layer {number} is in one of them only"
        elif first != second:
            files = _files(one.read(first)), _files(other.read(second))
            for path in sorted(files[0].keys() | files[1].keys()):
                if files[0].get(path) != files[1].get(path):
                    yield f"layer {number}: {path}"


def _files(layer: bytes) -> dict[str, tuple[object, ...]]:
    """Return path → everything that a layer says of it."""
    found: dict[str, tuple[object, ...]] = {}
    with tarfile.open(fileobj=io.BytesIO(layer), mode="r:gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isreg() else None
            content = hashlib.sha256(stream.read()).hexdigest() if stream else member.linkname
            found[member.name] = (member.type, member.mode, member.uid, member.gid, member.mtime, content)
    return found
