"""Notebooks that submit jobs: their code, with the line numbers of the file."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from aml_train.cli.scaffold.candidates import candidates, named
from aml_train.cli.scaffold.notebooks import code_of_notebook
from aml_train.cli.scaffold.project import scan


def notebook(*cells: tuple[str, str]) -> str:
    document = {
        "cells": [
            {"cell_type": kind, "metadata": {}, "outputs": [], "source": text.splitlines(keepends=True)}
            for kind, text in cells
        ],
        "nbformat": 4,
    }
    return json.dumps(document, indent=1)


CELLS = (
    ("markdown", "# A title\nprint('no code')"),
    ("code", "%pip install azure-ai-ml\n!ls\nfrom azure.ai.ml import command\nname = !whoami\nhelp?"),
    ("code", "%%writefile src/train.py\nraise SystemExit"),
    ("code", ""),
    ("code", 'job = command(\n    command="python train.py",\n    code="./src",\n)'),
)


def test_code_keeps_the_lines_of_the_file() -> None:
    text = notebook(*CELLS)
    code = code_of_notebook(text)
    assert [line for line in code.splitlines() if line] == [
        "from azure.ai.ml import command",
        "job = command(",
        '    command="python train.py",',
        '    code="./src",',
        ")",
    ]
    for number, line in enumerate(code.splitlines()):
        assert not line or json.dumps(line)[1:-1] in text.splitlines()[number]


def test_the_job_of_a_notebook(tmp_path: Path) -> None:
    (tmp_path / "run.ipynb").write_text(notebook(*CELLS))
    (job,) = candidates(scan(tmp_path))
    assert job.what == "python train.py"
    assert job.notes == ("run.ipynb:46: the folder ./src is not here: check `code`",)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/other.py").write_text("")
    (job,) = candidates(scan(tmp_path))
    assert job.notes == ("run.ipynb: train.py, which the command runs, is not in src: add it to the project",)
    (tmp_path / "src/train.py").write_text("")
    (job,) = named(scan(tmp_path), "run.ipynb")
    assert (job.code, job.notes) == ("src", ())


def test_what_is_no_notebook_has_no_code() -> None:
    assert code_of_notebook("not json\n").strip() == ""
    assert code_of_notebook('{"cells": [{"cell_type": "code", "source": ["a\\n", "b"]}]}').strip() == ""


@given(st.lists(st.tuples(st.sampled_from(["code", "markdown"]), st.text(max_size=40)), max_size=4))
def test_any_notebook_has_as_many_lines_as_its_file(cells: list[tuple[str, str]]) -> None:
    text = notebook(*cells)
    assert code_of_notebook(text).count("\n") == len(text.splitlines()) - 1
