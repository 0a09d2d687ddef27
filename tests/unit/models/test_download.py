"""A model's files are downloaded whole or not at all, and compared with its passport."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aml_train.core.errors import InvalidError, PassportError, ServiceError
from aml_train.jobs.workspace import ModelView
from aml_train.models.download import DownloadedModel, download_model
from aml_train.models.passport.issue import PASSPORT_FILE
from aml_train.models.passport.manifest import SIGNATURE_FILE
from tests.support.memory_passports import MemoryPassports
from tests.support.passport_world import PassportWorld

Fetch = Callable[[ModelView, Path], None]


def fetching(files: dict[str, bytes], *, fails: bool = False) -> Fetch:
    """Return a function that downloads *files*, and is interrupted after the first one where it *fails*."""

    def fetch(_model: ModelView, folder: Path) -> None:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            if fails:
                raise ServiceError("the storage does not answer", transient=True)

    return fetch


@pytest.fixture(scope="module")
def world() -> PassportWorld:
    return PassportWorld()


def signed(world: PassportWorld) -> dict[str, bytes]:
    return world.passports.models[world.current().path]


def download(
    world: PassportWorld, folder: Path, files: dict[str, bytes] | None = None, **more: bool
) -> DownloadedModel:
    fetch = fetching(signed(world) if files is None else files)
    return download_model(world.current(), folder, store=world.passports, fetch=fetch, **more)


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_files_are_those_that_were_signed(world: PassportWorld, tmp_path: Path) -> None:
    done = download(world, tmp_path / "model")
    assert done.checked
    assert content(tmp_path / "model") == signed(world)
    assert set(done.files.digests) == set(signed(world))
    assert done.size == sum(map(len, signed(world).values()))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def _changed(files: dict[str, bytes]) -> dict[str, bytes]:
    first = next(iter(files))
    return {**files, first: b"other"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_changed, "changed: "),
        (lambda files: {**files, "more": b"x"}, "not signed: more"),
        (lambda files: {"other": b"x"}, "missing: "),
    ],
)
def test_other_files_are_refused_and_nothing_is_left(
    change: Callable[[dict[str, bytes]], dict[str, bytes]], message: str, world: PassportWorld, tmp_path: Path
) -> None:
    with pytest.raises(PassportError, match=r"^The files of digits:7 are not those that were signed: ") as caught:
        download(world, tmp_path / "model", change(signed(world)))
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ([SIGNATURE_FILE], f"{SIGNATURE_FILE} is gone"),
        ([PASSPORT_FILE], f"{PASSPORT_FILE} is gone"),
        ([PASSPORT_FILE, SIGNATURE_FILE], f"{PASSPORT_FILE} is gone"),
    ],
)
def test_a_passport_that_is_gone_is_no_model_without_one(lost: list[str], message: str, tmp_path: Path) -> None:
    world = PassportWorld()
    for name in lost:
        del world.passports.kept["digits", "7", name]
    with pytest.raises(PassportError, match=message):
        download(world, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [PASSPORT_FILE, SIGNATURE_FILE])
def test_a_damaged_passport_is_refused(name: str, tmp_path: Path) -> None:
    world = PassportWorld()
    world.passports.kept["digits", "7", name] = b"{"
    with pytest.raises(PassportError, match="The passport of digits:7 cannot be used"):
        download(world, tmp_path / "model")


MODEL = ModelView(name="digits", version="1", path="azureml://jobs/j/outputs/artifacts/paths/m")


def plain(folder: Path, files: dict[str, bytes], *, fails: bool = False, force: bool = False) -> DownloadedModel:
    return download_model(MODEL, folder, store=MemoryPassports(), fetch=fetching(files, fails=fails), force=force)


def test_without_a_passport_nothing_is_checked_and_that_is_said(tmp_path: Path) -> None:
    assert not plain(tmp_path / "new" / "model", {"a/b": b"1"}).checked
    assert content(tmp_path / "new" / "model") == {"a/b": b"1"}


def test_a_folder_that_is_not_empty_is_replaced_only_with_force(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/mine").write_text("kept")
    with pytest.raises(InvalidError, match=r"model is there, and is not empty") as caught:
        plain(tmp_path / "model", {"a": b"1"})
    assert "--force" in str(caught.value)
    assert content(tmp_path / "model") == {"mine": b"kept"}
    plain(tmp_path / "model", {"a": b"1"}, force=True)
    assert content(tmp_path / "model") == {"a": b"1"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_interrupted_download_leaves_the_folder_as_it_was_and_is_continued(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/mine").write_text("kept")
    with pytest.raises(ServiceError, match="does not answer"):
        plain(tmp_path / "model", {"a": b"1", "b": b"2"}, fails=True, force=True)
    assert content(tmp_path / "model") == {"mine": b"kept"}
    (part,) = [path for path in tmp_path.iterdir() if path.name.endswith(".part")]
    assert content(part) == {"a": b"1"}, "what has arrived is continued"
    plain(tmp_path / "model", {"a": b"1", "b": b"2"}, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert content(tmp_path / "model") == {"a": b"1", "b": b"2"}
