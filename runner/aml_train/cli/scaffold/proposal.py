"""The jobs to choose from, and the proposed configuration of one: image, tests, gate, model. Pure."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from aml_train.cli.scaffold.draft import Candidate, Draft, Environment, Item
from aml_train.cli.scaffold.image import code_of_job, propose_image
from aml_train.cli.scaffold.project import (
    Document,
    Project,
    TextFile,
    above_packages,
    is_submitter,
    nearness,
    unread,
)
from aml_train.cli.scaffold.scripts import imports_of, parse_source, rank, script_of, training_scripts
from aml_train.config.yaml.nodes import MapNode, Mark

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
    draft = Draft(items=[_job_item(job, asked=asked)], notes=list(job.notes))
    if job.noun in ("pipeline job", "sweep job"):
        _look_around(project, job, draft)
        return draft
    folders = near_tests(project, job)
    image = propose_image(project, job, needs_pytest=bool(folders))
    if image.item is not None:
        draft.items.append(image.item)
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
    roots = {above_packages(project, file.folder) for file in files}
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
        for mark, match in file.all(_METRIC):
            found.setdefault(match[1] or match[2], mark)
        for mark, match in file.all(_METRICS):
            for name in re.findall(r"""["']([^"'{}]+)["']\s*:""", match[1]):
                found.setdefault(name, mark)
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


def _model(project: Project, job: Candidate) -> Item | None:
    """Return the model: an output with a model's type, or a path that the code writes."""
    name = Item(key="name", value=re.sub(r"[^A-Za-z0-9._-]+", "-", project.name).strip("-._") or "model")
    document = job.document
    outputs = document.node("outputs") if document is not None else None
    for output in outputs.entries if isinstance(outputs, MapNode) else ():
        if document is not None and (kind := document.said("outputs", output, "type")) in _MODEL_TYPES:
            mark = document.mark("outputs", output)
            value = [name, Item(key="output", value=output, origin=mark), Item(key="type", value=kind)]
            return Item(key="model", value=value, why="a model, as its type says")
    for file in code_of_job(project, job):
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


# The jobs to choose from


def candidates(project: Project) -> list[Candidate]:
    """Return the jobs to choose from: those of the most certain kind that exists."""
    for found in (project.of("command"), project.of("pipeline", "sweep"), project.of("runconfig")):
        if found:
            return [_of_document(project, document) for document in found]
    return _scripts(project)


def named(project: Project, path: str) -> list[Candidate]:
    """Return the job of a file, of any kind; none if it has none."""
    wanted = posixpath.normpath(path)
    for document in project.of("command", "pipeline", "sweep", "runconfig"):
        if document.path == wanted:
            return [_of_document(project, document)]
    files = (one for one in project.scripts if one.path == wanted and not is_submitter(one))
    return [script_of(project, file) for file in files]


def _job_item(candidate: Candidate, *, asked: bool) -> Item:
    """Return the key ``job`` or ``runconfig`` for a candidate."""
    if candidate.noun == "script":
        why = "no job exists yet; this one runs the script"
        return Item(key="job", why=why, origin=candidate.mark, value=list(candidate.items))
    why = "the job that --job names" if asked else f"the only {candidate.noun} here"
    key = "runconfig" if candidate.noun.startswith("run configuration") else "job"
    return Item(key=key, value=candidate.path, why=why, origin=candidate.mark)


def _of_document(project: Project, document: Document) -> Candidate:
    if document.kind == "command":
        return _command(project, document)
    return _runconfig(document) if document.kind == "runconfig" else _graph(document)


def _graph(document: Document) -> Candidate:
    """Return a pipeline or sweep, whose nodes or trial have commands and environments of their own."""
    kind: Literal["pipeline job", "sweep job"] = "pipeline job" if document.kind == "pipeline" else "sweep job"
    nodes = document.node("jobs")
    keeps = "its nodes keep their environments, in which no tests run: add `image`, and `gate` and `model` by node"
    return Candidate(
        path=document.path,
        noun=kind,
        mark=document.mark("jobs" if document.kind == "pipeline" else "trial"),
        what=f"nodes: {', '.join(nodes.entries)}"[:80] if isinstance(nodes, MapNode) else kind,
        code=document.folder or ".",
        notes=(f"{document.path}:1: {keeps}: docs/pipelines.md",),
    )


