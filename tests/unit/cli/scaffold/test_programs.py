"""The programs of a command, what their files import, and the folders that tests need."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.cli.scaffold.imports import Code, imports_of, needed_by, parse_source
from aml_train.cli.scaffold.programs import programs
from aml_train.cli.scaffold.tests_path import folders_for_tests
from aml_train.config.load import load_config

SOURCES = {"src/shapes/__init__.py": "", "src/shapes/train.py": "", "tests/test_it.py": "from shapes import train\n"}
FOLDERS: Mapping[str, tuple[str, Mapping[str, str], tuple[str, ...]]] = {
    "below src": ("pytest -q tests", SOURCES, ("/workspace/src",)),
    "the project's own folder": (
        "pytest -q tests",
        {"train.py": "", "tests/test_it.py": "import train\n"},
        ("/workspace",),
    ),
    "with conftest": ("pytest tests", {"train.py": "", "conftest.py": "", "tests/test_it.py": "import train\n"}, ()),
    "tests in a package": (
        "pytest tests",
        {"train.py": "", "tests/__init__.py": "", "tests/test_it.py": "import train\n"},
        (),
    ),
    "python -m pytest": ("python -m pytest tests", {"train.py": "", "tests/test_it.py": "import train\n"}, ()),
    "pytest's pythonpath": (
        "pytest tests",
        {**SOURCES, "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['src']\n"},
        (),
    ),
    "pytest.ini": ("pytest tests", {**SOURCES, "pytest.ini": "[pytest]\npythonpath = src\n"}, ()),
    "sys.path is changed": (
        "pytest tests",
        {**SOURCES, "tests/conftest.py": "import sys\nsys.path.append('src')\n"},
        (),
    ),
    "the project is installed": ("pip install . && pytest tests", SOURCES, ()),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_the_folders_that_tests_import_from(tmp_path: Path, name: str) -> None:
    command, files, expected = FOLDERS[name]
    configuration = (
        "job: {command: python train.py, compute: local}\n"
        f"image: {{base: 'python:3.11-slim-bookworm'}}\ntests: {{command: '{command}'}}\n"
    )
    for path, text in {"aml-train.yml": configuration, **files}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert folders_for_tests(load_config(None, directory=tmp_path)) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python train.py --x 1", [("train.py", ("",))]),
        ("python3.11 -u src/train.py", [("src/train.py", ("src",))]),
        ("python -m src.train", [("src/train.py", ("",))]),
        ("cd src; python train.py", [("src/train.py", ("src",))]),
        ("export PYTHONPATH=$PWD/src:$PYTHONPATH && python train.py", [("train.py", ("", "src"))]),
        ("mpirun -n 4 python train.py", [("train.py", ("",))]),
        ("accelerate launch --num_processes 2 train.py", [("train.py", ("",))]),
        ("python -m torch.distributed.run --nnodes 2 train.py", [("train.py", ("",))]),
        ("python train.py --data ${{inputs.data}} \\\n --epochs 2", [("train.py", ("",))]),
        ("python prepare.py\npython train.py", [("prepare.py", ("",)), ("train.py", ("",))]),
        ("python -c 'import x'", []),
        ("python nothing.py", []),
        ("python 'train.py", []),
        ("bash run.sh && (python train.py | tee log)", [("train.py", ("",))]),
    ],
)
def test_the_programs_of_a_command(command: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    code = Code(paths={"train.py", "prepare.py", "src/train.py"}, read=lambda _path: "")
    assert [(one.path, one.roots) for one in programs(command, code)] == expected


@given(
    st.text(
        alphabet=st.sampled_from(
            "python train.py -m cd && ; | () '\"\\ $PWD{[]} PYTHONPATH=src: pytest torchrun\n/."
        ),
        max_size=80,
    )
)
def test_any_command_can_be_read(command: str) -> None:
    code = Code(paths={"train.py", "src/train.py"}, read=lambda _path: "")
    for one in programs(command, code):
        assert one.tests is not None or one.path in code.paths


def test_a_package_runs_its_main_module() -> None:
    code = Code(paths={"shapes/__init__.py", "shapes/__main__.py"}, read=lambda _path: "")
    assert [one.path for one in programs("python -m shapes", code)] == ["shapes/__main__.py"]


def test_files_that_import_each_other_are_read_once() -> None:
    texts = {"a.py": "import b\nimport numpy\n", "b.py": "import a\nimport c.d\n", "c/d.py": "import yaml\n"}
    needed = needed_by(Code(paths=texts, read=texts.__getitem__), [("a.py", ("",))])
    assert needed.modules == {"numpy": ("a.py", 2), "yaml": ("c/d.py", 1)}
    assert needed.read == set(texts)


def test_imports_of_a_with_block() -> None:
    tree = parse_source("with x:\n    import a\nif __name__ == '__main__':\n    import b\nif y:\n    import c\n")
    assert tree is not None
    assert [one.module for one in imports_of(tree)] == ["a", "b"]
