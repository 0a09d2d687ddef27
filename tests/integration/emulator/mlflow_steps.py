"""What an ordinary MLflow script does, by mlflow-skinny 2 and 3 with azureml-mlflow; it knows nothing of the emulator.

Run by tests/integration/emulator/test_mlflow.py in an environment of each major version.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import mlflow.pyfunc
from mlflow.exceptions import MlflowException


class Doubled(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """A model that is quickly trained."""

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # MLflow reads types as a schema
        """Return twice the input."""
        return model_input * 2


def saved(given: dict[str, str], name: str) -> str:
    """Save the model and return its folder."""
    path = Path(given["folder"]) / f"{name}-{mlflow.__version__}"
    mlflow.pyfunc.save_model(str(path), python_model=Doubled(), pip_requirements=["mlflow-skinny"])
    return str(path)


def predicted(uri: str) -> list[float]:
    """Load a model and return what it predicts of 1 and 2."""
    import pandas  # type: ignore[import-untyped]

    found = mlflow.pyfunc.load_model(uri).predict(pandas.DataFrame({"x": [1.0, 2.0]}))
    return [float(value) for value in found["x"]]


def registry(given: dict[str, str]) -> dict[str, Any]:
    """Register a model of a run and one of this machine, and load both in every way there is."""
    client, name = mlflow.MlflowClient(), given["name"]
    with mlflow.start_run() as run:
        mlflow.log_artifacts(saved(given, "of-run"), "model")
    # MLflow 3 looks for logged models below runs:/, which AzureML does not have.
    root = f"runs:/{run.info.run_id}" if mlflow.__version__.startswith("2.") else run.info.artifact_uri
    first = mlflow.register_model(f"{root}/model", name, tags={"from": "run"})
    second = mlflow.register_model(f"file://{saved(given, 'of-machine')}", name)
    client.set_registered_model_alias(name, "best", "1")
    client.transition_model_version_stage(name, "1", "Production")
    client.update_registered_model(name, "a doubling")
    client.update_model_version(name, "2", "of this machine")
    client.set_registered_model_tag(name, "kind", "toy")
    client.set_model_version_tag(name, "2", "checked", "yes")
    client.set_model_version_tag(name, "2", "gone", "yes")
    client.delete_model_version_tag(name, "2", "gone")
    uris = {suffix: f"models:/{name}{suffix}" for suffix in ("/1", "/2", "/latest", "@best", "/Production")}
    found = client.search_model_versions(f"name = '{name}' and tags.checked = 'yes'")
    models = client.search_registered_models(f"name = '{name}'", order_by=["name ASC"])
    files = mlflow.artifacts.download_artifacts(f"models:/{name}/1")
    predictions = {suffix: predicted(uri) for suffix, uri in uris.items()}
    client.delete_model_version(name, "1")
    return {
        "versions": [first.version, second.version],
        "predictions": predictions,
        "files": sorted(path.name for path in Path(files).iterdir()),
        "found": [[one.version, dict(one.tags), one.description] for one in found],
        "models": [[one.name, one.description, dict(one.tags)] for one in models],
        "left": [one.version for one in client.search_model_versions(f"name = '{name}'")],
    }


def search(given: dict[str, str]) -> dict[str, Any]:
    """Search experiments and runs, and log without waiting."""
    client = mlflow.MlflowClient()
    experiment = mlflow.set_experiment(f"search-{given['name']}")
    client.set_experiment_tag(experiment.experiment_id, "mine", given["name"])
    ids = {}
    for name, value in (("low", 1.0), ("nan", math.nan), ("high", 2.0), ("missing", None)):
        with mlflow.start_run(run_name=name) as run:
            ids[name] = run.info.run_id
            if value is not None:
                mlflow.log_metric("m", value, synchronous=False).wait()

    def names(**asked: Any) -> list[str]:
        return [run.info.run_name for run in client.search_runs([experiment.experiment_id], **asked)]

    listed = sorted(names(filter_string=f"attributes.run_id IN ('{ids['low']}', '{ids['high']}')"))
    stages = []
    for move in (client.delete_experiment, client.restore_experiment):
        move(experiment.experiment_id)
        stages.append(client.get_experiment(experiment.experiment_id).lifecycle_stage)
    return {
        "stages": stages,
        "up": names(order_by=["metrics.m ASC"]),
        "down": names(order_by=["metrics.m DESC"]),
        "listed": listed,
        "experiments": [
            one.name == experiment.name
            for one in client.search_experiments(filter_string=f"tags.mine = '{given['name']}'")
        ],
    }


def logged_models(given: dict[str, str]) -> dict[str, Any]:
    """Log a model as MLflow 3 does, which AzureML does not know."""
    with mlflow.start_run() as run:
        try:
            mlflow.pyfunc.log_model(name="model", python_model=Doubled(), pip_requirements=["mlflow-skinny"])
        except (MlflowException, TypeError) as error:
            return {"refused": str(error)}
    return {"run": run.info.run_id}


STEPS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {
    step.__name__: step for step in (registry, search, logged_models)
}

if __name__ == "__main__":
    arguments = json.loads(sys.argv[2])
    os.environ.setdefault("MLFLOW_TRACKING_REQUEST_MAX_RETRIES", "2")
    mlflow.set_tracking_uri(arguments["tracking"])
    mlflow.set_experiment("mlflow")
    print(json.dumps({"mlflow": mlflow.__version__, **STEPS[sys.argv[1]](arguments)}))
