"""What makes a job the one that a configuration gives."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aml_train.azure.identity import read_identity
from aml_train.core.answers import Answer
from aml_train.core.errors import ServiceError
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.image.spec import Tested
from aml_train.jobs.identity import identity_difference, in_one_line, job_identity, run_identity
from aml_train.jobs.snapshot import read_snapshot
from aml_train.jobs.spec import JobTemplate, make_job

PLACE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"
DIGEST = "sha256:" + "a" * 64
IMAGE = Tested(
    reference=ImageRef.parse(f"r.azurecr.io/x@{DIGEST}"),
    digest=DIGEST,
    address="a" * 64,
    how="found",
    record=None,
    compressed_bytes=0,
)
#: azure-ai-ml's hash of a file with nothing but "1,2".
UPLOAD = hashlib.sha256(b"Initialize for october 2021 AML CLI version1,2").hexdigest()
DOCUMENT: dict[str, Any] = {
    "type": "command",
    "command": "python train.py ${{inputs.data}}",
    "compute": "azureml:gpu",
    "environment_variables": {"A": "1"},
    "inputs": {
        "data": {"type": "uri_folder", "path": "azureml:images:3"},
        "here": {"type": "uri_file", "path": "some/points.csv"},
        "there": {"type": "uri_file", "path": "https://a.example/x.csv?v=1"},
        "rate": 0.1,
    },
    "distribution": {"type": "pytorch", "process_count_per_instance": 2},
    "resources": {"instance_count": 2},
}
"""In the grammar of the CLI v2; below as AzureML shows it, with what it fills in."""
SHOWN: dict[str, Any] = {
    "jobType": "Command",
    "command": "python train.py ${{inputs.data}}",
    "computeId": f"{PLACE}/computes/gpu",
    "codeId": f"{PLACE}/codes/c/versions/1",
    "environmentId": f"{PLACE}/environments/e/versions/1",
    "environmentVariables": {"A": "1"},
    "inputs": {
        "data": {"jobInputType": "uri_folder", "uri": f"{PLACE}/data/images/versions/3", "mode": "ReadOnlyMount"},
        "here": {
            "jobInputType": "uri_file",
            "uri": f"azureml://datastores/workspaceblobstore/paths/LocalUpload/{UPLOAD}/points.csv",
        },
        "there": {"jobInputType": "uri_file", "uri": "https://a.example/x.csv?v=1"},
        "rate": {"jobInputType": "literal", "value": "0.1", "description": None},
    },
    "distribution": {"distributionType": "PyTorch", "processCountPerInstance": 2},
    "resources": {"instanceCount": 2, "instanceType": None, "shmSize": "2g", "properties": {}, "dockerArgs": None},
    "services": {"Studio": {"jobServiceType": "Studio"}, "Tracking": {"jobServiceType": "Tracking"}},
    "limits": None,
}


class Rest:
    """A workspace with one code asset and one environment."""

    class cloud:  # noqa: N801
        arm = ""

    def __init__(self, content_hash: str, **environment: Any) -> None:
        self.known = {
            f"{PLACE}/codes/c/versions/1": {"properties": {"hash_sha256": content_hash}},
            f"{PLACE}/environments/e/versions/1": {"image": f"elsewhere.azurecr.io/y@{DIGEST}", **environment},
        }

    def read(self, url: str, _what: str, **_options: Any) -> Answer | None:
        return Answer({"properties": self.known[url]}, ServiceError) if url in self.known else None


@pytest.fixture
def template(tmp_path: Path) -> JobTemplate:
    (tmp_path / "train.py").write_text("pass\n")
    (tmp_path / "some").mkdir()
    (tmp_path / "some/points.csv").write_text("1,2")
    return JobTemplate(
        document={**DOCUMENT, "code": "."},
        directory=tmp_path,
        code=FileSet.collect_code(tmp_path),
        code_digest="x",
        scope="s",
        stem="train",
    )


def difference(template: JobTemplate, shown: Mapping[str, Any], rest: Rest | None = None) -> tuple[str, ...]:
    assert template.code is not None
    found: Any = rest or Rest(read_snapshot(template.code).content_hash)
    return identity_difference(
        job_identity(make_job(template, {"": IMAGE}, 1)), read_identity(found, "j", Answer(shown, ServiceError))
    )


def test_a_job_is_what_was_submitted_as_the_service_shows_it(template: JobTemplate) -> None:
    assert difference(template, SHOWN) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"command": "python other.py"}, "`command`"),
        ({"codeId": f"{PLACE}/codes/other/versions/1"}, "the code"),
        ({"codeId": None}, "the code"),
        ({"environmentId": f"{PLACE}/environments/e/versions/2"}, "the image"),
        ({"environmentVariables": {"A": "1", "PYTHONPATH": "/evil"}}, "the environment variable PYTHONPATH"),
        ({"environmentVariables": {}}, "the environment variable A"),
        ({"distribution": None}, "`distribution`"),
        ({"resources": {"instanceCount": 2, "dockerArgs": "--privileged"}}, "`resources`"),
        ({"computeId": f"{PLACE}/computes/mine"}, "`compute`"),
        ({"services": {"in": {"jobServiceType": "SSH"}}}, "`services`"),
        ({"inputs": {**SHOWN["inputs"], "data": {"uri": f"{PLACE}/data/images/versions/4"}}}, "the input data"),
        ({"inputs": {**SHOWN["inputs"], "there": {"uri": "https://a.example/x.csv?v=2"}}}, "the input there"),
        ({"inputs": {**SHOWN["inputs"], "rate": {"value": "0.2"}}}, "the input rate"),
        ({"inputs": {**SHOWN["inputs"], "more": {"value": "1"}}}, "the input more"),
        (
            {
                "inputs": {
                    **SHOWN["inputs"],
                    "here": {"uri": "azureml://datastores/mine/paths/LocalUpload/1/points.csv"},
                }
            },
            "the input here",
        ),
    ],
)
def test_each_part_that_differs_is_named(template: JobTemplate, changes: dict[str, Any], words: str) -> None:
    assert difference(template, {**SHOWN, **changes}) == (words,)


@pytest.mark.parametrize(
    "environment",
    [
        {"image": "r.azurecr.io/x:latest"},
        {"condaFile": "dependencies: [evil]"},
        {"build": {"contextUri": "https://a.blob/c/LocalUpload/1/x/"}},
    ],
)
def test_an_environment_is_the_image_alone(template: JobTemplate, environment: dict[str, Any]) -> None:
    assert template.code is not None
    rest = Rest(read_snapshot(template.code).content_hash, **environment)
    assert difference(template, SHOWN, rest) == ("the image",)


def test_code_of_another_hash_and_a_job_of_another_kind_differ(template: JobTemplate) -> None:
    assert difference(template, SHOWN, Rest("0" * 64)) == ("the code",)
    shown = {"jobType": "Sweep", "trial": SHOWN, "computeId": SHOWN["computeId"], "inputs": SHOWN["inputs"]}
    assert difference(template, shown) == ("`type`", "`objective`", "`sampling_algorithm`")


@pytest.mark.parametrize(
    ("environment", "shown", "same"),
    [
        ("azureml:e:1", {}, True),
        ("azureml:e:2", {}, False),
        ("azureml:e@latest", {}, True),
        ("azureml:f@latest", {}, False),
        ({"image": "python:3.11"}, {"image": "python:3.11"}, True),
        ({"image": "python:3.11"}, {"image": "python:3.12"}, False),
        (
            {"image": "p", "conda_file": {"dependencies": ["a"]}},
            {"image": "p", "condaFile": "dependencies:\n- a\n"},
            True,
        ),
        ({"image": "p", "conda_file": {"dependencies": ["a"]}}, {"image": "p"}, False),
    ],
)
def test_an_environment_that_the_job_names_itself(
    template: JobTemplate, environment: Any, shown: dict[str, Any], same: bool
) -> None:
    assert template.code is not None
    job = make_job(replace(template, document={**template.document, "environment": environment}), {}, 1)
    rest: Any = Rest(read_snapshot(template.code).content_hash, **shown)
    found = read_identity(rest, "j", Answer(SHOWN, ServiceError))
    assert identity_difference(job_identity(job), found) == (() if same else ("the image",))


SPEC: dict[str, Any] = {
    "type": "command",
    "command": "python train.py ${{inputs.rate}}",
    "environment": f"azureml:{PLACE}/environments/e/versions/1",
    "inputs": {"rate": {"type": "number", "optional": "False"}, "seed": {"type": "integer", "default": "7"}},
    "resources": {"instance_count": "1"},
}
NODE: dict[str, Any] = {
    "type": "command",
    "name": "train",
    "componentId": f"{PLACE}/components/azureml_anonymous/versions/v",
    "environment_variables": {"E": "1"},
    "inputs": {"rate": {"job_input_type": "literal", "value": "${{parent.inputs.rate}}"}},
    "_source": "YAML.COMPONENT",
}


@pytest.mark.parametrize(
    ("node", "spec", "words"),
    [
        ({}, {}, ()),
        ({}, {"command": "python other.py"}, ("`command` of the node train",)),
        ({}, {"code": f"azureml:{PLACE}/codes/c/versions/1"}, ("the code of the node train",)),
        ({}, {"environment": f"azureml:{PLACE}/environments/e/versions/2"}, ("the image of the node train",)),
        ({"environment_variables": {"E": "2"}}, {}, ("the environment variable E of the node train",)),
        ({"resources": {"docker_args": "--privileged"}}, {}, ("`resources` of the node train",)),
        ({"computeId": f"{PLACE}/computes/mine"}, {}, ("`compute` of the node train",)),
        (
            {},
            {"inputs": {**SPEC["inputs"], "seed": {"type": "integer", "default": "8"}}},
            ("the input seed of the node train",),
        ),
    ],
)
def test_a_pipeline_is_its_nodes(
    tmp_path: Path, node: dict[str, Any], spec: dict[str, Any], words: tuple[str, ...]
) -> None:
    component = {
        "type": "command",
        "command": SPEC["command"],
        "inputs": {"rate": {"type": "number"}, "seed": {"type": "integer", "default": 7}},
    }
    given = {"type": "command", "component": component, "environment_variables": {"E": "1"}}
    document = {
        "type": "pipeline",
        "inputs": {"rate": 0.5},
        "settings": {"default_compute": "azureml:gpu"},
        "jobs": {"train": {**given, "inputs": {"rate": "${{parent.inputs.rate}}"}}},
    }
    place = ("jobs", "train", "component")
    template = JobTemplate(
        document=document, directory=tmp_path, code_digest=None, scope="s", stem="t", places=(place,)
    )
    rest: Any = Rest("0")
    rest.known[NODE["componentId"]] = {"isAnonymous": True, "componentSpec": {**SPEC, **spec}}
    shown = {
        "jobType": "Pipeline",
        "inputs": {"rate": {"jobInputType": "literal", "value": "0.5"}},
        "settings": {"default_compute": f"{PLACE}/computes/gpu", "_source": "YAML.JOB"},
        "jobs": {"train": {**NODE, **node}},
    }
    found = read_identity(rest, "j", Answer(shown, ServiceError))
    assert identity_difference(job_identity(make_job(template, {"": IMAGE}, 1)), found) == words


RUN: dict[str, Any] = {
    "script": "train.py",
    "arguments": ["--rate", "0.1"],
    "target": "gpu",
    "environment": {
        "name": "aml-train-a",
        "environmentVariables": {"A": "1"},
        "python": {"userManagedDependencies": True, "interpreterPath": "python"},
        "docker": {"baseImage": f"r.azurecr.io/x@{DIGEST}"},
    },
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {
                "framework": "Python",
                "communicator": "None",
                "nodeCount": 1,
                "command": "",
                "environmentVariables": {},
            },
            (),
        ),
        ({"script": "other.py"}, ("`script`",)),
        ({"arguments": ["--rate", "0.2"]}, ("`arguments`",)),
        ({"nodeCount": 2}, ("`distribution`",)),
        ({"environmentVariables": {"B": "2"}}, ("the environment variable B",)),
        ({"docker": {"arguments": ["--privileged"]}}, ("`resources`",)),
        ({"data": {"d": {"dataLocation": {"uri": {"path": "https://x"}}}}}, ("the input d",)),
        ({"environment": {**RUN["environment"], "docker": {"baseImage": "other"}}}, ("the image",)),
    ],
)
def test_a_run_of_the_sdk_v1(changes: dict[str, Any], words: tuple[str, ...]) -> None:
    expected = run_identity(RUN, "0", Path())
    assert identity_difference(expected, run_identity({**RUN, **changes}, "0", Path(), shown=True)) == words
    assert identity_difference(expected, run_identity(RUN, "1", Path(), shown=True)) == ("the code",)


def test_long_differences_are_one_short_line() -> None:
    assert in_one_line([f"{'x' * 300}{number}\n" for number in range(9)]).endswith(" and 5 more")
    assert len(in_one_line(["y" * 300] * 9)) < 500
