"""What a user's scripts do with registries and serverless jobs, with the real SDK. See client_steps.py."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.emulator.client_steps import client, wait


def of_registry(name: str) -> Any:
    """Return an MLClient of a registry, which finds everything else by itself."""
    from azure.ai.ml import MLClient
    from azure.identity import EnvironmentCredential

    return MLClient(EnvironmentCredential(), registry_name=name)


def registry(given: dict[str, str]) -> dict[str, Any]:
    """Put an asset of each kind into a registry, read them back, share one, and use them in a serverless job."""
    from azure.ai.ml import Input, command, load_component
    from azure.ai.ml.entities import BuildContext, Data, Environment, Model, ResourceConfiguration

    own, ml, folder = of_registry(given["registry"]), client(given), Path(given["folder"], "shared")
    for name in ("context", "model", "data", "code"):
        (folder / name).mkdir(parents=True)
    (folder / "context" / "Dockerfile").write_text("FROM python:3.11\n")
    (folder / "model" / "weights.txt").write_text("w")
    (folder / "data" / "a.csv").write_text("1,2\n")
    (folder / "code" / "run.py").write_text("print(1)\n")
    conda = folder / "conda.yml"
    conda.write_text("dependencies:\n- python=3.11\n")
    image = own.environments.create_or_update(Environment(name="plain", version="1", image="python:3.11"))
    own.environments.create_or_update(
        Environment(name="built", version="1", build=BuildContext(path=str(folder / "context")))
    )
    own.environments.create_or_update(Environment(name="conda", version="1", image="a:1", conda_file=str(conda)))
    model = own.models.create_or_update(Model(name="m", version="1", path=str(folder / "model")))
    data = own.data.create_or_update(Data(name="d", version="1", path=str(folder / "data"), type="uri_folder"))
    (folder / "component.yml").write_text(
        "name: c\nversion: '1'\ntype: command\ncommand: python run.py\ncode: ./code\n"
        f"environment: azureml://registries/{given['registry']}/environments/plain/versions/1\n"
    )
    validated = ml.components.validate(load_component(folder / "component.yml"), skip_remote_validation=False)
    component = own.components.create_or_update(load_component(folder / "component.yml"))
    ml.models.create_or_update(Model(name="mine", version="3", path=str(folder / "model")))
    shared = ml.models.share(
        "mine", "3", share_with_name="theirs", share_with_version="7", registry_name=given["registry"]
    )
    own.models.download("m", "1", download_path=str(folder / "down"))
    job = command(
        command="say hello",
        environment=image.id,
        inputs={"data": Input(type="uri_folder", path=data.id), "model": Input(type="custom_model", path=model.id)},
    )
    job.resources = ResourceConfiguration(instance_type="Standard_E4s_v3", instance_count=1)
    submitted = ml.jobs.create_or_update(job)
    return {
        "ids": [one.id for one in (image, model, data, component)],
        "names": sorted(one.name for one in own.environments.list()),
        "conda": own.environments.get("conda", "1").conda_file,
        "build": own.environments.get("built", label="latest").build is not None,
        "validated": validated.passed,
        "component": own.components.get("c", "1").command,
        "shared": [
            shared.name,
            shared.version,
            own.models.get("theirs", "7").path == ml.models.get("mine", "3").path,
        ],
        "downloaded": sorted(one.name for one in (folder / "down").rglob("*.txt")),
        "compute": submitted.compute,
        "tier": submitted.queue_settings.job_tier,
        "ended": wait(ml, submitted.name)[-1],
        "registries": [one.name for one in ml.registries.list()],
    }


STEPS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {"registry": registry}


if __name__ == "__main__":
    # azure-ai-ml ends its dots of progress with no line.
    result = json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2])))
    print(f"\n{result}")
