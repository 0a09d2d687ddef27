"""The files that a model must have for its type. Pure.

MLflow: a file ``MLmodel`` at the top (https://mlflow.org/docs/latest/ml/model/#storage-format). Triton: a folder for each model, in it folders
whose names are numbers, with the files of that version
(https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/model_repository.html); a version made of
``model.py`` needs ``config.pbtxt`` next to its folder (https://github.com/triton-inference-server/python_backend).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import yaml

ML_MODEL: Final = "MLmodel"
_CONFIG: Final = "config.pbtxt"
_SHOWN: Final = 6
_DEEPEST: Final = 100


def fault_of_layout(type_: str, files: Sequence[str]) -> str | None:
    """Return the fault of a model's files, and the remedy; None for no fault.

    Args:
        type_: ``custom_model``, which may be anything, ``mlflow_model`` or ``triton_model``.
        files: relative to the model's folder; a model that is a single file is its own name.
    """
    if type_ == "mlflow_model" and ML_MODEL not in files:
        inner = next((file for file in files if file.endswith(f"/{ML_MODEL}")), None)
        where = f"it is in {inner.rpartition('/')[0]}: name that folder" if inner else f"there are {_shown(files)}"
        return f"an MLflow model has a file {ML_MODEL} at its top, and {where}"
    if type_ == "triton_model":
        return _triton(files)
    return None


def _triton(files: Sequence[str]) -> str | None:
    models: dict[str, list[list[str]]] = {}
    for file in files:
        name, _, rest = file.partition("/")
        if rest:
            models.setdefault(name, []).append(rest.split("/"))
    wanted = "a Triton model repository has MODEL/VERSION/model.EXT, with a number as VERSION"
    if not models:
        return f"{wanted}, and there are {_shown(files)}"
    for name, inner in sorted(models.items()):
        versions = {parts[0] for parts in inner if len(parts) > 1 and parts[0].isdecimal()}
        has_config = [_CONFIG] in inner
        if name.isdecimal():
            return f"{wanted}: the folder of versions {name}/ is at the top; name the folder above the model's"
        if not versions:
            # An ensemble has an empty folder as its version, which is no file; its configuration says what it is made of.
            if has_config:
                continue
            return f"{wanted}, and {name}/ has {_shown(['/'.join(parts) for parts in inner])}"
        python = [parts for parts in inner if parts[1:] == ["model.py"] and parts[0] in versions]
        if python and not has_config:
            return f"{name}/{python[0][0]}/model.py is of Triton's Python backend, which needs {name}/{_CONFIG}"
    return None


def fault_of_ml_model(content: bytes) -> str | None:
    """Return what is wrong with an ``MLmodel`` file; None where nothing is."""
    try:
        # PyYAML takes minutes for thousands of open brackets: their events show them at once.
        depth = 0
        for event in yaml.parse(content, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                line = event.start_mark.line + 1 if event.start_mark else 1
                return f"{ML_MODEL}, line {line}: more than {_DEEPEST} lists and mappings are inside one another"
        document = yaml.safe_load(content)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return f"{ML_MODEL} is not YAML" + (f", line {mark.line + 1}" if mark else "")
    except ValueError:
        # PyYAML's own: a date such as 2020-99-99.
        return f"{ML_MODEL} is no YAML that can be read"
    flavors = document.get("flavors") if isinstance(document, dict) else None
    if not isinstance(flavors, dict) or not flavors:
        return f"{ML_MODEL} names no flavors"
    return None


def _shown(files: Sequence[str]) -> str:
    if not files:
        return "no files"
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(sorted(files)[:_SHOWN]) + more
