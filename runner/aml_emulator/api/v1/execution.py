"""The execution service of azureml-core, ``/execution/v1.0``: its runs are jobs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from aml_emulator.api.routing import Answers, Call, Reply, Route
from aml_emulator.api.run_shapes import run_of
from aml_emulator.context import Context
from aml_emulator.domain.datasets import dataset_id, find_dataset
from aml_emulator.domain.environments import environment_of_run, lower_field_names
from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.domain.jobs.from_runconfig import Dataset, check_runconfig, dataset_references, job_of_runconfig
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.domain.jobs.types import RUNCONFIG_SHAPE
from aml_emulator.domain.snapshots import (
    NO_SNAPSHOT,
    create_snapshot,
    snapshot_archive_url,
    snapshot_id_of,
    snapshot_upload_urls,
)
from aml_emulator.schema import TEXT, WORD, Fields, ListOf, Tree

NODES = ListOf(Fields({"FullName": WORD, "BlobUri": WORD}))
SNAPSHOT = Fields(
    {
        "FileRevisionList": Fields({"FileNodes": NODES}),
        "ParentSnapshotId": WORD,
        "DirTreeNode": Tree({"type": TEXT}, "children"),
    }
)


def content_routes(context: Context) -> Sequence[Route]:
    """Return the routes of snapshots."""
    content = Content(context)
    return (
        Route("GET", "/content/v1.0{WS}/snapshots/latest/metadata", content.latest),
        Route("POST", "/content/v2.0{WS}/snapshots/getblob", content.addresses),
        Route("POST", "/content/v2.0{WS}/snapshots/{snapshot}", content.create),
        Route("POST", "/content/v2.0{WS}/snapshots/{snapshot}/zip", content.zip),
    )


class Content(Answers):
    """Answers for snapshots."""

    def latest(self, _call: Call) -> dict[str, Any]:
        """Return an empty tree: what a client sends first, it sends whole."""
        return {"id": NO_SNAPSHOT, "root": {}}

    def addresses(self, call: Call) -> dict[str, Any]:
        """Return where each file of a new snapshot can be written: in one separate folder."""
        names = call.json(Fields({"FileNames": ListOf(WORD)})).get("FileNames") or ()
        found = snapshot_upload_urls(self._context, map(str, names))
        return {
            "fileNodes": [
                {"fullName": name, "blobUri": found[str(name)][0], "blobName": found[str(name)][1]} for name in names
            ]
        }

    def create(self, call: Call) -> dict[str, Any]:
        """Create a snapshot of the uploaded files, and of those that its parent has."""
        snapshot, body = call.params["snapshot"], call.json(SNAPSHOT)
        create_snapshot(
            self._context,
            snapshot,
            nodes=(body.get("FileRevisionList") or {}).get("FileNodes") or (),
            parent=str(body.get("ParentSnapshotId") or NO_SNAPSHOT),
            tree=body.get("DirTreeNode") or {},
        )
        return {"id": snapshot}

    def zip(self, call: Call) -> dict[str, Any]:
        """Return where a snapshot can be read as one archive."""
        return {"zipSasUri": snapshot_archive_url(self._context, call.params["snapshot"])}


OTHER_STARTS = ("startrun", "localrun", "prepare", "snapshotprepare", "checkprepare", "snapshotcheckprepare")
"""Ways to begin or to prepare a run other than azureml-core's default, the snapshot."""


def routes(context: Context, jobs: JobService) -> Sequence[Route]:
    """Return the routes of the execution service."""
    execution = Execution(context, jobs)
    base = "/execution/v1.0{WS}/experiments/{experiment}"
    others = [Route("POST", f"{base}/{word}", execution.refuse) for word in OTHER_STARTS]
    return (
        Route("POST", f"{base}/snapshotrun", execution.submit),
        Route("POST", f"{base}/runId/{{run}}/cancel", execution.cancel),
        Route("GET", f"{base}/runId/{{run}}/diagnostic", execution.diagnose),
        *others,
    )


class Execution:
    """Answers for the beginning and the end of runs."""

    def __init__(self, context: Context, jobs: JobService) -> None:
        self._context = context
        self._jobs = jobs

    def submit(self, call: Call) -> dict[str, Any]:
        """Submit a run of a snapshot; the same run again is the one that is there."""
        body = call.json(Fields({"Configuration": RUNCONFIG_SHAPE, "SnapshotId": WORD, "ParentRunId": WORD}))
        config = body.get("Configuration")
        if not isinstance(config, dict):
            raise InvalidError("A run's body has 'Configuration'.")
        experiment = call.params["experiment"]
        name = call.option("runId") or f"{experiment}_{uuid.uuid4().hex}"
        check_runconfig(config)
        arm_id = self._context.identity.workspace_arm_id
        snapshot = snapshot_id_of(self._context, body.get("SnapshotId"))
        job = job_of_runconfig(
            config,
            run_id=name,
            experiment=experiment,
            compute_id=f"{arm_id}/computes/{config['target']}",
            code_id=f"{arm_id}/codes/{snapshot}/versions/1" if snapshot else None,
            environment_id=environment_of_run(self._context, config.get("environment") or {}),
            parent=body.get("ParentRunId"),
            datasets={name: self._dataset(given) for name, given in dataset_references(config).items()},
        )
        kept = {**config, "environment": lower_field_names(config.get("environment") or {})}
        run, _ = self._jobs.put(name, job, runconfig=kept)
        return {"runId": run.id}

    def _dataset(self, reference: Mapping[str, Any]) -> Dataset:
        version = find_dataset(self._context, reference)
        return Dataset(
            uri=f"{self._context.identity.workspace_arm_id}/data/{version.name}/versions/{version.version}",
            kind=str(version.properties["dataType"]),
            saved_id=dataset_id(version),
        )

    def cancel(self, call: Call) -> Reply:
        """Ask for a run to be stopped."""
        run = run_of(self._context, call)
        self._jobs.cancel(run.id)
        return Reply(status=202, value={"runId": run.id})

    def diagnose(self, call: Call) -> dict[str, Any]:
        """Return what is known of why a run ended as it did."""
        run = run_of(self._context, call)
        return {"runId": run.id, "status": run.status, "code": run.error_code, "message": run.error_message}

    def refuse(self, call: Call) -> Reply:
        """Refuse another way to begin a run."""
        word = call.path.rpartition("/")[2]
        raise NotSupportedError(f"the execution service's '{word}' (only 'snapshotrun', azureml-core's own choice)")
