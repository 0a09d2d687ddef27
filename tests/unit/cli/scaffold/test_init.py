"""`aml-train init` on small projects: what it writes validates, or it says what is missing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aml_train.cli.process import run_command_line
from aml_train.cli.scaffold.draft import Item, render, scalar
from aml_train.cli.scaffold.project import nearness, scan
from aml_train.config.load import load_config
from aml_train.config.yaml.nodes import Mark
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.image.inputs import BaseImage
from aml_train.jobs.spec import TargetNames
from aml_train.pipeline.plan import make_plan
from aml_train.pipeline.plan_values import render_plan
from aml_train.pipeline.resolve import Surroundings, resolve
from tests.support.base_lookup import Bases

PROJECTS = Path(__file__).parents[3] / "projects"


class Ran:
    """What the command did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


Init = Callable[..., Ran]


@pytest.fixture
def init(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Init:
    def run(*arguments: str) -> Ran:
        monkeypatch.setattr("sys.argv", ["aml-train", "init", *arguments])
        code = run_command_line()
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


def project(tmp_path: Path, name: str) -> Path:
    return Path(shutil.copytree(PROJECTS / name, tmp_path / name))


def planned(folder: Path) -> str:
    """Return the text of the plan, with a base that is not looked up."""
    config = load_config(None, directory=folder)

    def base(reference: ImageRef, _platform: str) -> BaseImage:
        return BaseImage(reference=reference, digest="sha256:" + "b" * 64)

    names = TargetNames(
        target="local",
        description="the local AzureML",
        scope="local",
        registry_for_jobs="r.azurecr.io",
        registry_for_engine="localhost:1",
        compute="local-cluster",
    )
    resolved = resolve(config, Surroundings(platform="linux/amd64", lookup=Bases(base), commit=lambda _: None))
    return render_plan(make_plan(config, resolved, names))


# "Done when": each gives a configuration that validates, or says what is missing.
VALID: Sequence[tuple[str, Sequence[str], dict[str, object], Sequence[str]]] = [
    (
        "bare_job",
        (),
        {"job": "job.yml"},
        ["job.yml:3: the job keeps its environment azureml:AzureML-sklearn-1.5@latest"],
    ),
    (
        "nested",
        (),
        {
            "job": "azureml/jobs/train.yml",
            "image": {
                "base": "python:3.12-slim-bookworm",
                "pip": {"requirements": "requirements.txt", "packages": ["pytest"]},
                "azureml-mlflow": "latest",
            },
            "tests": {"command": "pytest -q tests"},
            "model": {"name": "nested", "output": "model", "type": "mlflow_model"},
        },
        [
            "base: python:3.12-slim-bookworm   # .python-version:1: the project's Python",
            "replaces the job's environment azureml:shapes-env:3",
            "#   val/accuracy: '>= 0.9'   # src/shapes/train.py:5",
            "#   train/loss: < 0.1   # src/shapes/train.py:6",
        ],
    ),
    (
        "several_jobs",
        ("--job", "jobs/dogs.yml"),
        {"job": "jobs/dogs.yml", "image": {"base": "python:3.11-slim-bookworm"}},
        ["jobs/dogs.yml:2: the job that --job names", "jobs/dogs.yml:5: the image of the job's environment"],
    ),
    (
        "conda",
        (),
        {
            "job": "job.yml",
            "image": {"base": "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04", "conda": "environment.yml"},
            "tests": {"command": "pytest -q"},
        },
        [
            "job.yml:6: the job's conda file",
            "#   f1: ",
            "#   precision: '>= 0.9'   # train.py:4",
            "#   val loss: < 0.1",
        ],
    ),
    (
        "dockerfile",
        (),
        {
            "job": "aml/train.yml",
            "image": {"dockerfile": {"file": "docker/train.Dockerfile"}},
            "tests": {"command": "pytest -q train/tests"},
        },
        [
            "aml/train.yml:5: the job's environment is built from it",
            "docker/train.Dockerfile:1: the tests need pytest, which it does not install: add it there",
        ],
    ),
    (
        "runconfig",
        (),
        {
            "runconfig": ".azureml/train.runconfig",
            "image": {
                "base": "mcr.microsoft.com/azureml/openmpi4.1.0-cuda11.8-cudnn8-ubuntu22.04",
                "conda": "conda.yml",
            },
        },
        [".azureml/train.runconfig:1: the only run configuration of SDK v1 here"],
    ),
    (
        "monorepo",
        ("--job", "packages/vision/job.yml"),
        {
            "job": "packages/vision/job.yml",
            "image": {
                "base": "python:3.11-slim-bookworm",
                "pip": "packages/vision/requirements.txt",
                "azureml-mlflow": "latest",
            },
            "tests": {"command": "pytest -q packages/vision/tests"},
        },
        ["tests elsewhere were left aside: packages/speech/tests", "vision/error: < 0.1"],
    ),
    (
        "no_tests",
        (),
        {
            "job": {"command": "python train.py", "code": "src", "compute": "azureml:cpu-cluster"},
            "image": {
                "base": "python:3.13-slim-bookworm",
                "pip": ["numpy>=2", "mlflow-skinny"],
                "azureml-mlflow": "latest",
            },
        },
        ["src/train.py:8: no job exists yet", "no tests were found"],
    ),
    (
        "src_layout",
        (),
        {
            "job": {
                "command": "python -m tides.train",
                "code": ".",
                "compute": "azureml:cpu-cluster",
                "environment_variables": {"PYTHONPATH": "src"},
            },
            "image": {"base": "python:3.11-slim-bookworm", "pip": ["pyyaml", "pytest"]},
            "tests": {"command": "pytest -q tests", "env": {"PYTHONPATH": "/workspace/src"}},
        },
        ["a module of a package; it reads files of the project", "the newest Python of >=3.11,<3.12"],
    ),
    (
        "flat_script",
        (),
        {
            "job": {"command": "python train.py", "code": ".", "compute": "azureml:cpu-cluster"},
            "image": {"base": "python:3.11-slim-bookworm", "pip": ["pyyaml"]},
        },
        [
            "train.py:10: a guess: the code imports them, and nothing lists packages",
            "data/points.csv: git ignores it, so a workflow's checkout lacks it",
        ],
    ),
    (
        "sdk_v2",
        (),
        {
            "job": {"command": "python train.py --points POINTS", "code": "src", "compute": "azureml:cpu-cluster"},
            "image": {"base": "python:3.11-slim-bookworm", "azureml-mlflow": "latest"},
        },
        [
            "src/train.py:9: the script requires --points: fill in POINTS in the command",
            "submit.py:3: it submits by an SDK",
        ],
    ),
    (
        "sdk_v1",
        (),
        {
            "job": {"command": "python train.py", "code": "training", "compute": "azureml:cpu-cluster"},
            "image": {"base": "python:3.11-slim-bookworm", "azureml-defaults": "latest"},
        },
        [
            "submit.py:1: it submits by an SDK of AzureML, and is not read: write its command, environment and inputs as a job.yml"
        ],
    ),
    (
        "ngc_ofed",
        (),
        {
            "job": {"command": "python train.py", "code": ".", "compute": "azureml:cpu-cluster"},
            "image": {"dockerfile": {"file": "Dockerfile"}},
        },
        [
            "file: Dockerfile   # Dockerfile:5: it installs the packages",
            "requirements.txt:1: left aside: Dockerfile does not install it",
        ],
    ),
    (
        "src_package",
        (),
        {
            "job": {"command": "python -m src.train_model", "code": ".", "compute": "azureml:cpu-cluster"},
            "image": {"base": "python:3.11-slim-bookworm", "pip": ["numpy==2.1.0", "pytest"]},
            "tests": {"command": "pytest -q tests", "env": {"PYTHONPATH": "/workspace"}},
        },
        ["requirements.txt without the project itself, which is the job's code"],
    ),
    (
        "course",
        (),
        {
            "job": "src/job.yml",
            "image": {"base": "python:3.11-slim-bookworm", "pip": "requirements.txt", "azureml-mlflow": "latest"},
        },
        ["replaces the job's environment azureml:AzureML-sklearn-1.5@latest"],
    ),
    ("pipeline_only", (), {"job": "pipeline.yml"}, ["the only pipeline job here"]),
    (
        "mlops_pipeline",
        (),
        {"job": "azureml/pipeline.yml"},
        ["azureml/pipeline.yml:1: its nodes keep their environments, in which no tests run"],
    ),
    ("sweep_only", (), {"job": "sweep.yml"}, ["the only sweep job here"]),
    (
        "poetry_package",
        (),
        {
            "job": {
                "command": 'python -c "from tides.train import main; main()"',
                "code": ".",
                "compute": "azureml:cpu-cluster",
            },
            "image": {
                "base": "python:3.11-slim-bookworm",
                "pip": ["numpy==1.26.4", "scikit-learn[tests]==1.5.2", "pytest"],
                "azureml-mlflow": "latest",
            },
            "tests": {"command": "pytest -q tests", "env": {"PYTHONPATH": "/workspace"}},
        },
        [
            "the command train of pyproject.toml",
            "the oldest Python of ^3.11",
            "#   rmse: < 0.1   # tides/train.py:17",
            "#   mae: < 0.1   # tides/train.py:17",
        ],
    ),
    (
        "pipenv",
        (),
        {
            "job": {"command": "python train.py", "code": ".", "compute": "azureml:cpu-cluster"},
            "image": {"base": "python:3.12-slim-bookworm", "pip": ["numpy==2.1.3", "joblib==1.4.2"]},
        },
        ["Pipfile:6: the project's dependencies", "#   path: outputs/model.joblib   # train.py:6"],
    ),
    (
        "hydra_app",
        (),
        {
            "job": {"command": "python train.py", "code": ".", "compute": "azureml:cpu-cluster"},
            "image": {"base": "python:3.11-slim-bookworm", "pip": "requirements.txt"},
        },
        [],
    ),
    (
        "trainer_image",
        (),
        {
            "job": {
                "command": 'python -c "from trainer.task import main; main()"',
                "code": ".",
                "compute": "azureml:cpu-cluster",
                "environment_variables": {"PYTHONPATH": "src"},
            },
            "image": {"base": "python:3.13-slim-bookworm", "pip": ["pyyaml>=6"]},
        },
        ["the command train of pyproject.toml"],
    ),
    (
        "workbench",
        ("--job", "jobs/price/job.yml"),
        {
            "job": "jobs/price/job.yml",
            "image": {"base": "python:3.12-slim-bookworm", "conda": "jobs/price/environment.yml"},
        },
        ["jobs/price/environment.yml:4: the project's Python"],
    ),
    (
        "beside",
        (),
        {
            "job": {"command": "python train.py", "code": ".", "compute": "azureml:cpu-cluster"},
            "image": {"base": "python:3.11-slim-bookworm"},
        },
        ["train.py:3: model.pkl is lost when the job ends: write it into outputs/, as `outputs/model.pkl`"],
    ),
    (
        "required_argument",
        (),
        {
            "job": {"command": "python train.py --data DATA", "code": ".", "compute": "azureml:cpu-cluster"},
            "image": {"base": "python:3.11-slim-bookworm"},
        },
        ["train.py:4: the script requires --data: fill in DATA in the command"],
    ),
]

MISSING: Sequence[tuple[str, Sequence[str], Sequence[str]]] = [
    (
        "several_jobs",
        (),
        ["There are 2 jobs; which one is meant?", "jobs/cats.yml:2: python train.py --kind cats", "--job"],
    ),
    ("monorepo", (), ["packages/speech/job.yml:3", "packages/vision/job.yml:3"]),
    ("broken_yaml", (), ["job.yml:5: this is not YAML", "look like jobs and cannot be read"]),
    ("broken_yaml", ("--job", "job.yml"), ["job.yml:5: this is not YAML"]),
    ("spark_only", (), ["job.yml:1: a job of the type spark", "train.yml:1: a component", "--example"]),
    (
        "sdk_pipeline",
        (),
        ["pipeline.py:6: it submits by an SDK", "explore.ipynb:1: a notebook, which is not read: export it with"],
    ),
    ("sdk_v2", ("--job", "submit.py"), ["submit.py:3: it submits by an SDK of AzureML, and is not read"]),
    ("faulty_job", (), ["job.yml:2: the command refers to the input `rat`", "job.yml:5: `code` names `source`"]),
    ("bare_job", ("--job", "nothing.yml"), ["nothing.yml is no command job"]),
    ("notebook_cells", (), ["tutorial.ipynb:1: a cell writes src/main.py, and has not run: run the cell"]),
    (
        "r_script",
        (),
        ["train.R:1: a script in R, which is not read: write a job.yml with `command: Rscript train.R`"],
    ),
]


@pytest.mark.parametrize(("name", "arguments", "expected", "said"), VALID, ids=[case[0] for case in VALID])
def test_a_project_gives_a_configuration_that_validates(
    tmp_path: Path,
    init: Init,
    name: str,
    arguments: Sequence[str],
    expected: dict[str, object],
    said: Sequence[str],
) -> None:
    folder = project(tmp_path, name)
    ran = init("-C", str(folder), *arguments)
    assert ran.code == 0, ran.err
    text = (folder / "aml-train.yml").read_text()
    assert yaml.safe_load(text) == expected
    assert planned(folder)
    for words in said:
        assert words in text + ran.err, words


@pytest.mark.parametrize("uncommented", ["nested", "conda", "runconfig", "no_tests"])
def test_what_is_proposed_validates_without_its_marks(tmp_path: Path, init: Init, uncommented: str) -> None:
    folder = project(tmp_path, uncommented)
    assert init("-C", str(folder)).code == 0
    file = folder / "aml-train.yml"
    head, key, lines = re.split(r"\n(job|runconfig):", file.read_text(), maxsplit=1)
    kept = "\n".join(line.removeprefix("# ") for line in lines.splitlines())
    file.write_text(f"{head}\n{key}:{kept}\n")
    assert load_config(None, directory=folder).gate


@pytest.mark.parametrize(("name", "arguments", "said"), MISSING)
def test_otherwise_it_is_said_what_is_missing(
    tmp_path: Path, init: Init, name: str, arguments: Sequence[str], said: Sequence[str]
) -> None:
    folder = project(tmp_path, name)
    before = sorted(folder.rglob("*"))
    ran = init("-C", str(folder), *arguments)
    assert ran.code == 2
    for words in said:
        assert words in ran.err, words
    assert sorted(folder.rglob("*")) == before


R_JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: Rscript train.R
code: .
environment: {image: rocker/r-ver:4.4}
"""


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("notebook_cells", "src/main.py", "import argparse\n\nprint('training')\n"),
        ("r_script", "job.yml", R_JOB),
    ],
)
def test_the_edit_that_is_asked_for_is_enough(tmp_path: Path, init: Init, name: str, file: str, text: str) -> None:
    folder = project(tmp_path, name)
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(text)
    ran = init("-C", str(folder))
    assert ran.code == 0, ran.err
    assert planned(folder)
    assert not re.search("has not run|in R", ran.err)


def test_every_example_project_is_a_case() -> None:
    cases = {case[0] for case in (*VALID, *MISSING)}
    assert cases == {path.name for path in PROJECTS.iterdir() if path.is_dir()}


def test_an_empty_folder_says_what_is_missing_and_takes_the_example(tmp_path: Path, init: Init) -> None:
    ran = init("-C", str(tmp_path))
    assert ran.code == 2
    assert "No command job was found" in ran.err
    assert "aml-train init --example" in ran.err
    ran = init("-C", str(tmp_path), "--example", "--workflow")
    assert ran.code == 0
    config = load_config(None, directory=tmp_path)
    assert config.model is not None
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        ".github/workflows/train.yml",
        "aml-train.yml",
        "src/train.py",
        "tests/test_train.py",
    ]
    assert yaml.safe_load((tmp_path / ".github/workflows/train.yml").read_text())["jobs"]["train"]["steps"][1] == {
        "uses": "OWNER/NAME@v1",
        "with": {"target": "local"},
    }


def test_a_workflow_names_its_action_or_says_that_it_is_missing(
    tmp_path: Path, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, "bare_job")
    ran = init("-C", str(folder), "--workflow", "--dry-run")
    assert "note: .github/workflows/train.yml: fill in the repository and version" in ran.err
    assert "      - uses: OWNER/NAME@v1\n" in ran.out
    monkeypatch.setattr("aml_train.cli.init.action_reference", lambda: "octo/released@v1")
    ran = init("-C", str(folder), "--workflow", "--dry-run")
    assert "uses: octo/released@v1\n" in ran.out
    assert "ill in" not in ran.out + ran.err


def test_nothing_is_replaced_unasked(tmp_path: Path, init: Init) -> None:
    folder = project(tmp_path, "bare_job")
    file = folder / "aml-train.yml"
    file.write_text("mine")
    ran = init("-C", str(folder), "--workflow")
    assert ran.code == 2
    assert "aml-train.yml exists already; nothing was written." in ran.err
    assert file.read_text() == "mine"
    assert not (folder / ".github").exists()
    assert init("-C", str(folder), "--force").code == 0
    assert "job: job.yml" in file.read_text()
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_a_dry_run_prints_and_writes_nothing(tmp_path: Path, init: Init) -> None:
    folder = project(tmp_path, "bare_job")
    ran = init("-C", str(folder), "--dry-run", "--workflow")
    assert ran.code == 0
    assert ran.out.startswith("# aml-train.yml\n# A first configuration")
    assert "# .github/workflows/train.yml\n" in ran.out
    assert [path.name for path in folder.iterdir()] == ["job.yml"]
    alone = init("-C", str(folder), "--dry-run").out
    assert yaml.safe_load(alone) == {"job": "job.yml"}


@given(st.one_of(st.text(max_size=40), st.integers(), st.booleans()))
def test_whatever_is_written_reads_back(value: str | int) -> None:
    if isinstance(value, str) and not value.isprintable():
        return
    item = Item(key="a b: c", value=value, why="because", origin=Mark(file="x", line=3))
    text = render([Item(key="top", value=[item])])
    assert yaml.safe_load(text) == {"top": {"a b: c": value}}
    assert "\n" not in scalar(value)


def test_a_script_with_arguments_is_a_training_too(tmp_path: Path, init: Init) -> None:
    (tmp_path / "train.py").write_text("import click\n@click.argument('data')\ndef f(): ...\nf()\n")
    (tmp_path / "train_model.py").write_text("def train(): ...\n")
    assert init("-C", str(tmp_path)).code == 0
    assert load_config(None, directory=tmp_path).job.document["command"] == "python train.py DATA"


def test_data_that_an_amlignore_leaves_out_is_noted(tmp_path: Path, init: Init) -> None:
    folder = project(tmp_path, "flat_script")
    (folder / ".amlignore").write_text("data/\n")
    ran = init("-C", str(folder))
    assert ".amlignore: it leaves out what the script reads: add the line `!/data/points.csv`" in ran.err
    assert (folder / ".amlignore").read_text() == "data/\n"


def test_data_that_git_ignores_are_taken_back(tmp_path: Path, init: Init) -> None:
    folder = project(tmp_path, "flat_script")
    ignored = (folder / ".gitignore").read_text()
    assert "# .amlignore\n" in init("-C", str(folder), "--dry-run").out
    assert init("-C", str(folder)).code == 0
    assert f":\n{ignored}!/data/points.csv\n" in (folder / ".amlignore").read_text()
    assert "data/points.csv" in [entry.path for entry in FileSet.collect_code(folder).entries]


def test_environments_and_what_tools_keep_are_not_looked_into(tmp_path: Path) -> None:
    job = (PROJECTS / "bare_job" / "job.yml").read_text()
    for folder in ("venv", "tools", "node_modules", ".hidden", "env"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "job.yml").write_text(job)
    (tmp_path / "venv/pyvenv.cfg").write_text("")
    (tmp_path / "tools/conda-meta").mkdir()
    assert [document.path for document in scan(tmp_path).documents] == ["env/job.yml"]


def test_what_lies_near_comes_first() -> None:
    paths = ["requirements.txt", "a/requirements.txt", "a/b/requirements.txt", "c/requirements.txt"]
    assert sorted(paths, key=lambda path: nearness(path, "a/b")) == [paths[2], paths[1], paths[0], paths[3]]


TEST = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n"


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"tests/unit/test_a.py": TEST}, "pytest -q tests"),
        ({"tests/a_test.py": TEST}, "pytest -q tests"),
        ({"test_a.py": TEST}, "pytest -q"),
        ({"a/test_a.py": TEST, "b/test_b.py": TEST}, "pytest -q a b"),
        ({"tests/test_a.py": "print('evaluated')\n"}, None),
    ],
)
def test_a_proposed_test_command_finds_tests(
    tmp_path: Path, init: Init, files: Mapping[str, str], command: str | None
) -> None:
    for name, text in {"train.py": "print(1)\n", **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert init("-C", str(tmp_path)).code == 0
    tests = load_config(None, directory=tmp_path).tests
    assert (tests and tests.command) == command


def test_a_folder_that_cannot_be_written_is_no_fault_of_ours(
    tmp_path: Path, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    folder = project(tmp_path, "bare_job")
    monkeypatch.setattr(Path, "write_bytes", refuse)
    ran = init("-C", str(folder))
    assert (ran.code, "aml-train.yml cannot be written: Permission denied." in ran.err) == (2, True)
