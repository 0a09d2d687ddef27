"""The packages of the proposed image."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from aml_train.cli.scaffold.draft import render
from aml_train.cli.scaffold.image import declared, without_paths
from aml_train.cli.scaffold.project import TextFile, scan
from aml_train.cli.scaffold.proposal import candidates, propose

MAIN = "if __name__ == '__main__':\n    pass\n"


def proposed(folder: Path, files: Mapping[str, str]) -> tuple[Any, list[str]]:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    project = scan(folder)
    (job,) = candidates(project)
    draft = propose(project, job, asked=False)
    return yaml.safe_load(render(draft.items)), draft.notes


DECLARED = [
    ({"pyproject.toml": '[project]\ndependencies = ["numpy>=2"]\n'}, "pyproject.toml:2", ("numpy>=2",)),
    (
        {"pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.11"\nnumpy = "^1.24.1"\ntorch = {version = "2.1", optional = true}\npandas = "*"\nscipy = "~1.9"\n'},
        "pyproject.toml:1",
        ("numpy>=1.24.1,<2", "pandas", "scipy>=1.9,<1.10"),
    ),
    (
        {
            "pyproject.toml": '[project]\nname = "p"\ndependencies = ["A_b>=2; python_version>\'3\'", "c[x]", "d", "torch", "e @ https://e.test/e.whl"]\n',
            "uv.lock": "version = 1\n" + "".join(
                f'[[package]]\nname = "{name}"\nversion = "{version}"\n'
                for name, version in [("a-b", "2.1"), ("c", "1.0"), ("d", "1"), ("d", "2"), ("torch", "2.9.0+cu128"), ("e", "3")]
            ) + '[[package]]\nname = "p"\nsource = { virtual = "." }\n',
        },
        "pyproject.toml:3",
        ('A_b==2.1; python_version > "3"', "c[x]==1.0", "d", "torch", "e @ https://e.test/e.whl"),
    ),
    ({"Pipfile": "[packages]\na = '*'\nb = {version = '>=1', extras = ['x']}\n", "Pipfile.lock": '{"default": {"a": "1", "b": {"version": "==1.5"}}}'}, "Pipfile:1", ("a", "b[x]==1.5")),
    ({"Pipfile": "[packages]\na = '*'\n", "Pipfile.lock": "{"}, "Pipfile:1", ("a",)),
]  # fmt: skip


@pytest.mark.parametrize(("files", "where", "names"), DECLARED)
def test_declared_dependencies(tmp_path: Path, files: Mapping[str, str], where: str, names: tuple[str, ...]) -> None:
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    found = declared(scan(tmp_path), ".")
    assert found is not None
    assert (found[0].where, found[1]) == (where, names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-e .\nnumpy\n", ("numpy",)),
        ("numpy  # arrays\n.\n", ("numpy",)),
        (".[train]\npandas==2\n", ("pandas==2",)),
        ("numpy\n", None),
        ("-e .\n--index-url https://example.com\nnumpy\n", None),
    ],
)
def test_requirements_without_the_project(text: str, expected: tuple[str, ...] | None) -> None:
    found = without_paths(TextFile(path="requirements.txt", text=text))
    assert (found and found[1]) == expected


def test_well_known_packages_that_the_code_imports(tmp_path: Path) -> None:
    text = "import sklearn\nimport yaml\nimport somebodys_module\nimport mlflow\n"
    found, notes = proposed(tmp_path, {"train.py": text + MAIN})
    assert found["image"]["pip"] == ["scikit-learn", "pyyaml"]
    assert found["image"]["azureml-mlflow"] == "latest"
    assert not [note for note in notes if "nothing says which packages" in note]


def test_files_of_other_code_are_not_used(tmp_path: Path) -> None:
    files = {
        "a/train.py": "import numpy\n" + MAIN,
        "b/score.py": "",
        "b/requirements.txt": "flask\n",
        "environments/requirements.txt": "numpy==2.1\n",
    }
    assert proposed(tmp_path, files)[0]["image"]["pip"] == "environments/requirements.txt"
    (tmp_path / "environments/requirements.txt").unlink()
    assert (
        proposed(tmp_path, files | {"environments/none.txt": ""})[0]["image"]["pip"]
        == "environments/requirements.txt"
    )


def test_pytest_is_added_to_a_conda_environment(tmp_path: Path) -> None:
    files = {
        "train.py": MAIN,
        "conda.yml": "dependencies: [python=3.12, numpy]\n",
        "test_it.py": "import pytest\ndef test_it(): pass\n",
    }
    image = proposed(tmp_path, files)[0]["image"]
    assert image == {"base": "python:3.12-slim-bookworm", "conda": "conda.yml", "pip": ["pytest"]}


def test_the_conda_file_for_training_comes_first(tmp_path: Path) -> None:
    conda = "dependencies: [python=3.12]\n"
    files = {"src/train.py": MAIN, "envs/inference/conda.yml": conda, "envs/training/conda.yml": conda}
    assert proposed(tmp_path, files)[0]["image"]["conda"] == "envs/training/conda.yml"


def test_conda_packages_that_a_jobs_yaml_lists(tmp_path: Path) -> None:
    job = (
        "command: python train.py\ncode: .\ncompute: azureml:a\nenvironment:\n  image: mcr.microsoft.com/azureml/base\n"
        "  conda_file:\n    dependencies:\n      - python=3.12\n      - scikit-learn=1.5\n      - pip\n      - pip: [pyyaml]\n"
    )
    found, notes = proposed(tmp_path, {"train.py": MAIN, "job.yml": job})
    assert found["image"] == {"base": "mcr.microsoft.com/azureml/base"}
    assert [note for note in notes if note.startswith("job.yml:6: the conda packages are listed in the job itself")]


def test_a_dockerfile_of_a_service_is_left_aside(tmp_path: Path) -> None:
    dockerfile = (
        'FROM python:3.12\nCOPY requirements.txt .\nRUN pip install -r requirements.txt\nCMD ["uvicorn", "app:app"]\n'
    )
    found, _ = proposed(tmp_path, {"train.py": MAIN, "Dockerfile": dockerfile, "requirements.txt": "numpy\n"})
    assert found["image"]["pip"] == "requirements.txt"


def test_mpi_needs_an_image_with_mpirun(tmp_path: Path) -> None:
    job = (
        "command: python train.py\ncode: .\ncompute: azureml:a\nenvironment: azureml:e:1\n"
        "distribution: {type: mpi, process_count_per_instance: 2}\n"
    )
    found, _ = proposed(tmp_path, {"train.py": MAIN, "job.yml": job, "requirements.txt": "numpy\n"})
    assert found["image"]["base"] == "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04"
