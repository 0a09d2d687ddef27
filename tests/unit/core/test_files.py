from __future__ import annotations

import errno
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from aml_train.core.errors import InvalidError
from aml_train.core.files import FileSet


def _write(root: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def _tar(files: FileSet, *, prefix: str = "") -> bytes:
    buffer = io.BytesIO()
    files.tar(buffer, prefix=prefix)
    return buffer.getvalue()


def _paths(files: FileSet) -> list[str]:
    return [entry.path for entry in files.entries]


@pytest.mark.parametrize(
    ("files", "patterns", "expected"),
    [
        ({"tests/t.py": "", "src/m.py": "", "x.txt": ""}, ("tests", "/src/**"), ["src/m.py", "tests/t.py"]),
        ({"a.py": "", "d/b.py": "", "d/c.txt": ""}, ("*.py", "!b.py"), ["a.py"]),
        ({".git/config": "", "sub/.git/x": "", "sub/.gitkeep": ""}, (), ["sub/.gitkeep"]),
        (
            {".env": "", "k.pem": "", ".azure/t": "", "id_rsa": "", "id_rsa.pub": "", ".env.example": ""},
            (),
            [".env.example", "id_rsa.pub"],
        ),
        ({".env": ""}, (".env",), []),
        ({".gitignore": "*.log\n!keep.log\n", "a.log": "", "keep.log": ""}, (), [".gitignore", "keep.log"]),
        (
            {".gitignore": "*.log\n", ".amlignore": "*.txt\n", "a.log": "", "a.txt": ""},
            (),
            [".amlignore", ".gitignore", "a.log"],
        ),
        (
            {".gitignore": "*.log\n", "d/.gitignore": "!a.log\n/x\n", "d/a.log": "", "d/x": "", "x": "", "a.log": ""},
            (),
            [".gitignore", "d/.gitignore", "d/a.log", "x"],
        ),
        ({".gitignore": "d/\n", "d/.gitignore": "!a\n", "d/a": ""}, (), [".gitignore"]),
    ],
)
def test_what_is_collected(
    tmp_path: Path, files: dict[str, str], patterns: tuple[str, ...], expected: list[str]
) -> None:
    assert _paths(FileSet.collect(_write(tmp_path, files), patterns)) == expected


def test_ignore_files_of_the_repository_above(tmp_path: Path) -> None:
    above = {".gitignore": "*.out\n/projects/p/build/\n/b\n", "projects/.gitignore": "!keep.out\n"}
    below = {"a.out": "", "keep.out": "", "build/x": "", "b": "", "__pycache__/m.pyc": ""}
    _write(tmp_path, above | {f"projects/p/{name}": "" for name in below})
    assert _paths(FileSet.collect(tmp_path / "projects/p")) == ["a.out", "b", "build/x", "keep.out"]
    (tmp_path / ".git").mkdir()
    assert _paths(FileSet.collect(tmp_path / "projects/p")) == ["b", "keep.out"]
    assert len(FileSet.collect_upload(tmp_path / "projects/p").entries) == 5
    (tmp_path / ".gitignore").write_text("projects/\n")
    assert len(FileSet.collect(tmp_path / "projects/p").entries) == 4


def test_as_azure_ai_ml_uploads(tmp_path: Path) -> None:
    """Only the topmost ignore file counts, and it can take files of an ignored folder back."""
    _write(tmp_path, {".amlignore": "d/\n!d/keep\n", "d/keep": "", "d/x": "", "s/.gitignore": "*\n", "s/a.pem": ""})
    files = FileSet.collect_upload(tmp_path)
    assert _paths(files) == [".amlignore", "d/keep", "s/.gitignore", "s/a.pem"]


def test_a_code_snapshot_has_no_git_no_secrets_and_no_caches(tmp_path: Path) -> None:
    kept = {"train.py": "", "lib/m.py": "", ".amlignore": "*.log\n"}
    left = {
        ".git/config": "token",
        ".env": "SECRET=1",
        "lib/id_rsa": "",
        "__pycache__/m.pyc": "",
        "a.log": "",
        "aml-train-report/a/pr-report.json": "",
    }
    _write(tmp_path / "code", kept | left)
    files = FileSet.collect_code(tmp_path / "code")
    assert _paths(files) == sorted(kept)


def test_digest_covers_paths_contents_modes_and_links_only(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for root in (two, one):
        _write(root, {"a": "1", "d/b": "2"})
    os.utime(two / "a", (0, 0))
    (two / "a").chmod(0o600)
    assert FileSet.collect(one).digest() == FileSet.collect(two).digest()

    seen = {FileSet.collect(one).digest()}
    for change in (
        lambda: (one / "a").chmod(0o755),
        lambda: (one / "a").write_text("3"),
        lambda: (one / "a").rename(one / "c"),
        lambda: (one / "l").symlink_to("c"),
        lambda: (one / "l").replace(one / "m"),
        lambda: (one / "m").rename(one / "a"),
    ):
        change()
        digest = FileSet.collect(one).digest()
        assert digest not in seen
        seen.add(digest)


def test_tar_is_reproducible(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for root in (one, two):
        _write(root, {"d/e/f.sh": "x", "a": "ü"})
        (root / "d/e/f.sh").chmod(0o755)
        (root / "l").symlink_to("d/e/f.sh")
    os.utime(two / "a", (1, 1))
    content = _tar(FileSet.collect(one), prefix="w")
    assert content == _tar(FileSet.collect(two), prefix="w")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = {m.name: (m.isdir(), m.mode, m.mtime, m.uid, m.linkname) for m in archive}
    assert members == {
        "w": (True, 0o755, 0, 0, ""),
        "w/a": (False, 0o644, 0, 0, ""),
        "w/d": (True, 0o755, 0, 0, ""),
        "w/d/e": (True, 0o755, 0, 0, ""),
        "w/d/e/f.sh": (False, 0o755, 0, 0, ""),
        "w/l": (False, 0o777, 0, 0, "d/e/f.sh"),
    }


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("../outside", "it is a link to ../outside, outside of"),
        ("/etc/passwd", "it is a link to /etc/passwd, outside of"),
        ("absent", "it is a link to absent, which leads nowhere"),
        ("l", "it is a link to l, which leads nowhere"),
    ],
)
def test_links_that_lead_nowhere_good(tmp_path: Path, target: str, message: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").write_text("")
    (root / "l").symlink_to(target)
    with pytest.raises(InvalidError, match=message):
        FileSet.collect(root)


def test_links_to_folders(tmp_path: Path) -> None:
    _write(tmp_path, {"d/a": "1"})
    (tmp_path / "l").symlink_to("d")
    assert [(e.path, e.link) for e in FileSet.collect(tmp_path).entries] == [("d/a", None), ("l", "d")]
    assert _paths(FileSet.collect(tmp_path, links="follow")) == ["d/a", "l/a"]
    (tmp_path / "d" / "up").symlink_to("..")
    with pytest.raises(InvalidError, match="its link leads back to a folder above it"):
        FileSet.collect(tmp_path, links="follow")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidError, match="it is a device, a socket or a pipe"):
        FileSet.collect(tmp_path)
    with pytest.raises(InvalidError, match="absent is not a folder"):
        FileSet.collect(tmp_path / "absent")


def _linked(tmp_path: Path, links: Mapping[str, str], files: Mapping[str, str] | None = None) -> Path:
    """Make a repository with the folder ``src`` of code, and a folder next to the repository."""
    _write(
        tmp_path, {"outside/passwd": "root", "outside/d/x": "", "repo/common/util.py": "", "repo/src/train.py": ""}
    )
    _write(tmp_path / "repo", files or {})
    (tmp_path / "repo" / ".git").mkdir(exist_ok=True)
    (tmp_path / "repo" / ".git" / "config").write_text("token")
    for name, target in links.items():
        link = tmp_path / "repo" / "src" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target.replace("TMP", str(tmp_path)))
    return tmp_path / "repo" / "src"


