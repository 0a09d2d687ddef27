"""The workspace that is meant, and the names of a run in it. Asks no service."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from aml_train.config.model import Config
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.errors import InvalidError
from aml_train.jobs.spec import SERVERLESS, TargetNames

#: The target's key → the key in config.json and the variable that say the same.
_SOURCES: Final = {
    "subscription-id": ("subscription_id", "AZURE_SUBSCRIPTION_ID"),
    "resource-group": ("resource_group", "AML_RESOURCE_GROUP"),
    "workspace": ("workspace_name", "AML_WORKSPACE"),
}
_LATER: Final = "(the workspace's registry)"


@dataclass(frozen=True, kw_only=True)
class WorkspaceId:
    """A workspace's name in Azure Resource Manager."""

    subscription_id: str
    resource_group: str
    name: str

    @property
    def path(self) -> str:
        """The workspace's resource id."""
        return (
            f"/subscriptions/{quote(self.subscription_id)}/resourceGroups/{quote(self.resource_group)}"
            f"/providers/Microsoft.MachineLearningServices/workspaces/{quote(self.name)}"
        )


def find_workspace(target: TargetConfig, directory: Path, environment: Mapping[str, str]) -> WorkspaceId:
    """Return the workspace that *target* means.

    Missing values come from config.json, unless that is about another workspace, then from *environment*.

    Args:
        target: the target.
        directory: the project folder, where the search for config.json begins.
        environment: holds ``AZURE_SUBSCRIPTION_ID``, ``AML_RESOURCE_GROUP`` and ``AML_WORKSPACE``, if anything.

    Raises:
        InvalidError: a part is said nowhere, or config.json is none.
    """
    given = {
        "subscription-id": target.subscription_id,
        "resource-group": target.resource_group,
        "workspace": target.workspace,
    }
    values = {key: value for key, value in given.items() if value}
    ignored = ""
    if len(values) < len(_SOURCES) and (file := find_config_json(directory)) is not None:
        written = _read_config_json(file)
        if all(written.get(key, value).lower() == value.lower() for key, value in values.items()):
            values = {**written, **values}
        else:
            ignored = f" {file} is about another workspace."
    for key, (_, variable) in _SOURCES.items():
        if environment.get(variable):
            values.setdefault(key, environment[variable])
    missing = [key for key in _SOURCES if key not in values]
    if missing:
        variables = ", ".join(variable for _, variable in _SOURCES.values())
        raise InvalidError(
            f"The target {target.name!r} does not say its {', '.join(missing)}.{ignored}",
            hint=f"Write it under targets.{target.name} of aml-train.yml, put the workspace's config.json (the studio's "
            f"download) into the project, or set {variables}.",
        )
    return WorkspaceId(
        subscription_id=values["subscription-id"], resource_group=values["resource-group"], name=values["workspace"]
    )


def find_config_json(directory: Path) -> Path | None:
    """Return the workspace's config.json, or None.

    It is looked for where ``MLClient.from_config`` looks: in *directory*, its ``.azureml``, and the same in each folder above.
    """
    for folder in (directory, *directory.parents):
        for path in (folder / ".azureml" / "config.json", folder / "config.json"):
            if path.is_file() and _names_a_workspace(path):
                return path
    return None


def _names_a_workspace(path: Path) -> bool:
    """Return whether this config.json is AzureML's: the name is a common one."""
    return path.parent.name == ".azureml" or "workspace_name" in (_document(path) or {})


def _document(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _read_config_json(path: Path) -> dict[str, str]:
    found = _document(path)
    keys = [key for key, _ in _SOURCES.values()]
    if found is None or not all(isinstance(found.get(key), str) and found[key] for key in keys):
        raise InvalidError(f"{path} is not a workspace's config.json: it must say {', '.join(keys)}.")
    return {key: found[name] for key, (name, _) in _SOURCES.items()}


def azure_names(config: Config, environment: Mapping[str, str]) -> TargetNames:
    """Return the workspace's names, as far as they are known without sign-in.

    Raises:
        InvalidError: the workspace is not known, or the job has no compute that could run it there.
    """
    target = config.target
    where = find_workspace(target, config.directory, environment)
    _check_compute(config)
    registry = target.registry or _LATER
    return TargetNames(
        target=target.name,
        description=f"the workspace {where.name} (resource group {where.resource_group}) in Azure",
        scope=f"{where.subscription_id}/{where.resource_group}/{where.name}".lower(),
        registry_for_jobs=registry,
        registry_for_engine=target.push_registry or registry,
        compute=None,
    )


def _check_compute(config: Config) -> None:
    target, document = config.target, config.job.document
    compute = str(target.compute or document.get("compute") or "").removeprefix("azureml:")
    remedy = f"Write targets.{target.name}.compute in aml-train.yml, or compute in the job."
    if compute in ("", SERVERLESS) and (config.sdk == "v1" or config.job.runconfig is not None):
        raise InvalidError(
            f"Neither the target {target.name!r} nor the job says on which compute to run, and runs of the SDK v1 cannot be"
            " serverless.",
            hint=remedy,
        )
    if compute == "local":
        raise InvalidError(
            f"The job's compute is 'local': azure-ai-ml would run it on this machine, not in {target.name!r}.",
            hint=remedy,
        )


def nearest_of(name: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: known ones, nearest first."""
    known = sorted(names)
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"Did you mean {near[0]}? There are: {', '.join(known)}."
    return f"There are: {', '.join(known)}." if known else "There are none."
