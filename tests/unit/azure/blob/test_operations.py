"""Transfers between folders and containers in memory: what moves, what does not, and what a break leaves behind."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from aml_train.azure.blob import transfer
from aml_train.azure.blob.local_files import PartFile, walk
from aml_train.azure.blob.operations import Place
from aml_train.azure.blob.transfer import Tally, block_id, block_size
from aml_train.core.errors import InvalidError, ServiceError
from tests.support.memory_storage import MemoryStorage, md5


def place(storage: MemoryStorage, path: str) -> Place:
    return Place(storage=storage, path=path, address=f"azureml://datastores/d/paths/{path}")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "BLOCK", 1000)
    monkeypatch.setattr(transfer, "MEBIBYTE", 100)
    monkeypatch.setattr(transfer, "SMALL", 1500)


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


def settle() -> None:
    """Wait for the blocks that were on their way when a transfer broke off; nobody else does."""
    for thread in threading.enumerate():
        if thread.name.startswith("blocks"):
            thread.join()


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


def test_an_upload_that_broke_off_sends_what_is_missing(project: Path) -> None:
    storage = MemoryStorage()
    large = project / "sub" / "deep" / "large.bin"

    def refuse(what: str, _name: str) -> None:
        if what == "stage" and storage.calls["stage"] > 2:
            raise ServiceError("the line is cut", transient=True)

    storage.fail = refuse
    with pytest.raises(ServiceError, match="the line is cut"):
        place(storage, "l").upload(str(large), Tally())
    settle()
    assert storage.contents() == {}
    arrived = sum(len(data) for data in storage.staged["l"].values())
    storage.fail = lambda _what, _name: None
    tally = Tally()
    place(storage, "l").upload(str(large), tally)
    assert storage.contents() == {"l": large.read_bytes()}
    assert arrived > 0
    assert (tally.kept_bytes, tally.sent_bytes) == (arrived, 4321 - arrived)


def test_blocks_that_the_storage_dropped_are_sent_again(project: Path) -> None:
    large = project / "sub" / "deep" / "large.bin"
    data = large.read_bytes()
    storage = MemoryStorage(dropped=frozenset({block_id(0, md5(data[:1000]))}))
    place(storage, "l").upload(str(large), Tally())
    assert storage.contents() == {"l": data}
    assert storage.calls["commit"] == 2


def test_a_file_that_changes_meanwhile_is_refused(project: Path) -> None:
    storage = MemoryStorage()
    large = project / "sub" / "deep" / "large.bin"

    def grow(what: str, _name: str) -> None:
        if what == "stage":
            with large.open("ab") as file:
                file.write(b"more")

    storage.fail = grow
    with pytest.raises(InvalidError, match=r"large\.bin was changed while it was sent"):
        place(storage, "l").upload(str(large), Tally())
    assert storage.contents() == {}


@pytest.mark.parametrize("keep_md5", [True, False])
def test_a_download_that_broke_off_goes_on(tmp_path: Path, keep_md5: bool) -> None:
    data = os.urandom(9500)
    storage = MemoryStorage(keep_md5=keep_md5).fill(["l"], data)

    def refuse(what: str, _name: str) -> None:
        if what == "read" and storage.calls["read"] > 6:
            raise ServiceError("the line is cut", transient=True)

    storage.fail = refuse
    with pytest.raises(ServiceError, match="the line is cut"):
        place(storage, "l").download(tmp_path / "l", Tally(), folder_wanted=False)
    (part,) = tmp_path.iterdir()
    assert part.name.startswith(".l.")
    assert data.startswith(part.read_bytes())
    kept = part.stat().st_size
    assert kept > 0
    storage.fail = lambda _what, _name: None
    tally, again = Tally(), Tally()
    place(storage, "l").download(tmp_path / "l", tally, folder_wanted=False)
    assert files(tmp_path) == {"l": data}
    assert (tally.kept_bytes, tally.sent_bytes, tally.unchecked) == (kept, 9500 - kept, 0 if keep_md5 else 1)
    place(storage, "l").download(tmp_path / "l", again, folder_wanted=False)
    assert again.same_files == 1


def test_two_downloads_of_one_file_do_not_mix(tmp_path: Path) -> None:
    storage = MemoryStorage().fill(["l"], b"good")
    with (
        PartFile(tmp_path / "l", storage.blobs["l"][0], storage.place),
        pytest.raises(InvalidError, match="is being downloaded by another process"),
    ):
        place(storage, "l").download(tmp_path / "l", Tally(), folder_wanted=False)


def test_what_an_earlier_state_left_is_cleared_away(tmp_path: Path) -> None:
    storage = MemoryStorage().fill(["l"], b"0" * 1_100_000)
    with PartFile(tmp_path / "l", storage.blobs["l"][0], storage.place) as part:
        part.write(iter([b"0" * 500]))
    (tmp_path / ".l.notes.part").write_bytes(b"mine")
    storage.fill(["l"], b"1" * 1_100_001)
    tally = Tally()
    place(storage, "l").download(tmp_path / "l", tally, folder_wanted=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".l.notes.part", "l"]
    assert tally.kept_bytes == 0


def test_damaged_bytes_never_get_the_name(tmp_path: Path) -> None:
    storage = MemoryStorage().fill(["l"], b"good")
    storage.blobs["l"] = (storage.blobs["l"][0], b"evil")
    with pytest.raises(ServiceError, match="memory/one/l: what arrived has not the checksum"):
        place(storage, "l").download(tmp_path / "l", Tally(), folder_wanted=False)
    assert list(tmp_path.iterdir()) == []
    other = MemoryStorage(place="memory/two")
    with pytest.raises(ServiceError, match="memory/one/l: what arrived has not the checksum"):
        place(storage, "l").copy_to(place(other, "l"), Tally())
    assert other.contents() == {}


@pytest.mark.parametrize("keep_md5", [True, False])
def test_copies_between_containers(keep_md5: bool) -> None:
    data = {"a/one": b"1", "a/two/three": os.urandom(5000), "a/empty": b"", "b": b"not meant"}
    source, target = MemoryStorage(keep_md5=keep_md5), MemoryStorage(place="memory/two")
    for name, content in data.items():
        source.fill([name], content)
    # The copy is younger than its source, as in the world.
    for _ in range(10):
        next(target._moment)
    first, again = Tally(), Tally()
    assert place(source, "a").copy_to(place(target, "x"), first) is False
    assert target.contents() == {f"x{name[1:]}": content for name, content in data.items() if name != "b"}
    assert all(entry.md5 == md5(content) for entry, content in target.blobs.values())
    place(source, "a/").copy_to(place(target, "x/"), again)
    assert (first.sent_files, again.sent_files, again.same_files) == (3, 0, 3)


def test_a_copy_that_broke_off_sends_what_is_missing() -> None:
    source = MemoryStorage().fill(["l"], os.urandom(9500))
    target = MemoryStorage(place="memory/two")

    def refuse(what: str, _name: str) -> None:
        if what == "stage" and target.calls["stage"] > 3:
            raise ServiceError("the line is cut", transient=True)

    target.fail = refuse
    with pytest.raises(ServiceError, match="the line is cut"):
        place(source, "l").copy_to(place(target, "l"), Tally())
    settle()
    assert target.contents() == {}
    target.fail = lambda _what, _name: None
    tally = Tally()
    place(source, "l").copy_to(place(target, "l"), tally)
    assert target.contents() == source.contents()
    assert tally.kept_bytes >= 1000


def test_nothing_is_copied_into_itself() -> None:
    storage = MemoryStorage().fill(["a/one"])
    for source, target in (("a", "a/b"), ("a", ""), ("a/one", "a/one"), ("a/one", "a/")):
        with pytest.raises(InvalidError, match="one is inside the other"):
            place(storage, source).copy_to(place(storage, target), Tally())
    place(storage, "a").copy_to(place(storage, "ab"), Tally())
    assert list(storage.contents()) == ["a/one", "ab/one"]


def test_removing() -> None:
    storage = MemoryStorage().fill(["a/one", "a/two", "a/deep/three", "b"])
    with pytest.raises(InvalidError, match="is a folder: nothing was removed"):
        place(storage, "a").check_removal(recursive=False)
    with pytest.raises(InvalidError, match="means everything in the container memory/one"):
        place(storage, "/").check_removal(recursive=False)
    place(storage, "a/*").check_removal(recursive=False)
    place(storage, "a/*").remove(Tally(), recursive=False)
    assert list(storage.contents()) == ["a/deep/three", "b"]
    place(storage, "b").check_removal(recursive=False)
    assert place(storage, "a").count(recursive=True) == (1, 1)
    place(storage, "a").remove(Tally(), recursive=True)
    assert list(storage.contents()) == ["b"]
    with pytest.raises(ServiceError, match="There is nothing at azureml://datastores/d/paths/a "):
        place(storage, "a").remove(Tally(), recursive=True)


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


@pytest.mark.parametrize("hierarchical", [False, True])
def test_many_files_are_looked_up_by_one_listing(tmp_path: Path, hierarchical: bool) -> None:
    for number in range(60):
        for folder in ("a", "a-b", "c"):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / f"f{number}").write_bytes(b"x")
    # Data Lake Gen2 lists folder by folder: a/… comes before a-b/….
    storage = MemoryStorage(hierarchical=hierarchical)
    place(storage, "x").upload(str(tmp_path), Tally())
    storage.calls.clear()
    tally = Tally()
    place(storage, "x").upload(str(tmp_path), tally)
    assert (tally.same_files, tally.sent_files) == (180, 0)
    assert (storage.calls["walk"], storage.calls["find"]) == ((0, 180) if hierarchical else (1, 8))


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


def test_blocks_grow_with_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert block_size(1) == 4 * 1024 * 1024
    huge = 150 * 1024**4 // 100
    assert -(-huge // block_size(huge)) <= transfer.MOST_BLOCKS
    assert block_size(huge) % transfer.MEBIBYTE == 0
    assert len({len(block_id(index, md5(bytes([index % 250])))) for index in (0, 9, 49_999)}) == 1


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
