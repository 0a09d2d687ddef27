"""Which Python a project gets: what it pins, else the newest that its range allows, else a marked guess."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.cli.scaffold.image import PYTHONS, choose_python, python_of
from aml_train.cli.scaffold.project import scan

FILES = [
    ({".python-version": "3.12.4\n"}, "3.12", ".python-version:1: the project's Python"),
    (
        {"pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.9"\n'},
        "3.13",
        "pyproject.toml:2: the newest Python of ^3.9",
    ),
    (
        {"pyproject.toml": '[project]\nrequires-python = ">=3.8,<3.11"\n'},
        "3.10",
        "pyproject.toml:2: the newest Python of >=3.8,<3.11",
    ),
    ({}, "3.11", "a guess: nothing says which Python"),
    ({"pyproject.toml": '[project]\nrequires-python = "nonsense"\n'}, "3.11", "a guess: nothing says which Python"),
]


@pytest.mark.parametrize(("files", "version", "reason"), FILES)
def test_a_projects_python(tmp_path: Path, files: dict[str, str], version: str, reason: str) -> None:
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    found = choose_python(scan(tmp_path), ".")
    assert (found.value, found.reason) == (f"python:{version}-slim-bookworm", reason)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (">=3.14", "3.14"),
        (">3.11", "3.13"),
        ("==3.12.*", "3.12"),
        ("3.10", "3.10"),
        ("~=3.9", "3.13"),
        (">=4", None),
        (f"^{'9' * 5000}", None),
        (f"<{'9' * 5000}", None),
    ],
)
def test_the_python_of_a_range(text: str, version: str | None) -> None:
    assert python_of(text) == version


@given(st.text(alphabet="0123456789.,<>=!~^* |post", max_size=30))
def test_any_range_can_be_read(text: str) -> None:
    assert python_of(text) in (*PYTHONS, None)
