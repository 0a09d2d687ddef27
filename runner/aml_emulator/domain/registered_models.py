"""MLflow's view of models: stages, aliases, and the address to download from.

AzureML keeps stages and aliases apart from its own models: they are "only accessed by using the MLflow SDK"
(https://learn.microsoft.com/azure/machine-learning/how-to-manage-models-mlflow). They are stored so here as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from aml_emulator.domain.errors import InvalidError, NotFoundError, NotSupportedError
from aml_emulator.domain.models import (
    MLFLOW_VERSIONS,
    aliases_of,
    delete_model,
    delete_model_name,
    model_artifact_prefix,
    store_aliases,
)
from aml_emulator.domain.workspace import Workspace
from aml_emulator.reading import whole
from aml_emulator.store.assets import AssetContainer, AssetVersion

STAGES: Final = ("None", "Staging", "Production", "Archived")
"""The stages of a version; "in the MLflow SDK, stage names are case sensitive" (the page above)."""

# mlflow/utils/validation.py, _validate_model_alias_name: at most 255 of these, no version (v1) and not "latest".
_ALIAS: Final = re.compile(r"(?!v\d+$)(?!latest$)[\w-]{1,255}", re.IGNORECASE)


def stage_of(workspace: Workspace, version: AssetVersion) -> str:
    """Return a version's stage; ``None`` is the name of the first one."""
    stored = workspace.store.assets.container(MLFLOW_VERSIONS, f"{version.name}:{version.version}")
    return STAGES[0] if stored is None else str(stored.properties["stage"])


def move_to_stage(workspace: Workspace, version: AssetVersion, stage: str, *, archive_others: bool) -> None:
    """Put a version into a stage.

    Args:
        archive_others: whether versions that are in it move to ``Archived``.

    Raises:
        InvalidError: there is no such stage, or others cannot be archived for it.
    """
    _check_stages((stage,))
    if archive_others and stage not in ("Staging", "Production"):
        raise InvalidError(f"Existing versions can be archived for Staging and Production, and not for '{stage}'.")
    with workspace.store.transaction():
        for other in workspace.store.assets.versions("models", version.name) if archive_others else ():
            if other.version != version.version and stage_of(workspace, other) == stage:
                _store_stage(workspace, other, "Archived")
        _store_stage(workspace, version, stage)


def newest_in_stages(workspace: Workspace, name: str, stages: Sequence[str] = ()) -> list[AssetVersion]:
    """Return a model's newest version in each of some stages, or in each one there is.

    Raises:
        InvalidError: there is no such stage.
    """
    _check_stages(stages)
    newest: dict[str, AssetVersion] = {}
    for version in sorted(workspace.store.assets.versions("models", name), key=_number):
        newest[stage_of(workspace, version)] = version
    return [newest[stage] for stage in stages or STAGES if stage in newest]


def set_alias(workspace: Workspace, version: AssetVersion, alias: str) -> None:
    """Point an alias to a version, in place of its previous one.

    Raises:
        InvalidError: it cannot be an alias.
    """
    if not _ALIAS.fullmatch(alias):
        raise InvalidError(
            f"Invalid alias name: '{alias}'. It has letters, digits, '_' and '-', and is neither a version nor 'latest'."
        )
    with workspace.store.transaction():
        store_aliases(workspace, version.name, {**aliases_of(workspace, version.name), alias: version.version})


def delete_alias(workspace: Workspace, name: str, alias: str) -> None:
    """Remove an alias; nothing happens if there is none."""
    with workspace.store.transaction():
        kept = {key: version for key, version in aliases_of(workspace, name).items() if key != alias}
        store_aliases(workspace, name, kept)


def version_by_alias(workspace: Workspace, name: str, alias: str) -> AssetVersion:
    """Return the version that an alias stands for.

    Raises:
        InvalidError: there is no such alias; MLflow's own registry answers so too.
    """
    number = aliases_of(workspace, name).get(alias)
    found = None if number is None else workspace.store.assets.version("models", name, number)
    if found is None:
        raise InvalidError(f"Registered model alias {alias} not found.")
    return found


def delete_registered_version(workspace: Workspace, version: AssetVersion) -> None:
    """Delete a version; with the last one the model's name goes as well.

    "To achieve this task, delete all model versions for a given model" is what Azure's documentation says of models as
    a whole, which cannot be deleted.
    """
    with workspace.store.transaction():
        delete_model(workspace, version)
        if not workspace.store.assets.versions("models", version.name):
            delete_model_name(workspace, version.name)


def download_address(workspace: Workspace, version: AssetVersion) -> str:
    """Return the address of a version's files in the form that azureml-mlflow reads.

    It parses two forms, ``…/experiments/E/runs/R/artifacts/P`` and ``azureml://artifacts/ORIGIN/CONTAINER/PATH``
    (``artifact_uri_decomp`` of azureml-mlflow 1.62, ``azureml/mlflow/_store/artifact/utils.py``). The second also reaches
    files that belong to no run; `azureml://artifacts/ExperimentRun/dcid.RUN/PATH` is one of a run.

    Raises:
        NotFoundError: the run or the datastore of its files is gone.
        NotSupportedError: the form cannot name the place.
    """
    prefix = model_artifact_prefix(workspace, version).strip("/")
    if prefix.count("/") < 2:
        raise NotSupportedError(
            f"downloading '{version.name}' with MLflow: its files are at the top of a datastore ({prefix}), which"
            " azureml://artifacts/ORIGIN/CONTAINER/PATH cannot name. Register it from a folder below another one"
        )
    return f"azureml://artifacts/{prefix}"


def known_model(workspace: Workspace, name: str) -> AssetContainer:
    """Return what is common to all versions of a model.

    Raises:
        NotFoundError: there is no model of that name.
    """
    known = workspace.store.assets.container("models", name)
    if known is None:
        raise NotFoundError(f"Registered Model with name={name}")
    return known


def _check_stages(stages: Sequence[str]) -> None:
    for stage in stages:
        if stage not in STAGES:
            raise InvalidError(f"Invalid Model Version stage: {stage}. Value must be one of {', '.join(STAGES)}.")


def _store_stage(workspace: Workspace, version: AssetVersion, stage: str) -> None:
    workspace.store.assets.put_container(MLFLOW_VERSIONS, f"{version.name}:{version.version}", {"stage": stage})


def _number(version: AssetVersion) -> tuple[int, float]:
    """Return a sort key: by number, after versions that are no numbers, by age."""
    number = whole(version.version, most=255)
    return (-1 if number is None else number, version.created)
