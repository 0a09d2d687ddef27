"""The proposed configuration of a job: image, tests, gate, model. Pure."""

from __future__ import annotations

import json
import posixpath
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from aml_train.cli.scaffold.draft import Draft, Item
from aml_train.cli.scaffold.image import code_of_job, propose_image
from aml_train.cli.scaffold.jobs import Candidate, job_item, outputs_of
from aml_train.cli.scaffold.project import Project, TextFile, folder_of, nearness, unread
from aml_train.cli.scaffold.scripts import imports_of, parse_source
from aml_train.config.yaml.nodes import Mark

MOST_METRICS: Final = 8
MOST_UNREAD: Final = 5
WORKSPACE: Final = "/workspace"
"""The folder of the tests' container that has the project's files."""

_METRIC: Final = r"""\blog_metric\(\s*(?:key\s*=\s*)?["']([^"'{}]+)["']|\brun\.log\(\s*["']([^"'{}]+)["']"""
_METRICS: Final = r"""\blog_metrics\(\s*\{([^{}]*)\}"""
_LESS: Final = re.compile(r"loss|error|err\b|mse|mae|rmse|perplexity|latency", re.IGNORECASE)
_OUTPUT: Final = r"""["'](?:\./)?(outputs/[\w./-]+)["']"""
_MODEL_TYPES: Final = ("custom_model", "mlflow_model", "triton_model")


def propose(project: Project, job: Candidate, *, asked: bool) -> Draft:
    """Return the configuration for a job.

    Args:
        project: what was found.
        job: the job that was chosen.
        asked: whether the user named it.
    """
    draft = Draft(items=[job_item(job, asked=asked)], notes=list(job.notes))
    folders = near_tests(project, job)
    image = propose_image(project, job, needs_pytest=bool(folders))
    if image.item is not None:
        draft.items.append(_with_nodes(image.item, job))
    draft.notes += image.notes
    if not folders:
        draft.notes.append(
            "no tests were found (files test_*.py): with `tests`, they run inside the image before the job"
        )
    elif image.item is not None:
        draft.items.append(_tests(project, folders))
        if image.has_pytest is None:
            draft.notes.append("the tests need pytest in the image: check that it is installed")
        others = sorted(set(project.tests) - set(folders))
        if others:
            draft.notes.append(f"tests elsewhere were left aside: {', '.join(others[:6])}")
    draft.notes += [
        f"{one.mark.where}: reads {one.text}, which is not here: put it there, or name a data asset under `data`"
        for one in job.reads
        if one.path is None
    ]
    _gate(project, job, draft)
    model = _model(project, job)
    draft.items += [] if model is None else [model]
    _look_around(project, job, draft)
    return draft


def _with_nodes(image: Item, job: Candidate) -> Item:
    """Return the image with the nodes that it replaces the environments of."""
    steps = [step for step in job.steps if step.name]
    named = [step for step in steps if step.has_environment]
    if not named or not isinstance(image.value, list):
        return image
    nodes = "all" if len(named) == len(job.steps) else [step.name for step in steps]
    why = "the nodes name environments, which the image replaces"
    return Item(key="image", value=[*image.value, Item(key="nodes", value=nodes, why=why)])


# Tests


def near_tests(project: Project, job: Candidate) -> list[str]:
    """Return the folders of tests that are nearest to the job's code."""
    parent = posixpath.dirname(job.code) if job.code not in ("", ".") else ""

    def apart(folder: str) -> int:
        return nearness(f"{folder}/x" if folder != "." else "x", parent)[0]

    least = min(map(apart, project.tests), default=0)
    return sorted(folder for folder in project.tests if apart(folder) == least)


def _tests(project: Project, folders: Sequence[str]) -> Item:
    count = sum(len(project.tests[folder]) for folder in folders)
    where = " ".join(folder for folder in folders if folder != ".")
    command = Item(
        key="command",
        value=f"pytest -q {where}".strip(),
        why=f"{count} test file{'s' if count != 1 else ''}",
        origin=Mark(file=project.tests[folders[0]][0].path, line=1),
    )
    path = python_path(project, folders)
    if not path:
        return Item(key="tests", value=[command])
    why = "the tests import from it; /workspace is the project"
    variable = Item(key="PYTHONPATH", value=":".join(path), why=why)
    return Item(key="tests", value=[command, Item(key="env", value=[variable])])


def python_path(project: Project, folders: Sequence[str]) -> list[str]:
    """Return the folders of the tests' container with modules that the tests import and pytest would not find.

    Source: https://docs.pytest.org/en/stable/explanation/pythonpath.html
    """
    configured = [file.text for file, _ in project.pyproject] + [file.text for file in project.others.values()]
    tests = [file for folder in folders for file in project.tests[folder]]
    files = [*tests, *(one for one in project.scripts if _is_conftest(one, tests))]
    if any(re.search(r"^\s*pythonpath\s*=", text, re.MULTILINE) for text in configured) or any(
        "sys.path" in file.text for file in files
    ):
        return []
    roots = {_above_packages(project, file.folder) for file in files}
    found: dict[str, None] = {}
    for file in files:
        for module in _imported(file):
            homes = _homes(project, module)
            if homes and not roots & homes:
                found[posixpath.normpath(f"{WORKSPACE}/{min(homes, key=lambda one: (one.count('/'), one))}")] = None
    return list(found)


