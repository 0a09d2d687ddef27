"""azure-ai-ml itself loads the jobs that our grammar calls good, as they are and as we hand them on."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import yaml

from aml_train.config.load import load_config
from tests.unit.config.good_jobs import good_jobs, write_job_folder

JOBS = good_jobs()


@pytest.mark.parametrize("text", JOBS.values(), ids=JOBS.keys())
def test_azure_ai_ml_loads_the_job(text: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # azure-ai-ml marks features as experimental, and its imports as deprecated
        from azure.ai.ml import load_job  # takes seconds: only for this test

        write_job_folder(tmp_path)
        file = tmp_path / "job.yml"
        file.write_text(text, encoding="utf-8")
        document = load_config(None, directory=tmp_path).job.document
        load_job(file)
        file.write_text(yaml.safe_dump(dict(document)), encoding="utf-8")
        load_job(file)