# Command jobs


def _joined(folder: str, path: str) -> str:
    """Return *path*, relative to *folder*, as relative to the project; maybe outside."""
    return posixpath.normpath(posixpath.join(folder, path.removeprefix("file:")))


def _code(document: Document) -> str:
    """Return the folder of a job's code; that of its file if the code is elsewhere."""
    code = document.said("code")
    local = code and not re.match(r"[a-z+]+:(?!\d)", code.removeprefix("file:"))
    return _joined(document.folder, code) if local else document.folder or "."


def _command(project: Project, document: Document) -> Candidate:
    return Candidate(
        path=document.path,
        noun="command job",
        mark=document.mark("command"),
        what=" ".join(document.said("command").split())[:80],
        code=_code(document),
        environment=_environment_of(project, document),
        document=document,
    )


def _environment_of(project: Project, document: Document) -> Environment:
    """Return the environment of a command job's YAML."""
    if isinstance(document.node("environment"), MapNode):
        return _described(document, ("environment",))
    text = document.said("environment")
    if not text:
        return Environment()
    mark = document.mark("environment")
    is_file = text.startswith(("file:", ".", "/")) or text.endswith((".yml", ".yaml"))
    name = re.match(r"(?:azureml:)?([^:@/]+)", text)
    for own in project.of("environment"):
        if own.path == _joined(document.folder, text) if is_file else name and own.said("name") == name[1]:
            return _described(own, ())
    if is_file or text.startswith(("azureml://", "azureml:/")):
        return Environment(name=(mark, text))
    full = re.sub(r":latest$", "@latest", text if text.startswith("azureml:") else f"azureml:{text}")
    versioned = re.search(r"[:@][^:@]+$", full.removeprefix("azureml:"))
    return Environment(name=(mark, full if versioned else f"{full}@latest"))


def _described(document: Document, under: tuple[str, ...]) -> Environment:
    """Read the environment that a mapping of a file defines."""
    base, conda = document.said(*under, "image"), document.said(*under, "conda_file")
    build = document.said(*under, "build", "path")
    dockerfile = None
    if build:
        context = _joined(document.folder, build)
        inner = document.said(*under, "build", "dockerfile_path") or "Dockerfile"
        dockerfile = (document.mark(*under, "build"), _joined(context, inner), context)
    mark = document.mark(*under, "conda_file")
    return Environment(
        base=(document.mark(*under, "image"), base) if base else None,
        conda=(mark, _joined(document.folder, conda)) if conda else None,
        inline_conda=mark if isinstance(document.node(*under, "conda_file"), MapNode) else None,
        dockerfile=dockerfile,
    )


# Run configurations of SDK v1


def _runconfig(document: Document) -> Candidate:
    # SDK v1 keeps them in `.azureml` or `aml_config` of the folder that it sends.
    folder, _, last = document.folder.rpartition("/")
    code = folder if last in (".azureml", "aml_config") else document.folder
    image, packages = ("environment", "docker", "baseImage"), ("environment", "python", "condaDependenciesFile")
    base, conda = document.said(*image), document.said(*packages)
    return Candidate(
        path=document.path,
        noun="run configuration of SDK v1",
        mark=document.mark("script" if document.said("script") else "command"),
        what=_v1_command(document),
        code=code or ".",
        environment=Environment(
            base=(document.mark(*image), base) if base else None,
            conda=(document.mark(*packages), _joined(code, conda)) if conda else None,
        ),
        document=document,
    )


def _v1_command(document: Document) -> str:
    words = [text for _, text in document.items("command")] or [document.said("command")]
    if any(words):
        return " ".join(words)
    return shlex.join(["python", document.said("script"), *(text for _, text in document.items("arguments"))])


# Scripts


def _scripts(project: Project) -> list[Candidate]:
    """Return the likeliest training script if one is, else all of them."""
    files = training_scripts(project)
    ranks = sorted(rank(file) for file in files)
    if len(files) < 2 or ranks[0] == ranks[1]:
        return [script_of(project, file) for file in files]
    chosen = min(files, key=rank)
    others = ", ".join(file.path for file in files if file is not chosen)
    note = f"{chosen.path}: a guess: it trains by its name; name another with --job: {others}"
    return [script_of(project, chosen, (note,))]
