"""Ignore files: the dialects of git, azure-ai-ml and Docker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from aml_train.core.errors import InvalidError
from aml_train.core.file_selection import SECRETS
from aml_train.core.files import FileSet
from aml_train.image.requirements_file import ignore_patterns, normalised_ignore_file
from fuzz.limits import unwatched
from fuzz.seeds import files
from fuzz.storage import scratch
from fuzz.target import Target, as_bytes, require

_FILES = (
    "a.py",
    "data/big.csv",
    "data/keep/x.csv",
    "src/train.py",
    "tests/test_a.py",
    ".env",
    "id_rsa",
    "logs/a.log",
    "b c.txt",
)


def seeds() -> Sequence[Any]:
    """Return ignore files: of a folder, and of a folder in it."""
    own = files("examples/**/.gitignore", "tests/projects/**/.*ignore", ".gitignore")
    return [
        *({"top": text, "inner": ""} for text in own),
        {"top": "data/\n!data/keep/\n*.log\n# comment\n\\#x\n", "inner": "*.csv\n!x.csv\n"},
        {"top": "/src/**/*.py\n**/tests\nb\\ c.txt\n!.env\n[ab].py\n", "inner": "*\n"},
    ]


@cache
def _folder() -> Path:
    with unwatched():
        folder = scratch("ignore")
        for name in _FILES:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("x")
    return folder


def _selected(folder: Path, *, nested: bool) -> set[str] | None:
    try:
        found = FileSet.collect(folder, nested=nested)
    except InvalidError as error:
        require(error.faults, "a refusal without a place")
        return None
    for kept in found.kept_out:
        require(kept.line >= 1 and kept.ignore_file in (".amlignore", "data/.amlignore"), f"kept out by {kept}")
    return {entry.path for entry in found.entries}


def check(value: Any) -> None:
    """Select the files of a folder that has the two ignore files."""
    top, inner = (value.get("top"), value.get("inner")) if isinstance(value, dict) else (None, None)
    if not isinstance(top, str) or not isinstance(inner, str):
        return
    folder = _folder()
    (folder / ".amlignore").write_bytes(as_bytes(top))
    (folder / "data/.amlignore").write_bytes(as_bytes(inner))
    for nested in (True, False):
        found = _selected(folder, nested=nested)
        if found is not None:
            require(not found & {".env", "id_rsa"}, f"secrets ({SECRETS[0]}) are taken back by an ignore file")
            require(found <= {*_FILES, ".amlignore", "data/.amlignore"}, f"files that do not exist: {found}")
    content = as_bytes(top)
    normal = normalised_ignore_file(content)
    require(normalised_ignore_file(normal) == normal, "normalising twice is not the same")
    before, after = list(ignore_patterns(content).values()), list(ignore_patterns(normal).values())
    require(before == after or normal == content, "the normalised file has other patterns")


TARGET = Target(
    kind="json",
    reads=("aml_train.core.file_selection", "aml_train.core.files", "aml_train.image.requirements_file"),
    seeds=seeds,
    check=check,
    words=(
        "!",
        "#",
        "\\#",
        "\\!",
        "**/",
        "/**",
        "*",
        "?",
        "[a-z]",
        "[z-a]",
        "[",
        "\\",
        "/",
        "data/",
        ".env",
        "id_rsa",
        "\n",
        " ",
        "\\ ",
    ),
)
