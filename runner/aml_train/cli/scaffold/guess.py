"""The proposed configuration of a job: image, tests, gate, model. Pure."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace

from aml_train.cli.scaffold.candidates import Candidate, job_item
from aml_train.cli.scaffold.draft import Draft, Item
from aml_train.cli.scaffold.graphs import nodes_to_move
from aml_train.cli.scaffold.guess_image import Image, code_of_job, guess_image
from aml_train.cli.scaffold.project import Project, TextFile, nearness
from aml_train.cli.scaffold.submitted import unread
from aml_train.config import MapNode, Mark

MOST_METRICS = 8
MOST_UNREAD = 5
_METRIC = r"""\blog_metric\(\s*(?:key\s*=\s*)?["']([^"'{}]+)["']|\brun\.log\(\s*["']([^"'{}]+)["']"""
_METRICS = r"""\blog_metrics\(\s*\{([^{}]*)\}"""
_LESS = re.compile(r"loss|error|err\b|mse|mae|rmse|perplexity|latency", re.IGNORECASE)
_OUTPUT = r"""["'](?:\./)?(outputs/[\w./-]+)["']"""
_MODEL_TYPES = ("custom_model", "mlflow_model", "triton_model")
_PYTEST_LINE = r"^[\s-]*(?:run:\s*)?((?:python3? -m )?pytest\b[^|&;$<>\n#`{}]*)$"


def propose(project: Project, job: Candidate, *, asked: bool, test_path: Sequence[str] = ()) -> Draft:
    """Return the configuration for a job.

    Args:
        project: what was found.
        job: the job that was chosen.
        asked: whether the user named it.
        test_path: folders of the tests' container that the tests import from.
    """
    draft = Draft(items=[job_item(job, asked=asked)], notes=list(job.notes))
    folders = _near_tests(project, job)
    unittest = len(folders) == 1 and all(_discovered(file, folders[0], project) for file in project.tests[folders[0]])
    image = guess_image(project, job, needs_pytest=bool(folders) and not unittest)
    if image.item is not None:
        draft.items.append(_with_nodes(image.item, job))
    draft.notes += image.notes
    _tests(project, image, folders, draft, unittest=unittest, path=test_path)
    _data(job, draft)
    _gate(project, job, draft)
    _model(project, job, draft)
    _look_around(project, job, draft)
    return draft


def _with_nodes(image: Item, job: Candidate) -> Item:
    """Return the image with the nodes that it replaces the environments of."""
    nodes = nodes_to_move(job.steps)
    if nodes is None or not isinstance(image.value, list):
        return image
    why = "the nodes name environments, which the image replaces"
    return replace(image, value=[*image.value, Item(key="nodes", value=nodes, why=why)])


def _near_tests(project: Project, job: Candidate) -> list[str]:
    """Return the folders of tests that are nearest to the job's code."""
    folders = sorted(project.tests, key=lambda folder: nearness(f"{folder}/x", job.code))
    if not folders:
        return []
    parent = posixpath.dirname(job.code) if job.code not in ("", ".") else ""

    def apart(folder: str) -> int:
        return nearness(f"{folder}/x" if folder != "." else "x", parent)[0]

    least = min(apart(folder) for folder in folders)
    return sorted(folder for folder in folders if apart(folder) == least)


def _discovered(file: TextFile, folder: str, project: Project) -> bool:
    """Return whether unittest finds a file's tests from *folder*, and all of them.

    It looks for ``test*.py`` in packages, and for methods of a TestCase.
    """
    parent, package = file.folder, True
    while package and parent != ("" if folder == "." else folder):
        package, parent = f"{parent}/__init__.py" in project.files, posixpath.dirname(parent)
    cases = re.search(r"^class\s+\w+\(.*\bTestCase\b", file.text, re.MULTILINE)
    others = re.search(r"^(?:(?:async\s+)?def test|\s*(?:import|from)\s+pytest\b)", file.text, re.MULTILINE)
    return package and file.path.rpartition("/")[2].startswith("test") and cases is not None and others is None


def _tests(
    project: Project, image: Image, folders: list[str], draft: Draft, *, unittest: bool, path: Sequence[str]
) -> None:
    if not folders:
        draft.notes.append(
            "no tests were found (files test_*.py): with `tests`, they run inside the image before the job"
        )
        return
    if image.item is None:
        return
    count = sum(len(project.tests[folder]) for folder in folders)
    why = f"{count} test file{'s' if count != 1 else ''}"
    origin = Mark(file=project.tests[folders[0]][0].path, line=1)
    where = " ".join("" if folder == "." else folder for folder in folders).strip()
    command = f"python -m unittest discover -s {folders[0]}" if unittest else f"pytest -q {where}".strip()
    workflow = _in_workflows(project)
    if workflow is not None and len(folders) == len(project.tests) and not unittest:
        origin, command = workflow
        why = "what the workflow runs"
    keys = [Item(key="command", value=command, why=why, origin=origin)]
    if path:
        variable = Item(
            key="PYTHONPATH", value=":".join(path), why="the tests import from it; /workspace is the project"
        )
        keys.append(Item(key="env", value=[variable]))
    draft.items.append(Item(key="tests", value=keys))
    if not unittest and image.has_pytest is None:
        draft.notes.append("the tests need pytest in the image: check that it is installed")
    elif not unittest and not image.has_pytest:
        draft.notes.append("the tests need pytest in the image, and the conda file does not name it: add it there")
    _more_tests(project, folders, draft)


def _more_tests(project: Project, folders: list[str], draft: Draft) -> None:
    others = sorted(set(project.tests) - set(folders))
    if others:
        draft.notes.append(f"tests elsewhere were left aside: {', '.join(others[:6])}")


def _in_workflows(project: Project) -> tuple[Mark, str] | None:
    """Return the only command by which workflows run pytest; None if several differ."""
    found: dict[str, Mark] = {}
    for document in project.of("workflow"):
        for mark, match in TextFile(path=document.path, text=document.text).all(_PYTEST_LINE):
            found.setdefault(match[1].strip(), mark)
    if len(found) != 1:
        return None
    ((command, mark),) = found.items()
    return mark, command


def _data(job: Candidate, draft: Draft) -> None:
    """Propose ``data`` for files that the script reads and that are not here."""
    lead = "" if job.code in ("", ".") else f"{job.code}/"
    links = {
        one.text.removeprefix("./").removeprefix(lead): one
        for one in job.reads
        if one.path is None and not one.text.startswith(("/", "..", "~"))
    }
    if not links:
        return
    items = [
        Item(
            key=text,
            value=[Item(key="path", value="azureml:NAME@latest"), Item(key="type", value="uri_file")],
            origin=one.mark,
            why="the script reads it, and it is not here",
        )
        for text, one in links.items()
    ]
    draft.items.append(
        Item(key="data", value=items, why="data assets at these paths, with your names", proposed=True)
    )
    draft.notes += [
        f"{one.mark.where}: reads {one.text}, which is not here: put it there, or name a data asset under `data`"
        for one in links.values()
    ]


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


def _model_of_graph(name: str, job: Candidate) -> Item | None:
    """Return the model of a node or trial, by the type or name of its output."""
    found = [(step, *output) for step in job.steps for output in step.outputs()]
    typed = [one for one in found if one[2] in _MODEL_TYPES]
    for step, output, kind, mark in typed or [one for one in found if "model" in one[1] and "info" not in one[1]]:
        node = [Item(key="node", value=step.name)] if step.name else []
        of_type = [Item(key="type", value=kind)] if kind in _MODEL_TYPES else []
        value = [Item(key="name", value=name), *node, Item(key="output", value=output, origin=mark), *of_type]
        why = (
            "a model, as its type says"
            if of_type
            else "a model, as its name says: registered after the gate, if you want"
        )
        return Item(key="model", value=value, why=why, proposed=not of_type)
    return None


def _model(project: Project, job: Candidate, draft: Draft) -> None:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", project.name).strip("-._") or "model"
    if job.kind == "graph":
        model = _model_of_graph(name, job)
        draft.items += [] if model is None else [model]
        return
    if job.document is not None and job.kind == "command":
        outputs = job.document.node("outputs")
        for output in outputs.entries if isinstance(outputs, MapNode) else ():
            kind = job.document.said("outputs", output, "type")
            if kind in _MODEL_TYPES:
                value = [
                    Item(key="name", value=name, why="the project's name"),
                    Item(
                        key="output",
                        value=output,
                        why="a model, as its type says",
                        origin=job.document.mark("outputs", output),
                    ),
                    Item(key="type", value=kind),
                ]
                draft.items.append(Item(key="model", value=value))
                return
    for file in code_of_job(project, job):
        for mark, match in file.all(_OUTPUT):
            if "model" in match[1]:
                value = [Item(key="name", value=name), Item(key="path", value=match[1], origin=mark)]
                why = "the code writes it: registered after the gate, if you want"
                draft.items.append(Item(key="model", value=value, why=why, proposed=True))
                return


def _look_around(project: Project, job: Candidate, draft: Draft) -> None:
    for document in project.of("other job"):
        what = document.said("type") or "another"
        draft.notes.append(f"{document.path}:1: a job of the type {what}, which aml-train does not run")
    if job.kind == "script":
        draft.notes += [line for _, line in unread(project)][:MOST_UNREAD]
    if job.kind == "command":
        for document in project.of("runconfig"):
            draft.notes.append(f"{document.path}:1: a run configuration of SDK v1 was left aside")
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
