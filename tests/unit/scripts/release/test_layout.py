"""The layout of an image: the same bytes for the same contents, and no time after the commit's."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from scripts.release.commands import ReleaseError
from scripts.release.layout import Layout, digest_of, write_layout
from tests.support.saved_images import layer, write_saved

EPOCH = 1_700_000_000
BASE = layer({"base": "b"}, mtime=1_900_000_000)


def make(folder: Path, name: str, *layers: bytes, compressed: bool = False, created: str = "") -> Layout:
    saved = folder / f"{name}.saved"
    digests = write_saved(saved, [BASE, *layers], compressed=compressed, created=created)
    return write_layout(saved, folder / f"{name}.tar", epoch=EPOCH, base_layers=digests[:1], name="octo/train:1.0.0")


def members(layout: Layout, number: int) -> list[tarfile.TarInfo]:
    content = layout.read(layout.blobs[number])
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        return archive.getmembers()


@pytest.mark.parametrize("compressed", [False, True])
def test_two_builds_at_other_times_are_the_same_bytes(tmp_path: Path, compressed: bool) -> None:
    one = make(tmp_path, "one", layer({"a": "x", "b": "y"}, mtime=1_800_000_000, folders=["etc"]))
    other = make(
        tmp_path,
        "other",
        layer({"a": "x", "b": "y"}, mtime=1_900_000_000.25, folders=["etc"]),
        compressed=compressed,
        created="2034-01-01T00:00:00Z",
    )
    assert one.file.read_bytes() == other.file.read_bytes()


def test_times_are_bounded_and_everything_else_is_kept(tmp_path: Path) -> None:
    layout = make(tmp_path, "one", layer({"old": "o"}, mtime=1_000_000_000), layer({"new": "n"}, folders=["etc"]))
    (old,) = members(layout, 2)
    folder, new = members(layout, 3)
    assert (old.mtime, folder.mtime, new.mtime) == (1_000_000_000, EPOCH, EPOCH)
    assert (folder.mode, new.mode) == (0o755, 0o644)
    assert new.pax_headers["SCHILY.xattr.user.note"] == "kept"


def test_the_bases_layers_stay_as_they_are(tmp_path: Path) -> None:
    layout = make(tmp_path, "one", layer({"a": "x"}))
    assert gzip.decompress(layout.read(layout.blobs[1])) == BASE


def test_the_configuration_has_neither_the_builders_names_nor_later_times(tmp_path: Path) -> None:
    layout = make(tmp_path, "one", layer({"a": "x"}))
    config = json.loads(layout.read(layout.blobs[0]))
    assert config["config"] == {"Env": ["A=b"], "Labels": {"org.opencontainers.image.title": "x"}}
    assert "container" not in config
    assert config["created"] == "2023-11-14T22:13:20Z"
    assert [one["created"] for one in config["history"]] == ["2001-01-01T00:00:00Z", "2023-11-14T22:13:20Z"]
    plain = [digest_of(gzip.decompress(layout.read(blob))) for blob in layout.blobs[1:]]
    assert config["rootfs"]["diff_ids"] == plain


def test_one_changed_byte_is_found(tmp_path: Path) -> None:
    layout = make(tmp_path, "one", layer({"a": "x"}))
    assert Layout.open(layout.file).digest == layout.digest
    blob = layout.blobs[2]
    content = layout.read(blob)
    raw = layout.file.read_bytes()
    assert raw.count(content) == 1
    layout.file.write_bytes(raw.replace(content, content[:-1] + bytes([content[-1] ^ 1])))
    with pytest.raises(ReleaseError, match=rf"one\.tar is damaged: {blob.digest} has another digest"):
        Layout.open(layout.file).read(blob)
