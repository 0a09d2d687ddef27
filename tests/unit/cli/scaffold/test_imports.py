"""The imports of files, and the folders that tests need in PYTHONPATH."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from aml_train.cli.scaffold.project import TextFile, scan
from aml_train.cli.scaffold.proposal import python_path
from aml_train.cli.scaffold.scripts import imports_of, loaded_by


def write(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


IT = "def test_it(): pass\n"
SOURCES = {
    "src/shapes/__init__.py": "",
    "src/shapes/train.py": "",
    "tests/test_it.py": "from shapes import train\n" + IT,
}
FOLDERS: Mapping[str, tuple[Mapping[str, str], list[str]]] = {
    "below src": (SOURCES, ["/workspace/src"]),
    "the project's own folder": ({"train.py": "", "tests/test_it.py": "import train\n" + IT}, ["/workspace"]),
    "with conftest": ({"train.py": "", "conftest.py": "", "tests/test_it.py": "import train\n" + IT}, []),
    "a conftest elsewhere": (
        {"train.py": "", "tests/test_it.py": "import train\n" + IT, "more/conftest.py": ""},
        ["/workspace"],
    ),
    "tests in a package": (
        {"train.py": "", "tests/__init__.py": "", "tests/test_it.py": "import train\n" + IT},
        [],
    ),
    "packages of others": ({"train.py": "", "tests/test_it.py": "import os, numpy\n" + IT}, []),
    "pytest's pythonpath": ({**SOURCES, "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['src']\n"}, []),
    "pytest.ini": ({**SOURCES, "pytest.ini": "[pytest]\npythonpath = src\n"}, []),
    "sys.path is changed": ({**SOURCES, "tests/conftest.py": "import sys\nsys.path.append('src')\n"}, []),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_the_folders_that_tests_import_from(tmp_path: Path, name: str) -> None:
    files, expected = FOLDERS[name]
    write(tmp_path, files)
    assert python_path(scan(tmp_path), ["tests"]) == expected


def test_files_that_import_each_other_are_read_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a.py": "import b\nimport numpy\n",
            "b.py": "import a\nimport c.d\n",
            "c/d.py": "from . import e\n",
            "c/e.py": "",
        },
    )
    project = scan(tmp_path)
    start = next(one for one in project.scripts if one.path == "a.py")
    assert [one.path for one in loaded_by(project, start, [""])] == ["a.py", "b.py", "c/d.py", "c/e.py"]


def test_optional_imports_are_left_out() -> None:
    text = (
        "with x:\n    import a\nif __name__ == '__main__':\n    import b\nif TYPE_CHECKING:\n    import c\n"
        "try:\n    import d\nexcept ImportError:\n    d = None\ndef f():\n    import e\n"
    )
    assert [one.module for one in imports_of(TextFile(path="x.py", text=text))] == ["a", "b", "e"]
