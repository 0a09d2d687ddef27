"""Temporary folders: full disks, and what killed runs leave."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from aml_train.core import temporary
from aml_train.core.docker import BuildCli
from aml_train.core.errors import DiskError
from aml_train.core.events import Event, Notice
from aml_train.core.references import ImageRef
from aml_train.core.sweep import sweep_folders
from aml_train.core.temporary import LEASE, temporary_folder, this_machine
from aml_train.image.build import build as building
from aml_train.image.inputs import BaseImage
from aml_train.image.spec import ImageSpec

HERE, ELSEWHERE = "0123456789ab", "ba9876543210"
NOW = 1_000_000_000.0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def _left(place: Path, name: str, *, age: float = 0.0) -> Path:
    folder = place / name
    (folder / "docker").mkdir(parents=True)
    (folder / "docker" / "config.json").write_text("credentials")
    os.utime(folder, (NOW - age, NOW - age))
    return folder


def _sweep(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[Event]]:
    told: list[Event] = []
    alive = {10: 7}
    monkeypatch.setattr(temporary, "this_machine", lambda: HERE)
    monkeypatch.setattr(temporary, "process_start", alive.get)
    monkeypatch.setattr("time.time", lambda: NOW)
    removed = sweep_folders(told.append)
    return [path.name for path in removed], told


def test_a_folder_says_whose_it_is_and_is_gone_afterwards(place: Path) -> None:
    with temporary_folder("build") as folder:
        assert folder.parent == place
        assert folder.name.startswith(f"aml-train-build-{this_machine()}.{os.getpid()}.")
        (folder / "x").touch()
        assert sweep_folders(lambda _event: None) == []
    assert list(place.iterdir()) == []


def test_what_a_killed_run_left_is_removed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = [
        _left(place, f"aml-train-build-{HERE}.10.6.host-abc"),  # the pid was given to another process
        _left(place, f"aml-train-check-{HERE}.11.7.host-abc"),
        _left(place, f"aml-train-code-{ELSEWHERE}.10.7.host-abc", age=LEASE + 1),
    ]
    kept = [
        _left(place, f"aml-train-build-{HERE}.10.7.host-abc"),
        _left(place, f"aml-train-build-{ELSEWHERE}.10.7.host-abc", age=LEASE - 1),
        _left(place, "aml-train-build-abcdef", age=LEASE * 9),
        _left(place, "something-else", age=LEASE * 9),
    ]
    link = place / f"aml-train-build-{HERE}.12.7.host-link"
    link.symlink_to(kept[0])
    removed, told = _sweep(monkeypatch)
    assert removed == [path.name for path in dead]
    assert not any(path.exists() for path in dead)
    assert all((path / "docker" / "config.json").exists() for path in (*kept, link))
    texts = [event.text for event in told if isinstance(event, Notice)]
    assert texts == ["Removed what a killed run had left: 3 temporary folders"]
    assert _sweep(monkeypatch) == ([], [])


def _full(*_args: object, **_kwargs: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("where", ["context", "dockerfile"])
def test_a_full_disk_ends_a_build_as_an_image_error(place: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    if where == "context":
        monkeypatch.setattr(building, "write_context", _full)
    else:
        monkeypatch.setattr(building, "write_context", lambda *_: None)
        monkeypatch.setattr(Path, "write_text", _full)
    spec = ImageSpec(
        base=BaseImage(reference=ImageRef.parse("python:3.11"), digest="sha256:" + "d" * 64),
        platform="linux/amd64",
        repository="digits",
        dockerfile="FROM x",
        address="a" * 64,
    )
    engine: Any = None  # it is not reached
    cli = BuildCli(path="docker", buildx=True, environ={})
    with pytest.raises(DiskError, match=f"{place} cannot be written: No space left on device") as caught:
        building.build_image(spec, cli=cli, engine=engine, tag="x", listener=lambda _event: None)
    assert (caught.value.exit_code, "TMPDIR" in str(caught.value.hint)) == (3, True)
    assert list(place.iterdir()) == []
