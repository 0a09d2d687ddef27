"""Temporary folders: full disks, and what killed runs leave."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from aml_train.core.docker import BuildCli
from aml_train.core.errors import DiskError
from aml_train.core.events import Event, Notice
from aml_train.core.references import ImageRef
from aml_train.core.temporary import LEASE, sweep_folders, temporary_folder, this_machine
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


def _sweep(place: Path) -> tuple[list[str], list[Event]]:
    told: list[Event] = []
    alive = {10: 7}
    removed = sweep_folders(told.append, place=place, machine=HERE, started=alive.get, now=NOW)
    return [path.name for path in removed], told


def test_a_folder_says_whose_it_is_and_is_gone_afterwards(place: Path) -> None:
    with temporary_folder("build") as folder:
        assert folder.parent == place
        assert folder.name.startswith(f"aml-train-build-{this_machine()}.{os.getpid()}.")
        (folder / "x").touch()
        assert sweep_folders(lambda _event: None, place=place) == []
    assert list(place.iterdir()) == []


def test_what_a_killed_run_left_is_removed(place: Path) -> None:
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
    removed, told = _sweep(place)
    assert removed == [path.name for path in dead]
    assert not any(path.exists() for path in dead)
    assert all((path / "docker" / "config.json").exists() for path in (*kept, link))
    texts = [event.text for event in told if isinstance(event, Notice)]
    assert texts == ["Removed what a killed run had left: 3 temporary folders (build context, copy of code)"]
    assert _sweep(place) == ([], [])


def test_a_folder_of_another_user_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = _left(place, f"aml-train-build-{HERE}.11.7.host-abc")
    monkeypatch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)
    assert _sweep(place) == ([], [])


def test_what_cannot_be_removed_is_reported(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _left(place, f"aml-train-build-{HERE}.11.7.host-abc")

    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("shutil.rmtree", refuse)
    removed, told = _sweep(place)
    assert removed == []
    assert [(event.level, "Permission denied" in event.text) for event in told if isinstance(event, Notice)] == [
        ("warning", True)
    ]


def test_a_place_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    assert _sweep(tmp_path / "absent") == ([], [])


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


def test_a_place_without_any_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_args: object) -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    with pytest.raises(DiskError, match="there is no room for temporary files"), temporary_folder("build"):
        pass
