"""The execution service of azureml-core, ``/execution/v1.0``: a run that it submits is a job."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.run_shapes import known_run
from aml_emulator.context import Context
from aml_emulator.domain.datasets import find, saved_id
from aml_emulator.domain.environments import for_run, lowered
from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.domain.jobs import from_runconfig as runconfig
from aml_emulator.domain.jobs.from_runconfig_data import Dataset, references
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.domain.jobs.types import CONFIGURATION
from aml_emulator.domain.schema import WORD, Fields
from aml_emulator.domain.snapshots import snapshot_id_of

OTHER_STARTS = ("startrun", "localrun", "prepare", "snapshotprepare", "checkprepare", "snapshotcheckprepare")
"""Ways to begin or to prepare a run beside the snapshot that azureml-core sends by default."""


def routes(context: Context, jobs: JobService) -> Sequence[Route]:
    """Return the routes of the execution service."""
    execution = Execution(context, jobs)
    base = "/execution/v1.0{WS}/experiments/{experiment}"
    others = [Route(method="POST", path=f"{base}/{word}", handler=execution.refuse) for word in OTHER_STARTS]
    return (
        Route(method="POST", path=f"{base}/snapshotrun", handler=execution.submit),
        Route(method="POST", path=f"{base}/runId/{{run}}/cancel", handler=execution.cancel),
        Route(method="GET", path=f"{base}/runId/{{run}}/diagnostic", handler=execution.diagnose),
        *others,
    )


class Execution:
    """Answers for the beginning and the end of runs."""

    def __init__(self, context: Context, jobs: JobService) -> None:
        self._context = context
        self._jobs = jobs

    def submit(self, call: Call) -> dict[str, Any]:
        """Submit a run of a snapshot; the same run again is the one that is there."""
        body = call.json(Fields({"Configuration": CONFIGURATION, "SnapshotId": WORD, "ParentRunId": WORD}))
        config = body.get("Configuration")
        if not isinstance(config, dict):
            raise InvalidError("A run's body has 'Configuration'.")
        experiment = call.params["experiment"]
        query = {key.lower(): value for key, value in call.query.items()}
        name = query.get("runid") or f"{experiment}_{uuid.uuid4().hex}"
        runconfig.check(config)
        arm_id = self._context.identity.workspace_arm_id
        snapshot = snapshot_id_of(self._context, body.get("SnapshotId"))
        job = runconfig.job(
            config,
            run_id=name,
            experiment=experiment,
            compute_id=f"{arm_id}/computes/{config['target']}",
            code_id=f"{arm_id}/codes/{snapshot}/versions/1" if snapshot else None,
            environment_id=for_run(self._context, config.get("environment") or {}),
            parent=body.get("ParentRunId"),
            datasets={name: self._dataset(given) for name, given in references(config).items()},
        )
        kept = {**config, "environment": lowered(config.get("environment") or {})}
        run, _ = self._jobs.put(name, job)
        self._context.store.v1.put_definition(run.id, kept)
        return {"runId": run.id}

    def _dataset(self, reference: Mapping[str, Any]) -> Dataset:
        version = find(self._context, reference)
        return Dataset(
            uri=f"{self._context.identity.workspace_arm_id}/data/{version.name}/versions/{version.version}",
            kind=str(version.properties["dataType"]),
            saved_id=saved_id(version),
        )

    def cancel(self, call: Call) -> Reply:
        """Ask for a run to be stopped."""
        run = known_run(self._context, call)
        self._jobs.cancel(run.id)
        return Reply(status=202, value={"runId": run.id})

    def diagnose(self, call: Call) -> dict[str, Any]:
        """Return what is known of why a run ended as it did."""
        run = known_run(self._context, call)
        return {"runId": run.id, "status": run.status, "code": run.error_code, "message": run.error_message}

    def refuse(self, call: Call) -> Reply:
        """Refuse another way to begin a run."""
        word = call.path.rpartition("/")[2]
        raise NotSupportedError(f"the execution service's '{word}' (only 'snapshotrun', azureml-core's own choice)")
