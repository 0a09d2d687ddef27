"""The components of a pipeline as files, from which azure-ai-ml reads them."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aml_train.config.job.paths import change_paths
from aml_train.core.temporary import temporary_folder
from aml_train.core.text import yaml_text


@contextlib.contextmanager
def component_files(document: Mapping[str, Any], directory: Path) -> Iterator[dict[str, Any]]:
    """Write the components in a job's document to files for the time of the block.

    Yields:
        the document with the paths of these files in place of the components.

    Args:
        document: the job; another kind than a pipeline is yielded as it is.
        directory: the folder that its relative paths start from.
    """
    if str(document.get("type") or "").lower() != "pipeline":
        yield dict(document)
        return
    with temporary_folder("code") as folder:
        yield _written(copy.deepcopy(dict(document)), directory, folder, "")


def _written(pipeline: dict[str, Any], directory: Path, folder: Path, before: str) -> dict[str, Any]:
    """Write the components of a pipeline's nodes; return it with their paths."""
    for name, node in pipeline["jobs"].items():
        # Relative paths would start from the folder of the files.
        change_paths(node, lambda text: str(directory / text))
        for key in ("component", "trial"):
            component = node.get(key)
            if not isinstance(component, dict):
                continue
            if "jobs" in component:
                component = _written(component, directory, folder, f"{before}{name}.")
            change_paths(component, lambda text: str(directory / text))
            file = folder / f"{before}{name}.yml"
            file.write_text(yaml_text(component), encoding="utf-8")
            node[key] = str(file)
    return pipeline
