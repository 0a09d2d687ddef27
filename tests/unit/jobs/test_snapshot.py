"""The hash of a code snapshot; tests/integration compares it with azure-ai-ml's own."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from aml_train.core.errors import InvalidError
from aml_train.core.file_selection import FileEntry
from aml_train.core.files import FileSet
from aml_train.jobs.snapshot import read_snapshot


def test_the_hash_is_that_of_azure_ai_ml(tmp_path: Path) -> None:
    (tmp_path / "B").mkdir()
    for path, text in {"b.py": "one", "B/ü.py": "two", "a": ""}.items():
        (tmp_path / path).write_text(text)
    snapshot = read_snapshot(FileSet.collect_code(tmp_path))
    wanted = hashlib.sha256("3#a#0#b.py#3#B/ü.py#3onetwo".encode()).hexdigest()
    assert snapshot.content_hash == wanted
    assert snapshot.md5s["a"] == hashlib.md5(b"", usedforsecurity=False).digest()


def test_a_file_that_grew_is_read_as_far_as_it_was_selected(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("more than it was")
    files = FileSet(root=tmp_path, entries=(FileEntry(path="a", executable=False, size=3),))
    snapshot = read_snapshot(files)
    assert snapshot.md5s["a"] == hashlib.md5(b"mor", usedforsecurity=False).digest()
    assert snapshot.content_hash == hashlib.sha256(b"1#a#3mor").hexdigest()


@pytest.mark.parametrize("content", ["tw", "", "other"])
def test_what_is_uploaded_is_what_the_name_of_the_job_stands_for(tmp_path: Path, content: str) -> None:
    (tmp_path / "a").write_text("one")
    files = FileSet.collect_code(tmp_path)
    files.digest()
    (tmp_path / "a").write_text(content)
    with pytest.raises(InvalidError, match=r"a changed while it was read\nRun again"):
        read_snapshot(files)
