"""Run history: details with logs, run data, tags and properties.

Shapes are those of the clients' generated models (``RunDetails``, ``GetRunDataResult``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aml_emulator.api.bodies import WORD, Fields
from aml_emulator.api.routing import Call, Route
from aml_emulator.api.shapes import USER, continued, iso
from aml_emulator.api.v1.datasets import read_by
from aml_emulator.context import Services
from aml_emulator.domain.jobs.service import output_asset
from aml_emulator.domain.runs import RUN, put_run
from aml_emulator.errors import not_found
from aml_emulator.store.runs import Run

OUTPUT_TYPES = {
    "uri_file": "UriFile",
    "uri_folder": "UriFolder",
    "mltable": "MLTable",
    "mlflow_model": "MLFlowModel",
    "custom_model": "CustomModel",
    "triton_model": "TritonModel",
}

LOG_HOURS = 1
"""How long the address of a log can be read; whoever follows it asks for the run's details again."""
OWNERS = ("", "/experiments/{experiment}", "/experimentids/{experiment_id}")
"""What may stand before ``/runs/{run}`` in a path."""


def routes(services: Services) -> Sequence[Route]:
    """Return the routes of ``/history/v1.0``."""
    history = History(services)
    base = "/history/v1.0{WS}"
    found = [
        Route(method="POST", path=f"{base}/rundata", handler=history.data),
        Route(method="GET", path=f"{base}/experiments/{{experiment}}", handler=history.experiment),
        Route(method="POST", path=f"{base}/experiments/{{experiment}}", handler=history.create_experiment),
        Route(method="GET", path=f"{base}/experimentids/{{experiment_id}}", handler=history.experiment),
    ]
    operations: tuple[tuple[str, str, Callable[[Call], Any]], ...] = (
        ("GET", "", history.run),
        ("PATCH", "", history.patch),
        ("GET", "/details", history.details),
        ("GET", "/children", history.children),
    )
    for owner in OWNERS:
        for method, tail, handler in operations:
            found.append(Route(method=method, path=f"{base}{owner}/runs/{{run}}{tail}", handler=handler))
    return found


