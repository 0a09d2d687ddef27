"""Submit the same jobs by the SDK v1, azureml-core.

Usage: ``python submit_v1.py mpi`` or ``python submit_v1.py torch``.

Nothing in here knows whether that is Azure or the local AzureML: the environment says it.
"""

import argparse
import os
from pathlib import Path

from azure.identity import EnvironmentCredential
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.authentication import TokenAuthentication
from azureml.core.runconfig import MpiConfiguration, PyTorchConfiguration

HERE = Path(__file__).parent
# `-m mpi4py` ends all processes where one fails; the others would wait for it for ever.
KINDS = {
    "mpi": (["python", "-m", "mpi4py", "pi.py"], MpiConfiguration(process_count_per_node=2, node_count=2)),
    # PyTorchConfiguration counts the processes of all nodes.
    "torch": (["python", "train.py"], PyTorchConfiguration("Gloo", process_count=4, node_count=2)),
}


def workspace():
    """Return the workspace that the environment names."""
    credential = EnvironmentCredential()
    return Workspace.get(
        name=os.environ["AML_WORKSPACE"],
        subscription_id=os.environ["AZURE_SUBSCRIPTION_ID"],
        resource_group=os.environ["AML_RESOURCE_GROUP"],
        auth=TokenAuthentication(lambda audience: credential.get_token(f"{audience.rstrip('/')}/.default").token),
    )


def environment(name, image=None, dockerfile=None):
    """Return an environment that is an *image*, or built from a *dockerfile*."""
    found = Environment(name)
    found.docker.base_image = image
    found.docker.base_dockerfile = dockerfile
    found.python.user_managed_dependencies = True
    return found


def submit(ws, kind, *, image=None, variables=None):
    """Submit the run, and return it.

    Its environment is built from the folder's Dockerfile unless there is an *image*.
    """
    command, distribution = KINDS[kind]
    dockerfile = None if image else (HERE / kind / "Dockerfile").read_text()
    config = ScriptRunConfig(
        source_directory=str(HERE / kind / "src"),
        command=command,
        compute_target=os.environ.get("AML_COMPUTE", "cpu-cluster"),
        environment=environment(f"distributed-v1-{kind}", image, dockerfile),
        distributed_job_config=distribution,
    )
    config.run_config.environment_variables = variables or {}
    run = Experiment(ws, "distributed-v1").submit(config)
    run.display_name = f"{kind}: two nodes with two processes each"
    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--image", help="an image to take instead of the Dockerfile's")
    given = parser.parse_args()
    print(submit(workspace(), given.kind, image=given.image).id)
