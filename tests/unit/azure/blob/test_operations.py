"""Transfers between folders and containers in memory: what moves, what does not, and what a break leaves behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from aml_train.azure.blob.operations import Place
from aml_train.azure.blob.transfer import Tally, for_each, walk
from aml_train.core.errors import InvalidError, ServiceError
from tests.support.memory_storage import MemoryStorage


def place(storage: MemoryStorage, path: str) -> Place:
    return Place(storage=cast("Any", storage), path=path, address=f"azureml://datastores/d/paths/{path}")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"a")
    (folder / "empty").write_bytes(b"")
    (folder / "sub" / "b.txt").write_bytes(b"bb")
    (folder / "sub-c").write_bytes(b"ccc")
    (folder / "sub" / "deep" / "large.bin").write_bytes(os.urandom(4321))
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_up_and_down_and_nothing_twice(project: Path, tmp_path: Path) -> None:
    storage = MemoryStorage()
    first, again, changed = Tally(), Tally(), Tally()
    assert place(storage, "in/here").upload(str(project), first) is False
    assert storage.contents() == {f"in/here/{name}": data for name, data in files(project).items()}
    assert (first.sent_files, first.sent_bytes, first.same_files) == (5, 4327, 0)
    place(storage, "in/here/").upload(str(project), again)
    assert (again.sent_files, again.same_files, again.same_bytes) == (0, 5, 4327)
    (project / "a.txt").write_bytes(b"A")
    place(storage, "in/here").upload(str(project), changed)
    assert (changed.sent_files, changed.same_files) == (1, 4)

    down, down_again = Tally(), Tally()
    place(storage, "in/here").download(tmp_path / "out", down, folder_wanted=False)
    assert files(tmp_path / "out") == files(project)
    (tmp_path / "out" / "sub-c").write_bytes(b"xxx")
    place(storage, "in/here").download(tmp_path / "out", down_again, folder_wanted=False)
    assert (down.sent_files, down_again.sent_files, down_again.same_files) == (5, 1, 4)
    assert files(tmp_path / "out") == files(project)


@pytest.mark.parametrize(
    ("path", "name"), [("x/one.txt", "x/one.txt"), ("x/", "x/a.txt"), ("", "a.txt"), ("one", "one")]
)
def test_where_a_single_file_goes(project: Path, path: str, name: str) -> None:
    storage = MemoryStorage()
    assert place(storage, path).upload(str(project / "a.txt"), Tally()) is True
    assert list(storage.contents()) == [name]


def test_where_a_single_blob_goes(tmp_path: Path) -> None:
    storage = MemoryStorage().fill(["x/one.txt"])
    (tmp_path / "there").mkdir()
    for target, wanted in (("there", False), ("new", True), ("plain", False)):
        place(storage, "x/one.txt").download(tmp_path / target, Tally(), folder_wanted=wanted)
    assert files(tmp_path) == {"there/one.txt": b"x", "new/one.txt": b"x", "plain": b"x"}


def test_patterns_of_files_and_blobs(project: Path, tmp_path: Path) -> None:
    storage = MemoryStorage()
    place(storage, "x").upload(f"{project}/sub*", Tally())
    assert list(storage.contents()) == ["x/sub-c", "x/sub/b.txt", "x/sub/deep/large.bin"]
    place(storage, "x/**/*.txt").download(tmp_path / "out", Tally(), folder_wanted=False)
    assert list(files(tmp_path / "out")) == ["sub/b.txt"]


def test_files_that_were_sent_before_a_break_are_not_sent_again(project: Path) -> None:
    storage = MemoryStorage()

    def refuse(what: str, name: str) -> None:
        if what == "upload" and name.endswith("large.bin"):
            raise ServiceError("the line is cut", transient=True)

    storage.fail = refuse
    with pytest.raises(ServiceError, match="the line is cut"):
        place(storage, "in").upload(str(project), Tally())
    arrived = len(storage.blobs)
    storage.fail = lambda _what, _name: None
    tally = Tally()
    place(storage, "in").upload(str(project), tally)
    assert (tally.same_files, tally.sent_files) == (arrived, 5 - arrived)


def test_a_file_that_changes_meanwhile_is_refused(project: Path) -> None:
    storage = MemoryStorage()
    large = project / "sub" / "deep" / "large.bin"

    def grow(what: str, _name: str) -> None:
        if what == "find":
            with large.open("ab") as file:
                file.write(b"more")

    storage.fail = grow
    with pytest.raises(InvalidError, match=r"large\.bin was changed while it was sent"):
        place(storage, "l").upload(str(large), Tally())
    assert storage.contents() == {}


@pytest.mark.parametrize("keep_md5", [True, False])
def test_a_download_that_broke_off_leaves_nothing(tmp_path: Path, keep_md5: bool) -> None:
    storage = MemoryStorage(keep_md5=keep_md5).fill(["l"], b"data")

    def refuse(what: str, _name: str) -> None:
        if what == "read":
            raise ServiceError("the line is cut", transient=True)

    storage.fail = refuse
    with pytest.raises(ServiceError, match="the line is cut"):
        place(storage, "l").download(tmp_path / "l", Tally(), folder_wanted=False)
    assert list(tmp_path.iterdir()) == []
    storage.fail = lambda _what, _name: None
    tally, again = Tally(), Tally()
    place(storage, "l").download(tmp_path / "l", tally, folder_wanted=False)
    assert files(tmp_path) == {"l": b"data"}
    assert (tally.sent_bytes, tally.unchecked) == (4, 0 if keep_md5 else 1)
    place(storage, "l").download(tmp_path / "l", again, folder_wanted=False)
    assert again.same_files == 1


def test_the_first_failure_ends_all_work() -> None:
    def work(item: int) -> None:
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 0"):
        for_each(work, range(10_000))


def test_damaged_bytes_never_get_the_name(tmp_path: Path) -> None:
    storage = MemoryStorage().fill(["l"], b"good")
    storage.blobs["l"] = (storage.blobs["l"][0], b"evil")
    with pytest.raises(ServiceError, match="memory/one/l: what arrived has not the checksum"):
        place(storage, "l").download(tmp_path / "l", Tally(), folder_wanted=False)
    assert list(tmp_path.iterdir()) == []


def test_listing() -> None:
    storage = MemoryStorage().fill(["a/one", "a/deep/three", "b"])

    def names(path: str, *, recursive: bool = False) -> list[str]:
        return [name for name, _ in place(storage, path).listing(recursive=recursive)]

    assert names("") == ["a/", "b"]
    assert names("a") == ["deep/", "one"]
    assert names("a/one") == ["one"]
    assert names("", recursive=True) == ["a/deep/three", "a/one", "b"]
    assert names("a/*") == ["one"]
    assert names("a/*", recursive=True) == ["deep/three", "one"]
    assert list(place(MemoryStorage(), "").listing(recursive=True)) == []
    with pytest.raises(ServiceError, match="There is nothing at"):
        names("nowhere")


def test_links_are_followed_and_loops_are_not(tmp_path: Path, project: Path) -> None:
    (project / "loop").symlink_to(project)
    (project / "other.txt").symlink_to(project / "a.txt")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "z").write_bytes(b"z")
    (project / "linked").symlink_to(tmp_path / "elsewhere")
    storage = MemoryStorage()
    place(storage, "").upload(str(project), Tally())
    assert list(storage.contents()) == [
        "a.txt",
        "empty",
        "linked/z",
        "other.txt",
        "sub-c",
        "sub/b.txt",
        "sub/deep/large.bin",
    ]


def test_what_cannot_be_sent(tmp_path: Path) -> None:
    storage = MemoryStorage()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidError, match="There is no file or folder"):
        place(storage, "x").upload(str(tmp_path / "nowhere"), Tally())
    with pytest.raises(InvalidError, match="There is no file or folder"):
        place(storage, "x").upload("x" * 300, Tally())
    with pytest.raises(InvalidError, match="There are no files in"):
        place(storage, "x").upload(str(tmp_path / "empty"), Tally())
    with pytest.raises(InvalidError, match="what is written to has no wildcards"):
        place(storage, "x*").upload(str(tmp_path), Tally())


def test_a_blob_and_a_folder_of_one_name_are_told_apart_on_disk(tmp_path: Path) -> None:
    storage = MemoryStorage().fill(["x/a", "x/a/b"])
    with pytest.raises(InvalidError, match="cannot be written"):
        place(storage, "x/").download(tmp_path, Tally(), folder_wanted=True)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/etc/passwd", "leads by a link to /etc/passwd, out of the repository"),
        ("../outside", "leads by a link to .*/outside/secret, out of the repository"),
        (".git/config", "into git's own data"),
        ("/proc/self/environ", "a file of the kernel"),
    ],
)
def test_links_of_a_repository_stay_in_it(tmp_path: Path, target: str, why: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").touch()
    data = tmp_path / "repo"
    (data / ".git").mkdir(parents=True)
    (data / ".git" / "config").touch()
    (data / "a.csv").touch()
    (data / "b.csv").symlink_to("a.csv")
    (data / "linked").symlink_to(target)
    with pytest.raises(InvalidError, match=why) as caught:
        list(walk(data))
    assert "name what the link leads to" in str(caught.value.hint)
    # What a pattern does not name is not looked at.
    assert [file.relative for file in walk(data, lambda name: name.endswith(".csv"))] == ["a.csv", "b.csv"]


def test_links_outside_of_any_repository_lead_anywhere_but_to_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "x").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "linked").symlink_to(tmp_path / "far")
    assert [file.relative for file in walk(tmp_path / "data")] == ["linked/x"]
    (tmp_path / "data" / "env").symlink_to("/proc/self/environ")
    with pytest.raises(InvalidError, match="a file of the kernel"):
        list(walk(tmp_path / "data"))


def test_copies() -> None:
    storage = MemoryStorage().fill(["a/one", "a/two/three", "b"])
    first, again = Tally(), Tally()
    place(storage, "a").copy_to(place(storage, "x"), first)
    place(storage, "a/").copy_to(place(storage, "x/"), again)
    place(storage, "b").copy_to(place(storage, "y/"), Tally())
    assert list(storage.contents()) == ["a/one", "a/two/three", "b", "x/one", "x/two/three", "y/b"]
    assert (first.sent_files, again.sent_files, again.same_files) == (2, 0, 2)
    for source, target in (("a", "a/b"), ("a/one", "a/one"), ("a/one", "a/")):
        with pytest.raises(InvalidError, match="one is inside the other"):
            place(storage, source).copy_to(place(storage, target), Tally())


def test_removing() -> None:
    storage = MemoryStorage().fill(["a/one", "a/two", "a/deep/three", "b"])
    for folder in ("a", ""):
        with pytest.raises(InvalidError, match="is a folder: nothing was deleted"):
            place(storage, folder).to_remove(recursive=False)
    for path, recursive in (("a/*", False), ("a", True)):
        found = place(storage, path).to_remove(recursive=recursive)
        place(storage, path).remove(found, Tally())
    assert list(storage.contents()) == ["b"]
    with pytest.raises(ServiceError, match="There is nothing at azureml://datastores/d/paths/a "):
        place(storage, "a").to_remove(recursive=True)