class History:
    """Answers for runs and their files."""

    def __init__(self, services: Services) -> None:
        self._services = services

    # Runs

    def run(self, call: Call) -> dict[str, Any]:
        """Return a run."""
        return self.view(known_run(self._services, call))

    def patch(self, call: Call) -> dict[str, Any]:
        """Change a run, or make one: azureml-core begins runs of its own, and children of runs, like this."""
        if self._services.store.runs.get(call.params["run"]) is not None:
            known_run(self._services, call)
        experiment = call.params.get("experiment")
        if "experiment_id" in call.params:
            found = self._services.store.runs.experiment_by_id(call.params["experiment_id"])
            if found is None:
                raise not_found(f"experiment '{call.params['experiment_id']}'")
            experiment = found.name
        return self.view(put_run(self._services, call.params["run"], call.json(RUN), experiment=experiment))

    def children(self, call: Call) -> dict[str, Any]:
        """Return the direct children of a run."""
        runs = self._services.store.runs.children(known_run(self._services, call).id)
        return continued(call, runs, key=lambda run: f"{run.created:020.6f} {run.id}", view=self.view)

    def details(self, call: Call) -> dict[str, Any]:
        """Return a run with its logs, each with a URL that can be read by ranges while it grows."""
        run = known_run(self._services, call)
        parent = self._services.store.runs.get(run.parent_id) if run.parent_id else None
        folder = self._services.artifacts_of(run.id)
        logs = self._services.store.runs.artifacts(run.id, logs=True)
        definition = self._services.store.v1.definition(run.id)
        return {
            "runId": run.id,
            "runUuid": run.uuid,
            "parentRunUuid": parent.uuid if parent else None,
            "rootRunUuid": parent.uuid if parent else run.uuid,
            "target": self._compute(run),
            "status": self._status(run),
            "parentRunId": run.parent_id,
            "createdTimeUtc": iso(run.created),
            "startTimeUtc": iso(run.started),
            "endTimeUtc": iso(run.ended),
            "error": _error(run),
            "warnings": [],
            "tags": dict(run.tags),
            "properties": dict(run.properties),
            "parameters": {},
            "services": {},
            "inputDatasets": read_by(self._services, definition),
            "outputDatasets": [],
            "runDefinition": definition,
            "logFiles": {
                log.path: self._services.blobs.sas_url(folder.container, folder.name_of(log.path), hours=LOG_HOURS)
                for log in logs
            },
            "jobCost": None,
            "revision": int(run.modified * 1000),
            "runTypeV2": None,
            "settings": {},
            "computeRequest": None,
            "compute": {"target": self._compute(run)},
            "createdBy": None,
            "computeDuration": None,
        }

    def data(self, call: Call) -> dict[str, Any]:
        """Return a run and what it put out."""
        body = call.json(Fields({"runId": WORD}))
        run = self._services.store.runs.get(str(body.get("runId")))
        if run is None:
            raise not_found(f"run '{body.get('runId')}'")
        return {
            "runMetadata": self.view(run),
            "runDefinition": None,
            "jobSpecification": None,
        }

    def view(self, run: Run) -> dict[str, Any]:
        """Return a run as run history shows it."""
        identity = self._services.identity
        user = {"userObjectId": identity.object_id, "userTenantId": identity.tenant_id, "userName": USER}
        asset = f"azureml://locations/{identity.location}/workspaces/{identity.workspace_id}/data"
        return {
            "runNumber": run.number,
            "rootRunId": run.parent_id or run.id,
            "createdUtc": iso(run.created),
            "createdBy": user,
            "userId": identity.object_id,
            "token": None,
            "tokenExpiryTimeUtc": None,
            "error": _error(run),
            "warnings": None,
            "revision": int(run.modified * 1000),
            "statusRevision": 1,
            "runUuid": run.uuid,
            "parentRunUuid": None,
            "rootRunUuid": run.uuid,
            "hasVirtualParent": False,
            "lastModifiedBy": user,
            "lastModifiedUtc": iso(run.modified),
            "cancelationReason": None,
            "runId": run.id,
            "parentRunId": run.parent_id,
            "experimentId": run.experiment_id,
            "status": self._status(run),
            "startTimeUtc": iso(run.started),
            "endTimeUtc": iso(run.ended),
            "displayName": run.display_name,
            "name": run.display_name if run.display_name != run.id else None,
            "dataContainerId": f"dcid.{run.id}",
            "description": run.description,
            "hidden": run.archived,
            "runType": "azureml.scriptrun" if run.job is not None else "mlflow",
            "runTypeV2": {"orchestrator": None, "traits": [], "attribution": None, "computeType": "AmlcTrain"},
            "properties": dict(run.properties),
            "parameters": dict(self._services.store.metrics.params(run.id)),
            "actionUris": {},
            "scriptName": None,
            "target": self._compute(run),
            "uniqueChildRunComputeTargets": [],
            "tags": dict(run.tags),
            "settings": {},
            "services": {},
            "inputs": {},
            "outputs": {
                name: {
                    "assetId": f"{asset}/{output_asset(run.id, name)}/versions/1",
                    "type": OUTPUT_TYPES[str(place["kind"])],
                }
                for name, place in run.outputs.items()
                if place["stored"]
            },
            "runDefinition": None,
            "jobSpecification": None,
            "primaryMetricName": None,
            "createdFrom": None,
            "cancelUri": None,
            "completeUri": None,
            "diagnosticsUri": None,
            "computeRequest": None,
            "compute": {"target": self._compute(run)},
            "retainForLifetimeOfWorkspace": False,
            "queueingInfo": None,
        }

    def _status(self, run: Run) -> str:
        """Return a run's status. azureml-core takes Finalizing for the end, and asks for outputs that are not stored yet."""
        shown = self._services.shown.status(run)
        unstored = shown == "Finalizing" and self._services.store.v1.definition(run.id) is not None
        return "Running" if unstored else shown

    def _compute(self, run: Run) -> str | None:
        return str(run.job["computeId"]).rpartition("/")[2] if run.job else None

    # Experiments

    def experiment(self, call: Call) -> dict[str, Any]:
        """Return an experiment, by name or GUID."""
        store = self._services.store.runs
        name, guid = call.params.get("experiment", ""), call.params.get("experiment_id", "")
        experiment = store.experiment_by_id(guid) if guid else store.experiment(name)
        if experiment is None:
            raise not_found(f"experiment '{name or guid}'")
        return self.view_experiment(experiment.name)

    def create_experiment(self, call: Call) -> dict[str, Any]:
        """Create an experiment, or return the one of that name."""
        return self.view_experiment(call.params["experiment"])

    def view_experiment(self, name: str) -> dict[str, Any]:
        """Return an experiment as run history shows it, made if there is none."""
        experiment = self._services.store.runs.experiment(name, create=True)
        if experiment is None:
            raise not_found(f"experiment '{name}'")
        return {
            "experimentId": experiment.id,
            "name": experiment.name,
            "createdUtc": iso(experiment.created),
            "tags": dict(experiment.tags),
            "archivedTime": None,
            "artifactLocation": None,
        }


def known_run(services: Services, call: Call) -> Run:
    """Return the run that a path names, with or without its experiment.

    Raises:
        ServiceError: 404 if there is none, or not in that experiment.
    """
    run = services.store.runs.get(call.params["run"])
    if run is None or call.params.get("experiment_id", run.experiment_id) != run.experiment_id:
        raise not_found(f"run '{call.params['run']}'")
    # Some clients put the experiment's GUID where its name belongs.
    if call.params.get("experiment", run.experiment) not in (run.experiment, run.experiment_id):
        raise not_found(f"run '{run.id}' in experiment '{call.params['experiment']}'")
    return run


def _error(run: Run) -> dict[str, Any] | None:
    """Return why a run failed, as ``ErrorResponse`` of run history."""
    if run.error_code is None:
        return None
    return {
        "error": {
            "code": run.error_code,
            "severity": None,
            "message": run.error_message,
            "messageFormat": None,
            "messageParameters": {"exitCode": str(run.exit_code)} if run.exit_code is not None else {},
            "referenceCode": None,
            "detailsUri": None,
            "target": None,
            "details": [],
            "innerError": None,
            "additionalInfo": None,
        },
        "correlation": None,
        "environment": None,
        "location": None,
        "time": iso(run.ended),
        "componentName": "aml-emulator",
    }
