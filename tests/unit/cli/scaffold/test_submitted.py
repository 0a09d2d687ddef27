"""Jobs that Python files submit, read without running them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aml_train.cli.scaffold.code_reader import Submission
from aml_train.cli.scaffold.draft import Item
from aml_train.cli.scaffold.project import scan
from aml_train.cli.scaffold.submitted import is_submitter, pipelines, submissions

V2 = "from azure.ai.ml import Input, MLClient, command\nfrom azure.ai.ml.entities import BuildContext, Data, Environment\n"
V1 = "from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace\nws = Workspace.from_config()\n"


def found(folder: Path, text: str, files: Mapping[str, str] | None = None) -> Submission:
    for path, content in {"jobs/submit.py": text, "src/train.py": "", "data/a.csv": "x", **(files or {})}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    (one,) = submissions(scan(folder))
    return one


def values(items: Any) -> Any:
    if isinstance(items, Item):
        return values(items.value)
    if isinstance(items, list | tuple) and any(isinstance(one, Item) for one in items):
        return {one.key: values(one.value) for one in items}
    return items


def test_a_command(tmp_path: Path) -> None:
    one = found(
        tmp_path,
        V2
        + """
from pathlib import Path
ROOT = Path(__file__).parent.parent
NAME = "gpu"
job = command(
    code=ROOT / "src",
    command='''python train.py
        --epochs ${{inputs.epochs}} --data ${{inputs.data}} --out ${{outputs.model}}''',
    inputs=dict(epochs=3, data=Input(type="uri_file", path=str(ROOT / "data" / "a.csv"))),
    outputs={"model": {"type": "uri_folder"}},
    environment_variables={"A": "1"},
    compute=f"{NAME}-cluster",
    distribution={"type": "PyTorch", "process_count_per_instance": 4},
    instance_count=2,
    shm_size="8g",
)
""",
    )
    assert values(list(one.items)) == {
        "command": "python train.py --epochs ${{inputs.epochs}} --data ${{inputs.data}} --out ${{outputs.model}}",
        "code": "src",
        "compute": "azureml:gpu-cluster",
        "inputs": {"epochs": 3, "data": {"type": "uri_file", "path": "data/a.csv"}},
        "outputs": {"model": {"type": "uri_folder"}},
        "environment_variables": {"A": "1"},
        "distribution": {"type": "pytorch", "process_count_per_instance": 4},
        "resources": {"instance_count": 2, "shm_size": "8g"},
    }
    assert one.mark.where == "jobs/submit.py:7"
    assert one.notes == ()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('"AzureML-sklearn-1.5@latest"', {"name": "azureml:AzureML-sklearn-1.5@latest"}),
        ('"azureml:training-env:latest"', {"name": "azureml:training-env@latest"}),
        ('client.environments.get("tools", version="3")', {"name": "azureml:tools:3"}),
        ('Environment(image="python:3.12", conda_file="conda.yml")', {"base": "python:3.12", "conda": "conda.yml"}),
        ('Environment(build=BuildContext(path="docker"))', {"dockerfile": "docker/Dockerfile"}),
        (
            'Environment(image="i", conda_file={"dependencies": ["python=3.10", "scikit-learn=1.5", {"pip": ["pyyaml"]}]})',
            {"base": "i", "pip": ("scikit-learn==1.5.*", "pyyaml"), "python": "3.10"},
        ),
        (
            'Environment(image="i", conda_file={"dependencies": ["nobody-knows-it", {"pip": ["pyyaml"]}]})',
            {"base": "i"},
        ),
    ],
)
@pytest.mark.parametrize("variable", [False, True])
def test_an_environment(tmp_path: Path, expression: str, expected: dict[str, str], *, variable: bool) -> None:
    (tmp_path / "conda.yml").write_text("dependencies: [python=3.12]\n")
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/Dockerfile").write_text("FROM python:3.12\n")
    lead = (
        f"env = client.environments.create_or_update({expression})\n"
        if "Environment(" in expression
        else f"env = {expression}\n"
    )
    call = f"command(command='python src/train.py', code='.', environment={'env' if variable else expression})\n"
    environment = found(tmp_path, V2 + (lead if variable else "") + call).environment
    parts = {
        name: value[1]
        for name in ("name", "base", "conda", "pip", "python", "dockerfile")
        if (value := getattr(environment, name)) is not None
    }
    assert parts == expected


def test_an_environment_of_the_same_file_by_its_name(tmp_path: Path) -> None:
    text = """
