"""The inputs of the former actions aml-run and aml-registermodel.

Those with a meaning here are accepted with a notice.

docs/migration.md has the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aml_train.core.errors import Fault

#: Inputs of those actions that action.yml still declares.
LEGACY_INPUTS: Final = ("azure_credentials", "experiment_name", "parameters_file", "run_id")
#: The folder of those actions' parameters files.
_FOLDER: Final = Path(".cloud/.azure")
_LARGEST: Final = 1 << 20

#: Keys of a parameters file with a counterpart elsewhere.
_ELSEWHERE: Final = {
    "runconfig_yaml_file": "aml-train.yml says what runs: write `runconfig: FILE` there, instead of `job`",
    "runconfig_python_file": "no Python of the project is run outside its image; write `runconfig: FILE` in aml-train.yml",
    "runconfig_python_function_name": "no Python of the project is run outside its image; write `runconfig: FILE` in aml-train.yml",
    "download_artifacts": "artefacts stay in the workspace",
    "metrics_max": "write it as a rule under `gate:` in aml-train.yml",
    "metrics_min": "write it as a rule under `gate:` in aml-train.yml",
    "force_registration": "leave out `gate:` in aml-train.yml",
    "model_tags": "write `model.tags` in aml-train.yml",
    "model_properties": "write `model.tags` in aml-train.yml",
}


@dataclass(kw_only=True)
class Former:
    """The meaning of former inputs: changes, whether to wait (or None), remarks."""

    sets: list[str] = field(default_factory=list)
    wait: bool | None = None
    remarks: list[str] = field(default_factory=list)

    @property
    def notices(self) -> tuple[str, ...]:
        """The remarks."""
        return tuple(self.remarks)

    def set(self, key: str, value: object) -> None:
        """Add a change of the configuration; JSON is YAML, so that text stays text."""
        self.sets.append(f"{key}={json.dumps(value)}")


def translate(given: Mapping[str, str], directory: Path, faults: list[Fault]) -> Former:
    """Return the meaning of the former inputs in *given*.

    Args:
        given: name → text, those that are not empty.
        directory: the project folder, from which a parameters file is looked for.
        faults: receives their faults.
    """
    former = Former()
    if "azure_credentials" in given:
        former.remarks.append(
            "The input azure_credentials is a former name: write `creds`, or better sign in with OIDC (docs/azure.md)."
        )
    if "run_id" in given:
        former.remarks.append(
            "The input run_id has no effect: the model of a run is registered by that run, after its gate; to do it in another "
            "workflow, write `command: attach` and `job-name`."
        )
    if "experiment_name" in given:
        former.set("job.experiment_name", given["experiment_name"].strip())
        former.remarks.append("The input experiment_name is a former name: write `set: job.experiment_name=…`.")
    if "parameters_file" in given:
        name = given["parameters_file"].strip()
        parameters = _read(name, directory, faults)
        former.remarks.append(
            f"The input parameters_file is a former name: move what {name} says into aml-train.yml."
        )
        own = any((directory / one).exists() for one in ("aml-train.yml", "aml-train.yaml"))
        _parameters(parameters, name, former, faults, own_configuration=own)
    return former


def _read(name: str, directory: Path, faults: list[Fault]) -> Mapping[str, Any]:
    path = directory / _FOLDER / name
    where = "with.parameters_file"
    try:
        if not path.resolve().is_relative_to(directory.resolve()):
            faults.append(
                Fault(
                    where=where, what=f"{name!r} leads out of the project", remedy="give a name inside .cloud/.azure"
                )
            )
            return {}
        with path.open("rb") as file:
            document = json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        faults.append(Fault(where=where, what=f"{_FOLDER / name} cannot be read", why=str(reason)))
        return {}
    if not isinstance(document, dict):
        faults.append(Fault(where=where, what=f"{_FOLDER / name} is not a JSON object"))
        return {}
    return document


def _parameters(
    document: Mapping[str, Any], name: str, former: Former, faults: list[Fault], *, own_configuration: bool
) -> None:
    for key, value in document.items():
        where = f"{_FOLDER / name}"
        match key:
            case "runconfig_yaml_file" if isinstance(value, str) and not own_configuration:
                former.set("runconfig", value)
            case "experiment_name" if isinstance(value, str):
                former.set("job.experiment_name", value)
            case "model_name" if isinstance(value, str):
                former.set("model.name", value)
            case "model_file_name" if isinstance(value, str):
                former.set("model.path", f"outputs/{value}")
            case "wait_for_completion" if isinstance(value, bool):
                former.wait = value
            case "tags" if isinstance(value, dict):
                former.set("job.tags", {str(tag): str(text) for tag, text in value.items()})
            case "runconfig_yaml_file" if isinstance(value, str):
                former.remarks.append(f"{where}: {key} has no effect: {_ELSEWHERE[key]}.")
            case (
                "experiment_name"
                | "model_name"
                | "model_file_name"
                | "wait_for_completion"
                | "tags"
                | "runconfig_yaml_file"
            ):
                faults.append(Fault(where=where, what=f"`{key}` has a value of the wrong type"))
            case _:
                remedy = _ELSEWHERE.get(key, "it has no counterpart")
                former.remarks.append(f"{where}: {key} has no effect: {remedy}.")
