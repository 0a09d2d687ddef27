"""Runs that clients make by themselves: azureml-core's children of runs, and runs that no job is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aml_emulator.api.bodies import FLAG, TEXT, WORD, WORDS, Fields
from aml_emulator.context import Services
from aml_emulator.domain.jobs.check import JOB_NAME
from aml_emulator.errors import bad_request, not_found
from aml_emulator.store.runs import ORDER, Run

RUN = Fields(
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
"""What is read of azureml-core's ``CreateRunDto``."""


def put_run(services: Services, run_id: str, given: Mapping[str, Any], *, experiment: str | None) -> Run:
    """Change a run's name, description, tags and properties, or make it; a status is the service's own to change.

    Args:
        services: what handlers share.
        run_id: its id.
        given: fields of azureml-core's ``CreateRunDto``.
        experiment: where a new run belongs; None where the request does not say.

    Raises:
        ServiceError: 404 for a run that is not there and cannot be made; 400 for an id or a status that is none.
    """
    store = services.store.runs
    tags = {key: str(value) for key, value in (given.get("tags") or {}).items()}
    properties = {key: str(value) for key, value in (given.get("properties") or {}).items() if value is not None}
    with services.store.transaction():
        if store.get(run_id) is None:
            return _made(services, run_id, given, experiment, tags, properties)
        store.change(
            run_id,
            display_name=given.get("displayName") or given.get("name"),
            description=given.get("description"),
            archived=given.get("hidden"),
        )
        store.tag(run_id, tags, properties=properties)
    return store.require(run_id)


def _made(
    services: Services,
    run_id: str,
    given: Mapping[str, Any],
    experiment: str | None,
    tags: Mapping[str, str],
    properties: Mapping[str, str],
) -> Run:
    """Make a run in the state that its maker says."""
    store = services.store.runs
    parent, status = given.get("parentRunId"), str(given.get("status") or "NotStarted")
    if not experiment or given.get("runId") != run_id or (parent and store.get(str(parent)) is None):
        raise not_found(f"run '{parent or run_id}'")
    if not JOB_NAME.fullmatch(run_id) or status not in ORDER:
        raise bad_request(f"A run cannot be made as '{run_id}' with the status '{status}'.")
    owner = store.experiment(experiment, create=True)
    if owner is None:
        raise KeyError(experiment)
    return store.create(
        run_id=run_id,
        experiment_id=owner.id,
        display_name=str(given.get("displayName") or given.get("name") or run_id),
        description=given.get("description"),
        parent_id=str(parent) if parent else None,
        status=status,
        tags=tags,
        properties=properties,
        started=services.clock() if status == "Running" else None,
    )