def _is_conftest(file: TextFile, tests: Sequence[TextFile]) -> bool:
    """Return whether a file is a conftest.py that pytest loads for one of the tests."""
    lead = f"{file.folder}/" if file.folder else ""
    return file.path == f"{lead}conftest.py" and any(test.path.startswith(lead) for test in tests)


def _imported(file: TextFile) -> Iterator[str]:
    tree = parse_source(file.text)
    for one in imports_of(tree, file.path) if tree is not None else ():
        top = one.module.partition(".")[0]
        if not one.relative and top not in sys.stdlib_module_names:
            yield top


def _above_packages(project: Project, folder: str) -> str:
    while folder and f"{folder}/__init__.py" in project.files:
        folder = folder_of(folder)
    return folder


def _homes(project: Project, module: str) -> set[str]:
    """Return the folders that have a module of this name."""
    found: set[str] = set()
    for file in project.scripts:
        parts = file.path.removesuffix(".py").split("/")
        if module in parts:
            found.add("/".join(parts[: parts.index(module)]))
    return found


# Gate and model


def _gate(project: Project, job: Candidate, draft: Draft) -> None:
    found: dict[str, Mark] = {}
    for file in code_of_job(project, job):
        prefix = _node_of(file, job)
        for mark, match in file.all(_METRIC):
            found.setdefault(prefix + (match[1] or match[2]), mark)
        for mark, match in file.all(_METRICS):
            for name in re.findall(r"""["']([^"'{}]+)["']\s*:""", match[1]):
                found.setdefault(prefix + name, mark)
    if not found:
        draft.notes.append(
            "no metric was found in the code (mlflow.log_metric): with `gate`, metrics decide on the model"
        )
        return
    rules = [
        Item(key=name, value="< 0.1" if _LESS.search(name) else ">= 0.9", origin=mark)
        for name, mark in list(found.items())[:MOST_METRICS]
    ]
    why = "metrics that the code logs: keep those that decide, with your bounds"
    draft.items.append(Item(key="gate", value=rules, why=why, proposed=True))


def _node_of(file: TextFile, job: Candidate) -> str:
    """Return ``NODE/`` for a script that only one node runs; else nothing."""
    name = posixpath.basename(file.path)
    running = [step.name for step in job.steps if step.name and name in step.job.said("command")]
    return f"{running[0]}/" if len(running) == 1 else ""


def _model(project: Project, job: Candidate) -> Item | None:
    """Return the model: an output with a model's type or name, or a path that the code writes."""
    name = Item(key="name", value=re.sub(r"[^A-Za-z0-9._-]+", "-", project.name).strip("-._") or "model")
    graph = job.noun in ("pipeline job", "sweep job")
    outputs = [(step.name, *output) for step in job.steps for output in step.outputs()]
    if job.noun == "command job" and job.document is not None:
        outputs = [("", *output) for output in outputs_of(job.document)]
    typed = [one for one in outputs if one[2] in _MODEL_TYPES]
    by_name = [one for one in outputs if graph and "model" in one[1] and "info" not in one[1]]
    for step, output, kind, mark in typed or by_name:
        value = [
            name,
            *([Item(key="node", value=step)] if step else []),
            Item(key="output", value=output, origin=mark),
        ]
        if typed:
            return Item(key="model", value=[*value, Item(key="type", value=kind)], why="a model, as its type says")
        why = "a model, as its name says: registered after the gate, if you want"
        return Item(key="model", value=value, why=why, proposed=True)
    for file in code_of_job(project, job) if not graph else ():
        for mark, match in file.all(_OUTPUT):
            if "model" in match[1]:
                value = [name, Item(key="path", value=match[1], origin=mark)]
                why = "the code writes it: registered after the gate, if you want"
                return Item(key="model", value=value, why=why, proposed=True)
    return None


def _look_around(project: Project, job: Candidate, draft: Draft) -> None:
    for document in project.of("other job"):
        what = document.said("type") or "another"
        draft.notes.append(f"{document.path}:1: a job of the type {what}, which aml-train does not run")
    if job.noun == "script":
        draft.notes += [line for _, line in unread(project)][:MOST_UNREAD]
    for path, file in sorted(project.others.items()):
        if path in ("config.json", ".azureml/config.json") and _is_workspace(file.text):
            draft.notes.append(f"{path}:1: it names a workspace: for runs in Azure add `targets: {{azure: {{}}}}`")
    if project.truncated:
        draft.notes.append("the folder holds very many files: not all of them were looked at")
    draft.notes += [str(fault) for fault in project.faults]


def _is_workspace(text: str) -> bool:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and {"subscription_id", "resource_group", "workspace_name"} <= set(said)
