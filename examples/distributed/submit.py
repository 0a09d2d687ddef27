"""Submit a job on two nodes with two processes each.

Usage: ``python submit.py mpi`` or ``python submit.py torch``.

Nothing in here knows whether that is Azure or the local AzureML: the environment says it.
"""

import argparse
import os
from pathlib import Path

from azure.ai.ml import MLClient, MpiDistribution, PyTorchDistribution, command
from azure.ai.ml.entities import BuildContext, Environment
from azure.identity import EnvironmentCredential

HERE = Path(__file__).parent
# `-m mpi4py` ends all processes where one fails; the others would wait for it for ever.
KINDS = {
    "mpi": ("python -m mpi4py pi.py", MpiDistribution(process_count_per_instance=2)),
    "torch": ("python train.py", PyTorchDistribution(process_count_per_instance=2)),
}


def client():
    """Return the workspace that the environment names."""
    return MLClient(
        EnvironmentCredential(),
        os.environ["AZURE_SUBSCRIPTION_ID"],
        os.environ["AML_RESOURCE_GROUP"],
        os.environ["AML_WORKSPACE"],
    )


def submit(ml, kind, *, image=None, variables=None):
    """Submit the job, and return it.

    Its environment is built from the folder's Dockerfile unless there is an *image*.
    """
    line, distribution = KINDS[kind]
    build = None if image else BuildContext(path=str(HERE / kind))
    job = command(
        code=str(HERE / kind / "src"),
        command=line,
        distribution=distribution,
        instance_count=2,
        environment=Environment(name=f"distributed-{kind}", image=image, build=build),
        environment_variables=variables or {},
        compute=os.environ.get("AML_COMPUTE", "cpu-cluster"),
        experiment_name="distributed",
        display_name=f"{kind}: two nodes with two processes each",
    )
    return ml.jobs.create_or_update(job)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--image", help="an image to take instead of the Dockerfile's")
    given = parser.parse_args()
    print(submit(client(), given.kind, image=given.image).name)