env = Environment(name="tools", image="python:3.12")
env = client.environments.create_or_update(env)
command(command="python train.py", code="../src", environment=f"{env.name}:{env.version}")
command
"""
    assert found(tmp_path, V2 + text.replace("{env.name}:{env.version}", "tools@latest")).environment.base is not None


@pytest.mark.parametrize(
    ("expression", "path", "kind"),
    [
        ('Input(path="azureml:a:1")', "azureml:a:1", "uri_file"),
        ('Input(type="uri_folder", path=client.data.get(name="a", version="2").path)', "azureml:a:2", "uri_folder"),
        ('client.data.get("a", label="latest")', "azureml:a@latest", "uri_file"),
        ('Input(type="mltable", path="azureml:b@latest")', "azureml:b@latest", "mltable"),
        ('Input(path="https://example.com/a.csv")', "https://example.com/a.csv", "uri_file"),
        ('Input(path="../data")', "data", "uri_folder"),
        ("Input(path=wherever())", "azureml:NAME@latest", "uri_folder"),
    ],
)
def test_data(tmp_path: Path, expression: str, path: str, kind: str) -> None:
    one = found(
        tmp_path,
        V2 + f"command(command='python train.py ${{{{inputs.x}}}}', code='../src', inputs={{'x': {expression}}})\n",
    )
    assert values(list(one.items))["inputs"]["x"] == {"type": kind, "path": path}


def test_data_that_another_file_registers_is_its_local_path(tmp_path: Path) -> None:
    register = V2 + "Data(name='a', path='data/a.csv')\n"
    text = (
        V2
        + "command(command='python train.py ${{inputs.x}}', code='../src', inputs={'x': Input(path='azureml:a:1')})\n"
    )
    one = found(tmp_path, text, {"register.py": register})
    assert values(list(one.items))["inputs"]["x"] == {"type": "uri_file", "path": "data/a.csv"}


def test_what_only_running_it_would_show_is_noted(tmp_path: Path) -> None:
    one = found(
        tmp_path,
        V2 + "command(\n command='python train.py',\n code=find(),\n compute=pick(),\n environment=build())\n",
    )
    assert one.notes == (
        "jobs/submit.py:5: the folder of the code is not known before this runs: check `code`",
        "jobs/submit.py:7: the environment is not known before this runs: check `image`",
    )
    compute = next(item for item in one.items if item.key == "compute")
    assert compute.why.startswith("a guess: ")


def test_attributes_that_are_set_later_count(tmp_path: Path) -> None:
    text = (
        V2
        + "job = command(command='python train.py', code='../src')\njob.compute = 'late'\njob.set_resources(instance_count=3)\n"
    )
    found_values = values(list(found(tmp_path, text).items))
    assert found_values["compute"] == "azureml:late"
    assert found_values["resources"] == {"instance_count": 3}


def test_a_script_run_config(tmp_path: Path) -> None:
    text = (
        V1
        + """
from azureml.core import Dataset
from azureml.core.conda_dependencies import CondaDependencies
env = Environment("points")
env.python.conda_dependencies = CondaDependencies.create(pip_packages=["pyyaml", "azureml-defaults"])
config = ScriptRunConfig(
    source_directory="../src",
    script="train.py",
    arguments=["--data", Dataset.get_by_name(ws, name="a").as_mount(), "--rate", 0.1, "--seed", make(), "--tag", "", "--name", "a b"],
)
config.run_config.target = ws.compute_targets["big"]
config.run_config.environment = env
"""
    )
    one = found(tmp_path, text)
    assert values(list(one.items)) == {
        "command": "python train.py --data ${{inputs.data_1}} --rate 0.1 --name 'a b'",
        "code": "src",
        "compute": "azureml:big",
        "inputs": {"data_1": {"type": "uri_folder", "path": "azureml:a@latest"}},
    }
    assert one.environment.pip is not None
    assert one.environment.pip[1] == ("pyyaml", "azureml-defaults")
    assert one.notes == (
        "jobs/submit.py:11: the argument --seed is not known before this runs: add it to the command",
        "jobs/submit.py:11: the argument --tag is not known before this runs: add it to the command",
    )


def test_an_estimator(tmp_path: Path) -> None:
    text = """from azureml.train.dnn import PyTorch
from azureml.core.runconfig import MpiConfiguration
PyTorch(source_directory="../src", entry_script="train.py", script_params={"--epochs": 2}, compute_target="gpu",
        node_count=2, distributed_training=MpiConfiguration(), pip_packages=["tqdm"])
"""
    one = found(tmp_path, text)
    assert values(list(one.items)) == {
        "command": "python train.py --epochs 2",
        "code": "src",
        "compute": "azureml:gpu",
        "distribution": {"type": "mpi"},
        "resources": {"instance_count": 2},
    }
    assert one.environment.pip is not None


def test_curated_and_conda_environments_of_v1(tmp_path: Path) -> None:
    curated = "env = ws.environments['AzureML-PyTorch-1.6-CPU']\nScriptRunConfig(source_directory='../src', script='train.py', environment=env)\n"
    assert found(tmp_path, V1 + curated).environment.name is not None
    (tmp_path / "conda.yml").write_text("dependencies: [python=3.10]\n")
    conda = (
        "env = Environment.from_conda_specification('e', 'conda.yml')\n"
        "ScriptRunConfig('../src', 'train.py', environment=env)\n"
    )
    environment = found(tmp_path, V1 + conda).environment
    assert environment.conda is not None
    assert environment.conda[1] == "conda.yml"


def test_submitters_and_training_scripts_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "submit.py").write_text(V2 + "MLClient(None)\n")
    (tmp_path / "run.py").write_text(V1 + "Experiment(ws, 'x').submit(None)\n")
    (tmp_path / "train.py").write_text("from azureml.core import Run, Workspace\nRun.get_context().log('x', 1)\n")
    (tmp_path / "steps.py").write_text(
        "from azureml.pipeline.steps import PythonScriptStep\nstep = PythonScriptStep(script_name='a.py')\n"
    )
    files = {file.path: file for file in scan(tmp_path).scripts}
    assert {path: is_submitter(file) for path, file in files.items()} == {
        "run.py": True,
        "steps.py": False,
        "submit.py": True,
        "train.py": False,
    }
    assert [(mark.where, sdk) for mark, sdk in pipelines(scan(tmp_path))] == [("steps.py:2", "azureml-core")]


def test_code_that_cannot_be_parsed_has_no_job(tmp_path: Path) -> None:
    (tmp_path / "submit.py").write_text(V2 + "print 'x'\ncommand(command='python train.py')\n")
    assert submissions(scan(tmp_path)) == []
