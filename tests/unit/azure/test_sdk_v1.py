"""What azureml-core is given. What it makes of it is tried with azureml-core itself: tests/integration/pipeline/test_sdk_v1.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aml_train.azure.sdk_v1 import run_configuration
from aml_train.core.errors import InvalidError
from aml_train.core.references import ImageRef
from aml_train.image.spec import Given, Tested
from aml_train.jobs.spec import JobTemplate, job_name, make_job

DIGEST = "sha256:" + "a" * 64
TESTED = Tested(
    reference=ImageRef.parse(f"amllocal.azurecr.io/digits@{DIGEST}"),
    digest=DIGEST,
    address="0123456789abcdef" * 4,
    how="found",
    compressed_bytes=0,
    record=None,
)


def template(runconfig: dict[str, Any] | None, **document: Any) -> JobTemplate:
    return JobTemplate(
        document={"command": "python train.py", "compute": "azureml:gpu", **document},
        directory=Path("/project"),
        code_digest=None,
        scope="azure",
        stem="digits",
        runconfig=runconfig,
    )


def test_our_image_takes_the_place_of_the_environment() -> None:
    given = {
        "script": "train.py",
        "target": "other",
        "environment": {
            "name": "mine",
            "environmentVariables": {"A": "1"},
            "python": {
                "userManagedDependencies": True,
                "interpreterPath": "/opt/python",
                "condaDependenciesFile": "c.yml",
            },
            "docker": {"baseImage": "x", "shmSize": "8g", "baseImageRegistry": {"address": "elsewhere.io"}},
        },
    }
    values = run_configuration(make_job(template(given), TESTED, 1))
    assert values == {
        "script": "train.py",
        "target": "gpu",
        "environment": {
            "name": "aml-train-0123456789abcdef0123",
            "environmentVariables": {"A": "1"},
            "python": {"userManagedDependencies": True, "interpreterPath": "/opt/python"},
            "docker": {"shmSize": "8g", "baseImage": f"amllocal.azurecr.io/digits@{DIGEST}"},
        },
    }


def test_the_environment_stays_where_there_is_no_image() -> None:
    given = {"script": "train.py", "environment": {"python": {"condaDependenciesFile": "conda.yml"}}}
    values = run_configuration(make_job(template(given), Given(environment="x"), 1))
    assert values["environment"] == {
        "name": "aml-train-given",
        "python": {"condaDependenciesFile": "/project/conda.yml"},
    }


def test_the_nodes_are_those_of_the_job_wherever_the_file_says_them() -> None:
    given = {"script": "train.py", "pytorch": {"nodeCount": 2, "processCount": 4}}
    values = run_configuration(make_job(template(given, resources={"instance_count": 2}), Given(environment="x"), 1))
    assert values["nodeCount"] == 2
    assert values["pytorch"] == {"nodeCount": 2, "processCount": 4}


def test_an_environment_is_always_said() -> None:
    """Without the key azureml-core 1.61 forgets everything else (``RunConfiguration._check_old_config``)."""
    values = run_configuration(make_job(template({"script": "train.py"}), Given(environment="x"), 1))
    assert values["environment"] == {"name": "aml-train-given"}


def test_a_compute_is_needed() -> None:
    job = make_job(template({"script": "train.py"}, compute=None), TESTED, 1)
    with pytest.raises(InvalidError, match="names no compute of the workspace"):
        run_configuration(job)


def test_what_another_sdk_submits_is_another_job() -> None:
    names = {
        job_name(template(runconfig), TESTED, 1)
        for runconfig in (None, {"script": "train.py"}, {"script": "train.py", "history": {"snapshotProject": True}})
    }
    assert len(names) == 3
