"""What is too much code, and what is named then."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.config.sections.code import CodeConfig
from aml_train.core.errors import InvalidError
from aml_train.core.file_selection import FileEntry
from aml_train.core.files import FileSet
from aml_train.jobs.code import check_code, unfetched


def files(*items: tuple[str, int]) -> FileSet:
    entries = tuple(FileEntry(path=path, executable=False, size=size) for path, size in items)
    return FileSet(root=Path("/project"), entries=entries)


def refusal(snapshot: FileSet, limits: CodeConfig, ignore_file: str | None = None) -> tuple[str, str]:
    with pytest.raises(InvalidError) as caught:
        check_code(snapshot, limits, ignore_file)
    return caught.value.message, str(caught.value.hint)


def test_what_is_within_the_limits_passes() -> None:
    check_code(files(("a", 10), ("b", 10)), CodeConfig(max_size=20, max_files=2), None)


def test_the_largest_folder_and_file_are_named_by_their_own_paths() -> None:
    many = [(f"data/images/train/{number}.png", 1_000_000) for number in range(300)]
    message, hint = refusal(files(*many, ("model.bin", 60_000_000), ("train.py", 100)), CodeConfig())
    assert message.split("\n") == [
        "The code in /project has 360.0 MB, more than 300.0 MB (code.max-size). The most is in:",
        "  data/images/train/  300.0 MB in 300 files",
        "  model.bin  60.0 MB",
    ]
    assert "write into .amlignore such lines as:\n  /data/images/train/\n  /model.bin\n" in hint
    assert hint.endswith("raise the limit in aml-train.yml, under `code`.")


def test_odd_names_become_patterns_that_mean_them_alone(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    for name in ("a*[1]?", "ab1x", "ends with "):
        (code / name).write_bytes(b"x" * 100)
    limits = CodeConfig(max_size=10)
    _, hint = refusal(FileSet.collect_code(code), limits)
    patterns = [line[2:] for line in hint.split("\n") if line.startswith("  /")]
    (code / ".amlignore").write_text("\n".join(pattern for pattern in patterns if "b1x" not in pattern) + "\n")
    assert [entry.path for entry in FileSet.collect_code(code).entries] == [".amlignore", "ab1x"]


def test_pointers_of_git_lfs_and_empty_submodules_are_remarked_on(tmp_path: Path) -> None:
    code = tmp_path / "src"
    (code / "vendor" / "empty").mkdir(parents=True)
    (code / "vendor" / "full").mkdir()
    (code / "vendor" / "full" / "a.py").write_text("")
    (tmp_path / ".git").mkdir()
    modules = "".join(
        f'[submodule "{one}"]\n\tpath = {one}\n\turl = u\n' for one in ("src/vendor/empty", "src/vendor/full", "docs")
    )
    (tmp_path / ".gitmodules").write_text(modules)
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 104857600\n"
    (code / "weights.bin").write_text(pointer)
    (code / "train.py").write_text(f"# {pointer}")
    assert unfetched(FileSet.collect_code(code)) == [
        f"weights.bin in {code} is a pointer of Git LFS, not the file: `git lfs pull`, or `lfs: true` of actions/checkout.",
        (
            "The submodule src/vendor/empty is empty: `git submodule update --init src/vendor/empty`, or `submodules: true` of"
            " actions/checkout."
        ),
    ]
