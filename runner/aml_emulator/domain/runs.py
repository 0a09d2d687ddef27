"""Runs that clients create: azureml-core's child runs, and runs without a job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aml_emulator.domain.errors import InvalidError, NotFoundError
from aml_emulator.domain.workspace import Workspace
from aml_emulator.schema import FLAG, TEXT, WORD, WORDS, Fields
from aml_emulator.store.runs import RUN_ORDER, Experiment, Run

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}")
"""The name of a job, which is its run's id."""

RUN_SHAPE = Fields(
    {
        "runId": TEXT,
        "parentRunId": TEXT,
        "name": WORD,
        "displayName": WORD,
        "description": TEXT,
        "hidden": FLAG,
        "status": WORD,
        "tags": WORDS,
        "properties": WORDS,
    }
)
"""The fields of azureml-core's ``CreateRunDto`` that are read."""


def known_run(
    workspace: Workspace, run_id: str, *, experiment: str | None = None, experiment_id: str | None = None
) -> Run:
    """Return a run.

    Args:
        experiment: the experiment that it has to belong to; None for any.
        experiment_id: the same by its GUID.

    Raises:
        NotFoundError: there is none, or not in that experiment.
    """
    run = workspace.store.runs.get(run_id)
    if run is None or experiment_id not in (None, run.experiment_id):
        raise NotFoundError(f"run '{run_id}'")
    # Some clients put the experiment's GUID where its name belongs.
    if experiment not in (None, run.experiment, run.experiment_id):
        raise NotFoundError(f"run '{run.id}' in experiment '{experiment}'")
    return run


def known_job(workspace: Workspace, name: str) -> Run:
    """Return a job.

    Raises:
        NotFoundError: there is no run of that name, or none that was submitted.
    """
    run = workspace.store.runs.get(name)
    if run is None or run.job is None:
        raise NotFoundError(f"job '{name}'", message=f"Job {name} not found.", reasons=("NotFound", "JobNotFound"))
    return run


def known_experiment(workspace: Workspace, *, name: str = "", guid: str = "") -> Experiment:
    """Return an experiment, by its GUID if that is given.

    Raises:
        NotFoundError: there is none.
    """
    store = workspace.store.runs
    experiment = store.experiment_by_id(guid) if guid else store.experiment(name)
    if experiment is None:
        raise NotFoundError(f"experiment '{guid or name}'")
    return experiment


def put_run(workspace: Workspace, run_id: str, given: Mapping[str, Any], *, experiment: str | None) -> Run:
    """Change a run's fields, or create the run; only the service changes a status.

    Args:
        given: fields of azureml-core's ``CreateRunDto``.
        experiment: where a new run belongs; None where the request does not say.

    Raises:
        NotFoundError: for a run that is not there and cannot be made.
        InvalidError: an id or a status that is none.
    """
    store = workspace.store.runs
    tags = {key: str(value) for key, value in (given.get("tags") or {}).items()}
    properties = {key: str(value) for key, value in (given.get("properties") or {}).items() if value is not None}
    with workspace.store.transaction():
        known = store.get(run_id)
        if known is None:
            return _made(workspace, run_id, given, experiment, tags, properties)
        store.change(
            run_id,
            display_name=given.get("displayName") or given.get("name"),
            description=given.get("description"),
            archived=given.get("hidden"),
        )
        # More properties can be added, and none changed (azureml-core, ``Run.add_properties``).
        store.tag(run_id, tags, properties={**properties, **known.properties})
        return store.require(run_id)


def _made(
    workspace: Workspace,
    run_id: str,
    given: Mapping[str, Any],
    experiment: str | None,
    tags: Mapping[str, str],
    properties: Mapping[str, str],
) -> Run:
    """Make a run in the state that its maker says."""
    store = workspace.store.runs
    parent, status = given.get("parentRunId"), str(given.get("status") or "NotStarted")
    if not experiment or given.get("runId") != run_id or (parent and store.get(str(parent)) is None):
        raise NotFoundError(f"run '{parent or run_id}'")
    if not JOB_NAME.fullmatch(run_id) or status not in RUN_ORDER:
        raise InvalidError(f"A run cannot be made as '{run_id}' with the status '{status}'.")
    return store.create(
        run_id=run_id,
        experiment_id=store.ensure_experiment(experiment).id,
        display_name=str(given.get("displayName") or given.get("name") or run_id),
        description=given.get("description"),
        parent_id=str(parent) if parent else None,
        status=status,
        tags=tags,
        properties=properties,
        started=workspace.clock() if status == "Running" else None,
    )
