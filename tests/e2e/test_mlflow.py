"""MLflow in a job as on Azure: nothing is set up in the script, autolog works, an MLflow model is registered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Local

TRAIN = """\
import mlflow
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

mlflow.sklearn.autolog(log_models=False)
features, labels = load_digits(return_X_y=True)
with mlflow.start_run() as run:
    model = LogisticRegression(max_iter=200).fit(features / 16, labels)
    mlflow.set_tag("phase", "train")
    mlflow.log_metric("loss", float("nan"), step=0)
    mlflow.log_metric("loss", 0.25, step=1)
    mlflow.log_text("a note", "notes/note.txt")
    mlflow.sklearn.save_model(model, "outputs/model", serialization_format="cloudpickle")
print("run", run.info.run_id)
"""

JOB = """\
experiment_name: autolog
code: src
command: python autolog.py
"""

CONFIG = """\
job: job.yml
image:
  base: python:3.11-slim-bookworm
  pip: {requirements: requirements.txt, packages: [pandas]}
  azureml-mlflow: "1.62.0.post6"
gate:
  training_accuracy_score: [">= 0.9", "<= 1"]
  loss: ["<= 0.25"]
model: {name: autolog, path: outputs/model, type: mlflow_model}
"""


@pytest.mark.full
def test_autolog_logs_to_the_jobs_own_run(local: Local, digits: Path) -> None:
    (digits / "src" / "autolog.py").write_text(TRAIN)
    (digits / "job.yml").write_text(JOB)
    (digits / "aml-train.yml").write_text(CONFIG)
    ended = local.run(digits)
    assert ended.code == 0, ended.output
    job = ended.only("job-submitted")["job"]
    assert f"run {job}" in [line["text"] for line in ended.of("log-line") if line["source"] == "job"]
    metrics = ended.only("metrics-settled")["metrics"]
    assert metrics["loss"] == 0.25
    assert 0.9 <= metrics["training_accuracy_score"] <= 1
    assert (ended.only("model-registered")["model"], ended.only("model-registered")["version"]) == ("autolog", "1")
