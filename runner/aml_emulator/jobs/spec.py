"""From a job as submitted to the RunSpec that the executor gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aml_emulator.errors import NotSupportedError, bad_request
from aml_emulator.executor.spec import Folder, InputSpec, OutputSpec, RunSpec
from aml_emulator.jobs.check import INPUT_KINDS, given_inputs, shm_bytes, timeout_seconds
from aml_emulator.locations import AssetId, LocationError, parse
from aml_emulator.services import Services
from aml_emulator.store.runs import Run


def image_of(services: Services, environment_id: str) -> str:
    """Return the image of an environment.

    Raises:
        ServiceError: 404 if it is not there; 501 if it would have to be built, or belongs to a registry.
    """
    if environment_id.lower().startswith("azureml://registries/"):
        raise NotSupportedError(f"environments of registries ({environment_id}); name an image instead")
    try:
        location = parse(environment_id)
    except LocationError as error:
        raise bad_request(f"The job's environment: {error}") from error
    if not isinstance(location, AssetId) or location.kind not in ("", "environments"):
        raise bad_request(f"The job's environment is not one: '{environment_id}'")
    environment = services.store.assets.version("environments", location.name, location.version)
    if environment is None:
        raise bad_request(f"The environment '{location.name}:{location.version}' was not found.")
    for key, what in (("build", "a build context"), ("condaFile", "a conda file"), ("autoRebuild", "autoRebuild")):
        if environment.properties.get(key) and environment.properties[key] != "Disabled":
            raise NotSupportedError(
                f"building images: environment '{location.name}:{location.version}' has {what}"
                " ('image' alone can be run; build it and name the image)"
            )
    image = environment.properties.get("image")
    if not image:
        raise bad_request(f"The environment '{location.name}:{location.version}' has no image.")
    return str(image)


def compute_of(job: Mapping[str, Any]) -> str:
    """Return the name of the compute target that a job is for."""
    return str(job["computeId"]).rstrip("/").rpartition("/")[2]


def place_outputs(services: Services, run_id: str, job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return where each named output of a job will lie, for the store.

    An output without a uri lies where AzureML puts it: in the default datastore under ``azureml/<run>/<name>``.
    """
    placed = {}
    for name, value in (job.get("outputs") or {}).items():
        if name == "default":
            continue
        uri = value.get("uri")
        if uri:
            folder = services.folder(
                str(uri).replace("${{name}}", run_id).replace("${{default_datastore}}", "workspaceblobstore")
            )
        else:
            folder = Folder(container=services.identity.blob_container, prefix=f"azureml/{run_id}/{name}")
        placed[name] = {
            "container": folder.container,
            "prefix": folder.prefix,
            "kind": str(value["jobOutputType"]).lower(),
            "stored": False,
        }
    return placed


def run_spec(services: Services, run: Run) -> RunSpec:
    """Return what the executor needs for a stored job.

    Raises:
        ServiceError: something that the job refers to is not there or not supported.
    """
    job = run.job or {}
    code_id = job.get("codeId")
    inputs = []
    for name, value in given_inputs(job).items():
        kind = INPUT_KINDS[str(value["jobInputType"]).lower()]
        if kind == "literal":
            inputs.append(InputSpec(name=name, kind=kind, literal=str(value["value"])))
        else:
            location = services.folder(str(value["uri"]))
            mode = str(value.get("mode") or "ReadOnlyMount")
            inputs.append(InputSpec(name=name, kind=kind, location=location, mode=mode))
    submitted = job.get("outputs") or {}
    outputs = tuple(
        OutputSpec(
            name=name,
            kind=str(place["kind"]),
            location=Folder(container=place["container"], prefix=place["prefix"]),
            mode=str(submitted[name].get("mode") or "ReadWriteMount"),
        )
        for name, place in run.outputs.items()
    )
    return RunSpec(
        run_id=run.id,
        experiment=run.experiment,
        display_name=run.display_name,
        command=str(job["command"]),
        image=image_of(services, str(job["environmentId"])),
        code=services.folder(str(code_id)) if code_id else None,
        environment_variables={key: str(value) for key, value in (job.get("environmentVariables") or {}).items()},
        service_environment=service_environment(services, run),
        inputs=tuple(inputs),
        outputs=outputs,
        artifacts=services.artifacts_of(run.id),
        shm_bytes=shm_bytes(job),
        timeout_seconds=timeout_seconds(job),
        compute=compute_of(job),
    )


def service_environment(services: Services, run: Run) -> dict[str, str]:
    """Return the variables that AzureML sets in a job: what MLflow and azureml-core's ``Run.get_context`` read."""
    identity = services.identity
    token = services.tokens.issue_for_run(run.id)
    api = f"https://{identity.api_host}"
    variables = {
        "MLFLOW_TRACKING_URI": f"azureml://{identity.api_host}/mlflow/v2.0{identity.workspace_arm_id}",
        "MLFLOW_TRACKING_TOKEN": token,
        "MLFLOW_RUN_ID": run.id,
        "MLFLOW_EXPERIMENT_ID": run.experiment_id,
        "MLFLOW_EXPERIMENT_NAME": run.experiment,
        "AZUREML_RUN_ID": run.id,
        "AZUREML_ROOT_RUN_ID": run.id,
        "AZUREML_RUN_TOKEN": token,
        "AZUREML_EXPERIMENT_ID": run.experiment_id,
        "AZUREML_EXPERIMENT_SCOPE": f"{identity.workspace_arm_id}/experiments/{run.experiment}",
        "AZUREML_ARM_SUBSCRIPTION": identity.subscription_id,
        "AZUREML_ARM_RESOURCEGROUP": identity.resource_group,
        "AZUREML_ARM_WORKSPACE_NAME": identity.workspace,
        "AZUREML_ARM_PROJECT_NAME": run.experiment,
        "AZUREML_WORKSPACE_ID": identity.workspace_id,
        "AZUREML_WORKSPACE_SCOPE": identity.workspace_arm_id,
        "AZUREML_SERVICE_ENDPOINT": api,
        "AZUREML_DISCOVERY_SERVICE_ENDPOINT": f"{api}/discovery",
    }
    if (run.job or {}).get("distribution"):
        # What PyTorch's launcher would be given for one process on one node.
        variables |= {
            "RANK": "0",
            "LOCAL_RANK": "0",
            "NODE_RANK": "0",
            "WORLD_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "6105",
        }
    return variables
