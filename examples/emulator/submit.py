"""Submit the training to the AzureML workspace that the environment names."""

import os
from pathlib import Path

from azure.ai.ml import MLClient, command
from azure.ai.ml.entities import Environment
from azure.identity import EnvironmentCredential


def client():
    """Return the workspace that the environment names."""
    return MLClient(
        EnvironmentCredential(),
        os.environ["AZURE_SUBSCRIPTION_ID"],
        os.environ["AML_RESOURCE_GROUP"],
        os.environ["AML_WORKSPACE"],
    )


def submit(ml, epochs):
    """Submit one training of so many epochs, and return the job."""
    job = command(
        code=str(Path(__file__).with_name("src")),
        command="python train.py --epochs ${{inputs.epochs}}",
        inputs={"epochs": epochs},
        environment=Environment(image="python:3.11-slim-bookworm"),
        compute=os.environ.get("AML_COMPUTE", "cpu-cluster"),
        experiment_name="example",
    )
    return ml.jobs.create_or_update(job)


if __name__ == "__main__":
    print(submit(client(), epochs=3).name)
