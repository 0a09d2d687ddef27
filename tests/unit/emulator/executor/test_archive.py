"""Tar streams to and from a container."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

import pytest

from aml_emulator.executor import archive
from aml_emulator.executor.layout import UnsafePathError
from aml_emulator.executor.spec import Folder
from tests.support.fake_executor import MemoryBlobs

TARGET = Folder(container="out", prefix="runs/1")


def member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> Iterator[bytes]:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        for info, data in members:
            made.addfile(info, io.BytesIO(data))
    content = file.getvalue()
    # Chunks that fit nothing, as a socket gives them.
    return (content[at : at + 777] for at in range(0, len(content), 777))


def captured(
    *members: tuple[tarfile.TarInfo, bytes], base: str = ""
) -> tuple[MemoryBlobs, dict[str, int], list[str]]:
    blobs, files = MemoryBlobs(), {}
    made = archive.Capture(
        blobs=blobs, target=TARGET, base=base, on_file=lambda path, size: files.update({path: size})
    )
    return blobs, files, list(made.run(tar(*members)))


def test_content_that_is_not_there_or_not_as_announced_is_told() -> None:
    blobs = MemoryBlobs()
    with pytest.raises(archive.ContentError, match="nothing stored at c/none"):
        list(archive.blob_entries(blobs, Folder(container="c", prefix="none"), "/wd"))
    wrong = archive.Entry(path="/x", mode=0o644, size=5, read=lambda: [b"abc"])
    with pytest.raises(archive.ContentError, match="/x has 3 bytes where 5 were announced"):
        list(archive.tar_stream([wrong]))


def test_files_and_links_are_stored_and_the_rest_is_noted() -> None:
    big = b"b" * (archive.SMALL_BYTES + 1)
    blobs, files, notes = captured(
        member("outputs", type=tarfile.DIRTYPE),
        member("outputs/early", type=tarfile.SYMTYPE, linkname="sub/a"),
        member("outputs/sub/a", b"A"),
        member("outputs/big", big),
        member("outputs/hard", type=tarfile.LNKTYPE, linkname="outputs/sub/a"),
        member("outputs/sub/again", type=tarfile.SYMTYPE, linkname="../early"),
        member("outputs/up", type=tarfile.SYMTYPE, linkname="../../secret"),
        member("outputs/abs", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("outputs/circle", type=tarfile.SYMTYPE, linkname="circle"),
        member("outputs/pipe", type=tarfile.FIFOTYPE),
        base="outputs",
    )
    assert files == {
        "outputs/sub/a": 1,
        "outputs/big": len(big),
        "outputs/early": 1,
        "outputs/hard": 1,
        "outputs/sub/again": 1,
    }
    assert blobs.content["out", "runs/1/outputs/sub/again"] == b"A"
    assert blobs.content["out", "runs/1/outputs/big"] == big
    assert len(blobs.content) == 5
    assert [note.split(" ", 1)[0] for note in notes] == [
        "outputs/pipe",
        "outputs/up",
        "outputs/abs",
        "outputs/circle",
    ]


@pytest.mark.parametrize("name", ["outputs/../../x", "/outputs/x", "../x"])
def test_names_that_climb_are_refused(name: str) -> None:
    with pytest.raises(UnsafePathError, match="not a path inside its folder"):
        captured(member(name, b"x"))
