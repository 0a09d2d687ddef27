"""Run history: runs, their details with logs, and experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aml_emulator.api.routing import Answers, Call, Route
from aml_emulator.api.run_shapes import experiment_view, run_of, run_routes, run_view
from aml_emulator.api.shapes import continued
from aml_emulator.context import Context
from aml_emulator.domain.runs import RUN_SHAPE, known_experiment, known_run, put_run
from aml_emulator.schema import WORD, Fields
from aml_emulator.store.runs import Run

LOG_HOURS = 1
"""The lifetime of a log's address; clients that follow it request the details again."""

#: What a run's details have in common with the run.
_DETAILS: Final = [
    "runId",
    "runUuid",
    "parentRunId",
    "parentRunUuid",
    "rootRunId",
    "rootRunUuid",
    "target",
    "status",
    "runNumber",
    "dataContainerId",
    "userId",
    "statusRevision",
    "effectiveStartTimeUtc",
    "lastStartTimeUtc",
    "currentComputeTime",
    "currentAttemptId",
    "lastModifiedBy",
    "lastModifiedUtc",
    "duration",
    "startTimeUtc",
    "endTimeUtc",
    "error",
    "tags",
    "properties",
    "services",
    "inputDatasets",
    "outputDatasets",
    "revision",
    "settings",
    "compute",
    "createdBy",
    "computeDuration",
]


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of ``/history/v1.0``."""
    history = History(context)
    base = "/history/v1.0{WS}"
    return [
        Route("POST", f"{base}/rundata", history.data),
        Route("GET", f"{base}/experiments/{{experiment}}", history.experiment),
        Route("POST", f"{base}/experiments/{{experiment}}", history.create_experiment),
        Route("GET", f"{base}/experimentids/{{experiment_id}}", history.experiment),
        *run_routes(("GET", "", history.run), ("GET", "/details", history.details)),
        *run_routes(
            ("PATCH", "", history.patch),
            ("PATCH", "/modify", history.patch),
            ("GET", "/children", history.children),
            ("GET", "/serviceinstances/{node}", history.instances),
        ),
    ]


class History(Answers):
    """Answers for runs and their files."""

    # Runs

    def run(self, call: Call) -> dict[str, Any]:
        """Return a run."""
        return run_view(self._context, run_of(self._context, call))

    def patch(self, call: Call) -> dict[str, Any]:
        """Change a run, or create one: azureml-core begins runs and children like this."""
        if self._context.store.runs.get(call.params["run"]) is not None:
            run_of(self._context, call)
        experiment = call.params.get("experiment")
        if "experiment_id" in call.params:
            experiment = known_experiment(self._context, guid=call.params["experiment_id"]).name
        return run_view(
            self._context, put_run(self._context, call.params["run"], call.json(RUN_SHAPE), experiment=experiment)
        )

    def children(self, call: Call) -> dict[str, Any]:
        """Return the direct children of a run."""
        runs = self._context.store.runs.children(run_of(self._context, call).id)
        return continued(call, runs, key=lambda run: f"{run.created:020.6f} {run.id}", view=self._view)

    def instances(self, call: Call) -> dict[str, Any]:
        """Return the interactive services on a run's node: there are none."""
        run_of(self._context, call)
        return {"instances": {}}

    def details(self, call: Call) -> dict[str, Any]:
        """Return a run with its logs, each with a URL for reading by ranges."""
        run = run_of(self._context, call)
        folder = self._context.files_of(run)
        logs = self._context.store.runs.artifacts(run.id, logs=True)
        view = run_view(self._context, run)
        return {
            **{name: view[name] for name in _DETAILS},
            "inputs": {},
            "outputs": {},
            "createdTimeUtc": view["createdUtc"],
            "warnings": [],
            "parameters": {},
            "runDefinition": self._context.store.v1.definition(run.id),
            "logFiles": {
                log.path: self._context.blobs.sas_url(folder.container, folder.name_of(log.path), hours=LOG_HOURS)
                for log in logs
            },
            **dict.fromkeys(("jobCost", "runTypeV2", "computeRequest")),
        }

    def data(self, call: Call) -> dict[str, Any]:
        """Return a run and what it put out."""
        run = known_run(self._context, str(call.json(Fields({"runId": WORD})).get("runId")))
        return {
            "runMetadata": run_view(self._context, run),
            "runDefinition": None,
            "jobSpecification": None,
            "systemSettings": None,
        }

    def _view(self, run: Run) -> dict[str, Any]:
        return run_view(self._context, run)

    # Experiments

    def experiment(self, call: Call) -> dict[str, Any]:
        """Return an experiment, by name or GUID."""
        name, guid = call.params.get("experiment", ""), call.params.get("experiment_id", "")
        return experiment_view(self._context, known_experiment(self._context, name=name, guid=guid).name)

    def create_experiment(self, call: Call) -> dict[str, Any]:
        """Create an experiment, or return the one of that name."""
        return experiment_view(self._context, call.params["experiment"])