@pytest.mark.parametrize(
    ("links", "fault"),
    [
        ({"passwd": "/etc/passwd"}, r"src/passwd: it is a link to /etc/passwd, outside of .*/repo: .*\.amlignore"),
        ({"d": "TMP/outside"}, r"src/d: it is a link to .*/outside, outside of"),
        ({"common": "../common", "common/up": "../../outside/passwd"}, r"src/common/up: it is a link to"),
        ({"key": "../.git/config"}, r"src/key: it is a link to \.\./\.git/config, into git's own data"),
        ({"env": "/proc/self/environ"}, r"src/env: it is a link to /proc/self/environ"),
    ],
)
def test_code_follows_no_link_out_of_the_repository(tmp_path: Path, links: dict[str, str], fault: str) -> None:
    with pytest.raises(InvalidError, match=fault):
        FileSet.collect_code(_linked(tmp_path, links))


@pytest.mark.parametrize(
    ("links", "ignored", "kept"),
    [
        ({"common": "../common", "again": "train.py"}, "", ["again", "common/util.py", "train.py"]),
        ({"whole": "TMP/repo/common/util.py"}, "", ["train.py", "whole"]),
        ({"passwd": "/etc/passwd", "d": "TMP/outside", "gone": "absent"}, "passwd\n/d/\ngone\n", ["train.py"]),
        ({".venv": "TMP/outside", "id_rsa": "TMP/outside/passwd"}, "", ["train.py"]),
        ({"settings": "../.env", "cloud": "../.aws"}, "", ["train.py"]),
    ],
)
def test_links_that_a_code_snapshot_follows(
    tmp_path: Path, links: dict[str, str], ignored: str, kept: list[str]
) -> None:
    code = _linked(
        tmp_path, links, {"src/.amlignore": f".amlignore\n{ignored}", ".env": "A=1", ".aws/credentials": ""}
    )
    assert _paths(FileSet.collect_code(code)) == kept


