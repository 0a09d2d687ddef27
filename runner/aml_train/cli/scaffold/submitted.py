"""Jobs that Python files of the project submit, instead of a job's YAML. Pure.

The files are read, not run. A value that only running them would show is left out, with a note that names its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aml_train.cli.scaffold.code_reader import Submission
from aml_train.cli.scaffold.imports import parse_source
from aml_train.cli.scaffold.literals import calls, imported_names, last_name
from aml_train.cli.scaffold.project import Project, TextFile
from aml_train.cli.scaffold.sdk_v1_jobs import ESTIMATORS, jobs_of_v1
from aml_train.cli.scaffold.sdk_v2_jobs import jobs_of_v2
from aml_train.config import Mark

_AZURE: Final = re.compile(r"\bazureml\b|\bazure\.ai\b|\bfrom azure import\b")
_PIPELINES: Final = (
    (r"^@(?:dsl\.)?pipeline\b", "azure-ai-ml"),
    (r"^[^#\n]*\b(?:PythonScriptStep|EstimatorStep|MpiStep)\(", "azureml-core"),
)
_SUBMITTING: Final = frozenset(
    {"MLClient", "ScriptRunConfig", "Workspace", "Experiment", "command", "dsl", "pipeline", *ESTIMATORS}
)


def submissions(project: Project) -> list[Submission]:
    """Return the jobs that the project's Python files and notebooks submit."""
    files = (*project.scripts, *project.notebook_code)
    return [one for file in files for one in submissions_of(project, file)]


def submissions_of(project: Project, file: TextFile) -> list[Submission]:
    """Return the jobs that one file submits; a pipeline's steps are none."""
    if _AZURE.search(file.text) is None or any(file.first(pattern) for pattern, _ in _PIPELINES):
        return []
    tree = parse_source(file.text)
    return [] if tree is None else [*jobs_of_v2(project, file, tree), *jobs_of_v1(project, file, tree)]


def is_submitter(file: TextFile) -> bool:
    """Return whether a file works with a workspace as a client: it is not what trains."""
    tree = parse_source(file.text) if _AZURE.search(file.text) else None
    if tree is None:
        return False
    names = {*imported_names(tree, "azure.ai.ml").values(), *imported_names(tree, "azureml").values()}
    used = {last_name(call.func) for call in calls(tree)}
    # `Run.get_context().experiment.workspace` is used in training code: a Workspace alone is no sign.
    clients = names & (_SUBMITTING - {"Workspace", "Experiment"})
    return bool(clients) or ({"Workspace", "Experiment"} <= names and "submit" in used)


def pipelines(project: Project) -> Iterator[tuple[Mark, str]]:
    """Yield the pipeline jobs that Python files make, each with its SDK."""
    for file in (*project.scripts, *project.notebook_code):
        for pattern, sdk in _PIPELINES:
            if _AZURE.search(file.text) and (found := file.first(pattern)):
                yield found[0], sdk
