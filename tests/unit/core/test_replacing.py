"""Files are replaced as a whole, or stay as they were."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from aml_train.core.errors import InvalidError
from aml_train.core.files import replace_file


def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    replace_file(file, b"one")
    file.chmod(0o640)
    replace_file(file, b"two")
    assert file.read_bytes() == b"two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["a.html"]


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.html").mkdir()
    with pytest.raises(InvalidError, match=r"a\.html cannot be written"):
        replace_file(tmp_path / "a.html", b"x")
    assert [one.name for one in tmp_path.iterdir()] == ["a.html"]


def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    file = tmp_path / "below" / "main.html"
    with pytest.raises(InvalidError, match=r"main\.html cannot be written: No such file or directory") as refused:
        replace_file(file, b"x")
    assert refused.value.hint == "Create its folder, or name another file with -o."
