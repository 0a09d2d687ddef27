"""Files that are named and not read: notebooks, and Python code that submits jobs by an SDK. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aml_train.cli.scaffold.project import Project, TextFile

_SDK: Final = re.compile(r"^\s*(?:from|import)\s+(?:azure\.ai\.ml|azureml)\b", re.MULTILINE)
_SUBMITS: Final = (
    r"\b(?:MLClient|ScriptRunConfig|Estimator|PythonScriptStep|HyperDriveConfig)\b|@(?:dsl\.)?pipeline\b|\.submit\("
)


def is_submitter(file: TextFile) -> bool:
    """Return whether a file works with a workspace as a client: it is not what trains."""
    return _SDK.search(file.text) is not None and re.search(_SUBMITS, file.text) is not None


def unread(project: Project) -> Iterator[tuple[str, str]]:
    """Yield the path of each file that is named only, and the line that says what to do instead."""
    for file in project.scripts:
        found = file.first(_SUBMITS) if is_submitter(file) else None
        if found is not None:
            yield (
                file.path,
                f"{found[0].where}: it submits by an SDK of AzureML, and is not read: write its command, environment and inputs as a job.yml",
            )
    for path in project.notebooks:
        yield path, f"{path}:1: a notebook, which is not read: export it with `jupyter nbconvert --to script`"
