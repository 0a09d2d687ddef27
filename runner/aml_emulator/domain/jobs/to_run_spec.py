"""From a job as submitted to the RunSpec that the executor gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aml_emulator.domain.environments import image_of_environment
from aml_emulator.domain.jobs.check import PRIORITIES, given_inputs, instance_count, shm_bytes, timeout_seconds
from aml_emulator.domain.jobs.compute import compute_of, is_serverless, node_memory
from aml_emulator.domain.jobs.docker_args import docker_options
from aml_emulator.domain.jobs.places import input_spec, output_specs
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.launch import Launcher
from aml_emulator.executor.spec import RunSpec
from aml_emulator.store.runs import Run

LAUNCHERS: Mapping[str, Launcher] = {"PyTorch": "pytorch", "TensorFlow": "tensorflow", "Mpi": "mpi"}
_TELEMETRY_OFF: Final = "MLFLOW_DISABLE_TELEMETRY"


def run_spec(workspace: Workspace, run: Run) -> RunSpec:
    """Return what the executor needs for a stored job.

    Raises:
        DomainError: something that the job refers to is not there or not supported.
    """
    job = run.job or {}
    code_id = job.get("codeId")
    options = docker_options(job.get("resources") or {})
    given = {key: str(value) for key, value in (job.get("environmentVariables") or {}).items()}
    image = image_of_environment(workspace, str(job["environmentId"]))
    return RunSpec(
        run_id=run.id,
        experiment=run.experiment,
        display_name=run.display_name,
        command=str(job["command"]),
        image=image.name,
        build=image.build,
        code=workspace.folder(str(code_id)) if code_id else None,
        environment_variables={**options.environment, **given},
        service_environment=service_environment(workspace, run),
        inputs=tuple(input_spec(workspace, name, value) for name, value in given_inputs(job).items()),
        outputs=output_specs(workspace, run),
        artifacts=workspace.artifacts_of(run.id),
        shm_bytes=shm_bytes(job),
        memory_bytes=node_memory(workspace, job),
        timeout_seconds=timeout_seconds(job),
        compute=compute_of(workspace, job),
        **_launch(job),
        host_options=options.host,
        hostname=options.hostname,
        notes=_notes(job, compute_of(workspace, job)),
    )


def service_environment(workspace: Workspace, run: Run) -> dict[str, str]:
    """Return the variables that AzureML sets for MLflow and azureml-core.

    MLflow's telemetry is switched off: the local AzureML sends no usage data. MLflow's client 3.15 also sets and deletes variables in its thread for
    telemetry, and a request that reads them meanwhile fails with KeyError '_MLFLOW_TELEMETRY_SESSION_ID'.
    A job that sets the variable keeps its value.
    """
    identity = workspace.identity
    token = workspace.tokens.issue_for_run(run.id)
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
    if _TELEMETRY_OFF not in ((run.job or {}).get("environmentVariables") or {}):
        variables[_TELEMETRY_OFF] = "true"
    identity_of_job = (run.job or {}).get("identity") or {}
    if identity_of_job.get("clientId"):
        variables["DEFAULT_IDENTITY_CLIENT_ID"] = str(identity_of_job["clientId"])
    return variables


def _launch(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the start of the command, nodes and processes: fields of RunSpec."""
    distribution = job.get("distribution") or {}
    launcher = LAUNCHERS.get(str(distribution.get("distributionType")), "once")
    nodes = instance_count(job)
    return {
        "launcher": launcher,
        "nodes": nodes,
        "processes": int(distribution.get("processCountPerInstance") or 1),
        "workers": int(distribution.get("workerCount") or nodes),
        "servers": int(distribution.get("parameterServerCount") or 0),
    }


def _notes(job: Mapping[str, Any], cluster: str) -> tuple[str, ...]:
    """Return the settings of a job that this machine ignores, for the run's log."""
    notes = []
    identity = (job.get("identity") or {}).get("identityType")
    if identity in ("Managed", "UserIdentity"):
        notes.append(
            f"identity: the job reads and writes the workspace's data as every job does; tokens of the identity"
            f" ({identity}) are not issued."
        )
    queue = job.get("queueSettings") or {}
    if queue.get("jobTier") not in (None, "Null", "Standard"):
        notes.append(f"queue_settings.job_tier: {queue['jobTier']} jobs run as all others do, and are not evicted.")
    if queue.get("priority") in (1, 3):
        notes.append(
            f"queue_settings.priority: {PRIORITIES[queue['priority']]}; jobs run in the order that they came."
        )
    resources = job.get("resources") or {}
    where = f"the cluster {cluster}" if is_serverless(job) else "the compute that it names"
    if is_serverless(job):
        notes.append(f"compute: serverless jobs run on {where}.")
    if resources.get("instanceType"):
        notes.append(f"resources.instance_type: the job runs on {where}; of the size it has the memory at most.")
    for name, service in (job.get("services") or {}).items():
        kind = str((service or {}).get("jobServiceType") or "Custom")
        if kind not in ("Tracking", "Studio"):
            notes.append(
                f"services.{name}: no {kind} service is started, and no port is opened; the command runs alone."
            )
    if resources.get("locations"):
        notes.append("resources.locations: the job runs on this machine.")
    return tuple(notes)
