"""Imports that neither the image's packages nor the code have: warned of only if that is certain."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.config.load import load_config
from aml_train.image.imports.check import missing_imports
from aml_train.image.imports.command_line import programs
from aml_train.image.imports.distributions import BRINGS, canonical, installed_with, may_provide
from aml_train.image.imports.sources import Code, imports_of, needed_by, parse_source

BASE = "python:3.11-slim-bookworm"


def notes(folder: Path, configuration: str, files: Mapping[str, str]) -> tuple[str, ...]:
    for path, text in {"aml-train.yml": configuration, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return missing_imports(load_config(None, directory=folder))


def job(
    command: str = "python train.py", *, code: str = ".", image: str = f"{{base: '{BASE}', pip: [numpy]}}"
) -> str:
    return f"job: {{command: '{command}', code: {code}, compute: local}}\nimage: {image}\n"


FOUND = {
    "a package is missing": (job(), {"train.py": "import numpy\nimport yaml\n"}, ["train.py:2: imports `yaml`"]),
    "the package to add is named": (job(), {"train.py": "import sklearn\n"}, ["add scikit-learn to `image.pip`"]),
    "in a function of the script": (
        job(),
        {"train.py": "def main():\n    import cv2\n\nmain()\n"},
        ["train.py:2: imports `cv2`"],
    ),
    "in a local module": (
        job("python -m shapes.train", code="src"),
        {"src/shapes/__init__.py": "", "src/shapes/train.py": "from shapes import data\n", "src/shapes/data.py": "import PIL\n"},
        ["src/shapes/data.py:1: imports `PIL`"],
    ),
    "a relative import": (
        job("python -m shapes.train", code="src"),
        {"src/shapes/__init__.py": "", "src/shapes/train.py": "from .data import x\n", "src/shapes/data.py": "import PIL\n"},
        ["src/shapes/data.py:1: imports `PIL`"],
    ),
    "the package is elsewhere in the code": (
        job("python src/shapes/train.py"),
        {"src/shapes/__init__.py": "", "src/shapes/train.py": "import shapes.data\n", "src/shapes/data.py": ""},
        ["src/shapes/train.py:1: the job imports `shapes`, which is in src:"],
    ),
    "the package is outside of the code": (
        job(code="src"),
        {"src/train.py": "import common\n", "common/__init__.py": ""},
        ["src/train.py:1: imports `common`, which is in the project but not in the job's code folder"],
    ),
    "another package may bring it": (
        job(image=f"{{base: '{BASE}', pip: [numpy, house-tools]}}"),
        {"train.py": "import yaml\n"},
        ["train.py:1: cannot be checked: `yaml` is no package of the image's list; house-tools may bring it"],
    ),
    "a requirements file": (
        job(image=f"{{base: '{BASE}', pip: requirements.txt}}"),
        {"train.py": "import pandas, matplotlib\n", "requirements.txt": "-r more.txt\n# no matplotlib\n", "more.txt": "pandas==2.2\n"},
        ["train.py:1: imports `matplotlib`"],
    ),
    "a launcher": (job("torchrun --nproc-per-node 2 train.py"), {"train.py": "import yaml\n"}, ["train.py:1: imports"]),
    "after cd": (job("cd src && python train.py"), {"src/train.py": "import yaml\n"}, ["src/train.py:1: imports"]),
    "the tests": (
        job() + "tests: {command: pytest -q tests}\n",
        {"train.py": "", "tests/test_it.py": "import yaml\n"},
        ["tests/test_it.py:1: imports `yaml`"],
    ),
    "the tests do not find the package": (
        job("python -m shapes.train", code="src", image=f"{{base: '{BASE}', pip: [pytest]}}")
        + "tests: {command: pytest -q tests}\n",
        {"src/shapes/__init__.py": "", "src/shapes/train.py": "", "tests/test_it.py": "from shapes import train\n"},
        ["tests/test_it.py:1: the tests import `shapes`, which is in src: pytest does not look there; add `tests.env: {PYTHONPATH: /workspace/src}`"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_what_cannot_be_found_is_warned_of(tmp_path: Path, name: str) -> None:
    configuration, files, expected = FOUND[name]
    found = notes(tmp_path, configuration, files)
    assert len(found) == len(expected), found
    for text, words in zip(found, expected, strict=True):
        assert words in text


SILENT = {
    "what a package brings": (job(image=f"{{base: '{BASE}', pip: [scikit-learn]}}"), {"train.py": "import joblib, numpy, scipy\n"}),
    "another name": (
        job(image=f"{{base: '{BASE}', pip: [scikit-learn, PyYAML, opencv-python-headless, pillow, python-dateutil]}}"),
        {"train.py": "import sklearn, yaml, cv2, PIL, dateutil\n"},
    ),
    "a base with unknown contents": (
        job(image="{base: 'nvcr.io/nvidia/pytorch:24.10-py3', pip: [numpy]}"),
        {"train.py": "import torch, apex\n"},
    ),
    "a step that may install anything": (
        job(image=f"{{base: '{BASE}', run: [make install]}}"),
        {"train.py": "import yaml\n"},
    ),
    "a Dockerfile": (job(image="{dockerfile: Dockerfile}"), {"Dockerfile": f"FROM {BASE}\n", "train.py": "import yaml\n"}),
    "an address": (
        job(image=f"{{base: '{BASE}', pip: ['tools @ https://example.com/tools.whl']}}"),
        {"train.py": "import yaml\n"},
    ),
    "extras": (job(image=f"{{base: '{BASE}', pip: ['mlflow[extras]']}}"), {"train.py": "import boto3\n"}),
    "an editable requirement": (
        job(image=f"{{base: '{BASE}', pip: requirements.txt}}"),
        {"requirements.txt": "-e git+https://example.com/x#egg=x\n", "train.py": "import yaml\n"},
    ),
    "optional imports": (
        job(),
        {
            "train.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import yaml\n"
            "try:\n    import ujson\nexcept ImportError:\n    ujson = None\n"
        },
    ),
    "in functions of modules": (job(), {"train.py": "import more\n", "more.py": "def later():\n    import yaml\n"}),
    "the standard library": (job(), {"train.py": "import os, json, distutils, dataclasses\n"}),
    "no Python": (job("bash train.sh"), {"train.sh": "", "train.py": "import yaml\n"}),
    "code of Python 2": (job(), {"train.py": "import yaml\nprint 'x'\n"}),
    "a namespace of Azure": (job(image=f"{{base: '{BASE}', pip: [azure-identity]}}"), {"train.py": "from azure.identity import X\n"}),
    "a PYTHONPATH": (
        job("python src/shapes/train.py").replace("compute: local", "compute: local, environment_variables: {PYTHONPATH: src}"),
        {"src/shapes/__init__.py": "", "src/shapes/train.py": "import shapes\n"},
    ),
    "a PYTHONPATH that is not known": (
        job("PYTHONPATH=$HERE/src python src/shapes/train.py"),
        {"src/shapes/__init__.py": "", "src/shapes/train.py": "import shapes\n"},
    ),
    "sys.path changed by the code": (
        job("python src/shapes/train.py"),
        {"src/shapes/__init__.py": "", "src/shapes/train.py": "import sys\nsys.path.append('src')\nimport shapes\n"},
    ),
    "an installed project": (
        job("pip install . && python src/shapes/train.py"),
        {"src/shapes/__init__.py": "", "src/shapes/train.py": "import shapes, yaml\n"},
    ),
    "tests with conftest": (
        job() + "tests: {command: pytest -q tests}\n",
        {"train.py": "", "conftest.py": "", "tests/test_it.py": "import train\n"},
    ),
    "a conftest above the tests that changes sys.path": (
        job(code="src") + "tests: {command: pytest -q tests}\n",
        {"src/train.py": "", "conftest.py": "import sys\nsys.path.insert(0, 'src')\n", "tests/test_it.py": "import train\n"},
    ),
    "tests in a package": (
        job() + "tests: {command: pytest -q tests}\n",
        {"train.py": "", "tests/__init__.py": "", "tests/test_it.py": "import train\n"},
    ),
    "tests with pytest's pythonpath": (
        job(code="src") + "tests: {command: pytest -q tests}\n",
        {
            "src/train.py": "",
            "tests/test_it.py": "import train\n",
            "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['src']\n",
        },
    ),
    "tests with python -m pytest": (
        job() + "tests: {command: python -m pytest tests}\n",
        {"train.py": "", "tests/test_it.py": "import train\n"},
    ),
    "tests with a PYTHONPATH": (
        job(code="src") + "tests: {command: pytest -q tests, env: {PYTHONPATH: /workspace/src}}\n",
        {"src/train.py": "", "tests/test_it.py": "import train\n"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_nothing_is_said_that_is_not_certain(tmp_path: Path, name: str) -> None:
    configuration, files = SILENT[name]
    assert notes(tmp_path, configuration, files) == ()


def test_a_folder_with_very_many_files_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aml_train.image.imports.check._MOST_FILES", 2)
    assert notes(tmp_path, job(), {"train.py": "import yaml\n", "a.py": "", "b.py": ""}) == ()


def test_conda_packages_count(tmp_path: Path) -> None:
    environment = "dependencies:\n- python=3.11\n- conda-forge::scikit-learn=1.5\n- pip:\n  - pyyaml\n"
    configuration = job(image=f"{{base: '{BASE}', conda: environment.yml}}")
    files = {"environment.yml": environment, "train.py": "import sklearn, numpy, yaml, requests\n"}
    assert [note.partition(",")[0] for note in notes(tmp_path, configuration, files)] == [
        "train.py:1: imports `requests`"
    ]


def test_many_notes_are_counted(tmp_path: Path) -> None:
    names = [f"package_{number}" for number in range(20)]
    found = notes(tmp_path, job(), {"train.py": "".join(f"import {name}\n" for name in names)})
    assert len(found) == 9
    assert found[-1] == "and 12 more imports like these"


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


INNER = {("mypy", "mypyc"), ("pytest", "py"), ("azure-identity", "images"), ("ipykernel", "ipykernel_launcher")}
"""Modules that are not imported by themselves."""


def test_the_tables_agree_with_what_is_installed() -> None:
    """The names of the distributions of this environment, as their own records have them."""
    installed = {canonical(one.metadata["Name"]) for one in importlib.metadata.distributions()}
    compared = 0
    for module, names in importlib.metadata.packages_distributions().items():
        for name in {canonical(name) for name in names} & set(BRINGS):
            if "__" not in module and not module.startswith("_"):
                compared += 1
                assert may_provide(name, module) or (name, module) in INNER, (name, module)
    assert compared > 10
    for name in sorted(installed & set(BRINGS)):
        needed = {
            canonical(
                requirement.split(";")[0]
                .split("[")[0]
                .split("<")[0]
                .split(">")[0]
                .split("=")[0]
                .split("!")[0]
                .split("~")[0]
                .strip()
            )
            for requirement in importlib.metadata.requires(name) or ()
            if "extra ==" not in requirement
            and "python_version <" not in requirement
            and "sys_platform" not in requirement
        }
        everything, _ = installed_with([name])
        assert needed <= everything, (name, needed - everything)
