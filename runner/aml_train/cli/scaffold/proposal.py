"""The jobs to choose from, and the proposed configuration of one: image, tests, gate, model. Pure."""

from __future__ import annotations

import itertools
import posixpath
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from aml_train.cli.scaffold.draft import Candidate, Draft, Environment, Item
from aml_train.cli.scaffold.image import propose_image
from aml_train.cli.scaffold.project import (
    Document,
    Project,
    TextFile,
    above_packages,
    is_submitter,
    nearness,
    unread,
)
from aml_train.cli.scaffold.scripts import entry_points, imports_of, rank, script_of, training_scripts
from aml_train.config.job.script import files_beside_outputs, logged_metrics
from aml_train.config.yaml.nodes import MapNode, Mark

MOST_METRICS: Final = 8
MOST_UNREAD: Final = 5
WORKSPACE: Final = "/workspace"
"""The folder of the tests' container that has the project's files."""

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
    graph = job.noun in ("pipeline job", "sweep job")
    draft = Draft(project=project, job=job, tests=[] if graph else near_tests(project, job), notes=list(job.notes))
    draft.items.append(_job_item(job, asked=asked))
    if not graph:
        image = propose_image(draft)
        if image is not None:
            draft.items.append(image)
        if not draft.tests:
            draft.notes.append(
                "no tests were found (files test_*.py): with `tests`, they run inside the image before the job"
            )
        elif image is not None:
            draft.items.append(_tests(project, draft.tests))
            others = sorted(set(project.tests) - set(draft.tests))
            if others:
                draft.notes.append(f"tests elsewhere were left aside: {', '.join(others[:6])}")
        _gate(draft)
        _model(draft)
    for document in project.of("other job"):
        what = document.said("type") or "another"
        draft.notes.append(f"{document.path}:1: a job of the type {what}, which aml-train does not run")
    if job.noun == "script":
        draft.notes += [line for _, line in unread(project)][:MOST_UNREAD]
    draft.notes += [str(fault) for fault in project.faults]
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
    configured = [file.text for file in (*project.pyproject, *project.others)]
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
    for one in imports_of(file):
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


def _gate(draft: Draft) -> None:
    """Propose rules for the metrics that the code logs."""
    found: dict[str, Mark] = {}
    for file in draft.code:
        for name, line in logged_metrics(file.text):
            found.setdefault(name, Mark(file=file.path, line=line))
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


def _model(draft: Draft) -> None:
    """Propose a model: an output with a model's type, or a path that the code writes; note files that nobody gets."""
    lost = [(file.path, *one) for file in draft.code for one in files_beside_outputs(file.text)]
    for file, path, line in lost[:MOST_UNREAD]:
        draft.notes.append(
            f"{file}:{line}: {path} is lost when the job ends: write it into outputs/, as `outputs/{path}`"
        )
    name = Item(key="name", value=re.sub(r"[^A-Za-z0-9._-]+", "-", draft.project.name).strip("-._") or "model")
    document = draft.job.document
    outputs = document.node("outputs") if document is not None else None
    for output in outputs.entries if isinstance(outputs, MapNode) else ():
        if document is not None and (kind := document.said("outputs", output, "type")) in _MODEL_TYPES:
            mark = document.mark("outputs", output)
            value = [name, Item(key="output", value=output, origin=mark), Item(key="type", value=kind)]
            draft.items.append(Item(key="model", value=value, why="a model, as its type says"))
            return
    written = ((mark, match[1]) for file in draft.code for mark, match in file.all(_OUTPUT) if "model" in match[1])
    for mark, path in itertools.islice(written, 1):
        why = "the code writes it: registered after the gate, if you want"
        value = [name, Item(key="path", value=path, origin=mark)]
        draft.items.append(Item(key="model", value=value, why=why, proposed=True))


# The jobs to choose from


def candidates(project: Project) -> list[Candidate]:
    """Return the jobs to choose from: those of the most certain kind that exists."""
    for found in (project.of("command"), project.of("pipeline", "sweep"), project.of("runconfig")):
        if found:
            return [_of_document(project, document) for document in found]
    return _scripts(project)


