"""Projects that ``aml-train init`` reads: nothing of them is run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from aml_train.cli.scaffold.draft import render
from aml_train.cli.scaffold.jobs import candidates
from aml_train.cli.scaffold.project import scan
from aml_train.cli.scaffold.proposal import propose
from aml_train.config import check_text
from aml_train.core.errors import AmlTrainError
from fuzz.limits import unwatched
from fuzz.seeds import files
from fuzz.storage import ROOT, scratch
from fuzz.target import Target, as_bytes, require

_NAMES = (
    *(
        "train.py",
        "job.yml",
        "requirements.txt",
        "pyproject.toml",
        "environment.yml",
        "submit.py",
        "config.json",
        "setup.cfg",
    ),
    *(
        "Dockerfile",
        ".python-version",
        "tests/test_a.py",
        "train.ipynb",
        ".github/workflows/ci.yml",
        ".azureml/a.runconfig",
    ),
)
_MOST_CANDIDATES = 3


@cache
def _projects() -> Sequence[Any]:
    found = []
    for folder in sorted([*(ROOT / "tests/projects").iterdir(), ROOT / "examples/digits", ROOT / "examples/sweep"]):
        texts: dict[str, str] = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in (
                ".py",
                ".yml",
                ".txt",
                ".toml",
                ".ipynb",
                ".cfg",
                ".runconfig",
                ".json",
                "",
            ):
                name = path.relative_to(folder).as_posix()
                text = path.read_text(encoding="utf-8", errors="replace")
                if len(text) < 4000 and name != "aml-train.yml" and len(texts) < 12:
                    texts[name] = text
        found.append(texts)
    return found


def seeds() -> Sequence[Any]:
    """Return projects: the files' texts by their names."""
    project = '[project]\nname = "x"\nrequires-python = ">=3.10,<3.13"\ndependencies = ["torch>=2", "x @ https://e.org/x.whl"]\n[tool.poetry.dependencies]\npython = "^3.9"\n'
    return [
        *_projects(),
        {
            "pyproject.toml": project,
            "train.py": files("examples/digits/src/train.py")[0],
            ".python-version": "3.12.1\n",
        },
    ]


def _prepare(value: Any) -> Path:
    with unwatched():
        folder = scratch("projects")
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        for name, text in value.items():
            plain = str(name).replace("\0", "").strip("/").encode("utf-8", "replace").decode()[:100]
            if not plain or ".." in plain.split("/") or not isinstance(text, str):
                continue
            path = folder / plain
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(as_bytes(text))
            except OSError:
                continue  # such as a file in the place of a folder
    return folder


def check(value: Any) -> None:
    """Scan a project; propose a configuration for its jobs."""
    if not isinstance(value, dict):
        return
    folder = _prepare(value)
    try:
        project = scan(folder, "x")
        for candidate in candidates(project)[:_MOST_CANDIDATES]:
            text = render(propose(project, candidate, asked=True))
            try:
                check_text(text, "aml-train.yml", directory=folder)
            except AmlTrainError as error:
                require(str(error), "a refusal says nothing")
    except AmlTrainError as error:
        require(str(error), "a refusal says nothing")


TARGET = Target(
    kind="json",
    reads=(
        "aml_train.cli.scaffold.image",
        "aml_train.cli.scaffold.imports",
        "aml_train.cli.scaffold.jobs",
        "aml_train.cli.scaffold.project",
        "aml_train.cli.scaffold.proposal",
        "aml_train.cli.scaffold.scripts",
    ),
    seeds=seeds,
    check=check,
    words=(
        *_NAMES,
        *(
            "import argparse\n",
            "parser.add_argument('--x', type=float, default=",
            "mlflow.log_metric('a', 1)\n",
            "from azure.ai.ml import command\n",
        ),
        *(
            "command(",
            "ScriptRunConfig(",
            "Environment(",
            'f"{x}"',
            "if __name__ == '__main__':\n",
            "python=3.11",
            ">=3.9,<4",
            "^3.",
            "def f(",
            ")",
        ),
    ),
)