def test_code_of_a_project_without_git(tmp_path: Path) -> None:
    code = _linked(tmp_path, {"util.py": "../common/util.py"})
    (tmp_path / "repo" / ".git" / "config").unlink()
    (tmp_path / "repo" / ".git").rmdir()
    with pytest.raises(InvalidError, match=r"util\.py: it is a link to \.\./common/util\.py, outside of"):
        FileSet.collect_code(code)
    assert _paths(FileSet.collect_code(code, project=tmp_path / "repo")) == ["train.py", "util.py"]


def test_an_upload_from_the_repository_does_not_leave_it(tmp_path: Path) -> None:
    code = _linked(tmp_path, {"passwd": "/etc/passwd"})
    with pytest.raises(InvalidError, match=r"src/passwd: it is a link to /etc/passwd, outside of"):
        FileSet.collect_upload(code, project=tmp_path / "repo")
    # A folder of data that the repository does not hold: its links are its owner's.
    (tmp_path / "outside" / "far").symlink_to(tmp_path / "repo" / "common" / "util.py")
    assert _paths(FileSet.collect_upload(tmp_path / "outside", project=tmp_path / "repo")) == ["d/x", "far", "passwd"]
    (tmp_path / "outside" / "env").symlink_to("/proc/self/environ")
    with pytest.raises(InvalidError, match=r"outside/env: it is a link to /proc/self/environ, .* the kernel"):
        FileSet.collect_upload(tmp_path / "outside", project=tmp_path / "repo")


@pytest.mark.parametrize("content", ["21", "2", "", None])
@pytest.mark.parametrize("read", ["tar", "copy"])
def test_what_is_sent_is_what_was_hashed(tmp_path: Path, content: str | None, read: str) -> None:
    """A file of another content under the same name would be trained under a name that stands for the old one."""
    files = FileSet.collect(_write(tmp_path / "code", {"a": "12"}))
    files.digest()
    if content is None:
        (tmp_path / "code" / "a").unlink()
    else:
        (tmp_path / "code" / "a").write_text(content)
    with pytest.raises(InvalidError, match="a changed while it was read") as caught:
        _tar(files) if read == "tar" else files.copy_to(tmp_path / "copy")
    assert caught.value.hint is not None
    assert ".amlignore" in caught.value.hint


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FileSet.collect(_write(tmp_path, {"a": "1"}))

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InvalidError, match="a: it cannot be read: Permission denied"):
        files.digest()
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InvalidError, match="it cannot be read: Permission denied"):
        FileSet.collect(tmp_path)