def named(project: Project, path: str) -> Candidate | None:
    """Return the job of a file, of any kind; None if it has none."""
    documents = project.of("command", "pipeline", "sweep", "runconfig")
    jobs = (_of_document(project, one) for one in documents if one.path == path)
    scripts = (script_of(project, one) for one in project.scripts if one.path == path and not is_submitter(one))
    return next(itertools.chain(jobs, scripts), None)


def _job_item(candidate: Candidate, *, asked: bool) -> Item:
    """Return the key ``job`` or ``runconfig`` for a candidate."""
    if candidate.noun == "script":
        why = "no job exists yet; this one runs the script"
        return Item(key="job", why=why, origin=candidate.mark, value=list(candidate.items))
    why = "the job that --job names" if asked else f"the only {candidate.noun} here"
    key = "runconfig" if candidate.noun.startswith("run configuration") else "job"
    return Item(key=key, value=candidate.path, why=why, origin=candidate.mark)


def _of_document(project: Project, document: Document) -> Candidate:
    if document.kind == "runconfig":
        return _runconfig(document)
    if document.kind != "command":
        return _graph(document)
    return Candidate(
        path=document.path,
        noun="command job",
        mark=document.mark("command"),
        what=" ".join(document.said("command").split())[:80],
        code=_code(document),
        environment=_environment_of(project, document),
        document=document,
    )


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


def _environment_of(project: Project, document: Document) -> Environment:
    """Return the environment of a command job's YAML."""
    if isinstance(document.node("environment"), MapNode):
        return _described(document, ("environment",))
    named = document.marked("environment")
    if named is None:
        return Environment()
    text = named[1]
    is_file = text.startswith(("file:", ".", "/")) or text.endswith((".yml", ".yaml"))
    name = re.match(r"(?:azureml:)?([^:@/]+)", text)
    for own in project.of("environment"):
        if own.path == _joined(document.folder, text) if is_file else name and own.said("name") == name[1]:
            return _described(own, ())
    return Environment(name=named)


def _described(document: Document, under: tuple[str, ...]) -> Environment:
    """Read the environment that a mapping of a file defines."""
    conda, build = document.marked(*under, "conda_file"), document.marked(*under, "build", "path")
    dockerfile = None
    if build:
        context = _joined(document.folder, build[1])
        inner = document.said(*under, "build", "dockerfile_path") or "Dockerfile"
        dockerfile = (document.mark(*under, "build"), _joined(context, inner), context)
    listed = isinstance(document.node(*under, "conda_file"), MapNode)
    return Environment(
        base=document.marked(*under, "image"),
        conda=(conda[0], _joined(document.folder, conda[1])) if conda else None,
        inline_conda=document.mark(*under, "conda_file") if listed else None,
        dockerfile=dockerfile,
    )


# Run configurations of SDK v1


def _runconfig(document: Document) -> Candidate:
    # SDK v1 keeps them in `.azureml` or `aml_config` of the folder that it sends.
    folder, _, last = document.folder.rpartition("/")
    code = folder if last in (".azureml", "aml_config") else document.folder
    conda = document.marked("environment", "python", "condaDependenciesFile")
    return Candidate(
        path=document.path,
        noun="run configuration of SDK v1",
        mark=document.mark("script" if document.said("script") else "command"),
        what=document.said("script") or document.said("command"),
        code=code or ".",
        environment=Environment(
            base=document.marked("environment", "docker", "baseImage"),
            conda=(conda[0], _joined(code, conda[1])) if conda else None,
        ),
        document=document,
    )


# Scripts


def _scripts(project: Project) -> list[Candidate]:
    """Return the likeliest training script if one is, else all of them."""
    files = training_scripts(project)
    if not files:
        return list(entry_points(project))
    ranks = sorted(rank(file) for file in files)
    if len(files) < 2 or ranks[0] == ranks[1]:
        return [script_of(project, file) for file in files]
    chosen = min(files, key=rank)
    others = ", ".join(file.path for file in files if file is not chosen)
    note = f"{chosen.path}: a guess: it trains by its name; name another with --job: {others}"
    return [script_of(project, chosen, (note,))]
