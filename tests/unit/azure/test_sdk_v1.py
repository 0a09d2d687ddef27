"""What azureml-core is given. What it makes of it is tried with azureml-core itself: tests/integration/pipeline/test_sdk_v1.py."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from aml_train.azure import sdk_v1
from aml_train.core.errors import InvalidError
from aml_train.core.references import ImageRef
from aml_train.core.threads import CancelToken
from aml_train.image.spec import Tested
from aml_train.jobs.spec import JobSpec, JobTemplate, job_name, make_job, run_configuration
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView

DIGEST = "sha256:" + "a" * 64
TESTED = Tested(
    reference=ImageRef.parse(f"amllocal.azurecr.io/digits@{DIGEST}"),
    digest=DIGEST,
    address="0123456789abcdef" * 4,
    how="found",
    compressed_bytes=0,
    record=None,
)


class Rest:
    """A workspace in which each run is there once it was submitted."""

    def __init__(self) -> None:
        self.runs: dict[str, JobView] = {}

    def find(self, name: str) -> JobView | None:
        return self.runs.get(name)


def test_two_submissions_at_once_leave_the_working_directory_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """azureml-core changes to the folder of the code, and back to the one before."""
    rest = Rest()
    inside, left = threading.Event(), threading.Event()

    def pack(_rest: Any, job: JobSpec, _file: Path, folder: Path) -> None:
        before = Path.cwd()
        os.chdir(folder)
        # Without a lock the second one begins in the folder of the first, and goes back to it when that is gone.
        (left if inside.is_set() else inside).wait(0.3)
        inside.set()
        os.chdir(before)
        left.set()
        rest.runs[job.name] = JobView(
            name=job.name, status=JobStatus.QUEUED, tags=job.document["tags"], properties=job.document["properties"]
        )

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sdk_v1, "_load", lambda: None)
    monkeypatch.setattr(sdk_v1, "_submit", pack)
    jobs = [make_job(template({"script": "train.py", "seed": number}), {"": TESTED}, 1) for number in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: sdk_v1.submit(cast("Any", rest), job, CancelToken()), jobs))
    assert Path.cwd() == tmp_path


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
    values = run_configuration(make_job(template(given), {"": TESTED}, 1))
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
    values = run_configuration(make_job(template(given), {}, 1))
    assert values["environment"] == {
        "name": "aml-train-given",
        "python": {"condaDependenciesFile": "/project/conda.yml"},
    }


def test_the_nodes_are_those_of_the_job_wherever_the_file_says_them() -> None:
    given = {"script": "train.py", "pytorch": {"nodeCount": 2, "processCount": 4}}
    values = run_configuration(make_job(template(given, resources={"instance_count": 2}), {}, 1))
    assert values["nodeCount"] == 2
    assert values["pytorch"] == {"nodeCount": 2, "processCount": 4}


def test_an_environment_is_always_said() -> None:
    """Without the key azureml-core 1.61 forgets everything else (``RunConfiguration._check_old_config``)."""
    values = run_configuration(make_job(template({"script": "train.py"}), {}, 1))
    assert values["environment"] == {"name": "aml-train-given"}


def test_a_compute_is_needed() -> None:
    job = make_job(template({"script": "train.py"}, compute=None), {"": TESTED}, 1)
    with pytest.raises(InvalidError, match="names no compute of the workspace"):
        run_configuration(job)


def test_what_another_sdk_submits_is_another_job() -> None:
    names = {
        job_name(template(runconfig), {"": TESTED}, 1)
        for runconfig in (None, {"script": "train.py"}, {"script": "train.py", "history": {"snapshotProject": True}})
    }
    assert len(names) == 3
