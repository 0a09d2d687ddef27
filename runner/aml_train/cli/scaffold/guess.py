"""The proposed configuration of a job: image, tests, gate, model. Pure."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

from aml_train.cli.scaffold.candidates import Candidate, job_item
from aml_train.cli.scaffold.draft import Draft, Item
from aml_train.cli.scaffold.project import Document, Project, TextFile, nearness
from aml_train.cli.scaffold.python_version import choose_python
from aml_train.config import MapNode, Mark

MOST_METRICS = 8
_METRIC = r"""\blog_metric\(\s*(?:key\s*=\s*)?["']([^"'{}]+)["']|\brun\.log\(\s*["']([^"'{}]+)["']"""
_METRICS = r"""\blog_metrics\(\s*\{([^{}]*)\}"""
_LESS = re.compile(r"loss|error|err\b|mse|mae|rmse|perplexity|latency", re.IGNORECASE)
_OUTPUT = r"""["'](?:\./)?(outputs/[\w./-]+)["']"""
_MODEL_TYPES = ("custom_model", "mlflow_model", "triton_model")
_PYTEST_LINE = r"^[\s-]*(?:run:\s*)?((?:python3? -m )?pytest\b[^|&;$<>\n#`{}]*)$"
_TRACKING = re.compile(r"^\s*(?:import|from)\s+(mlflow|azureml\.core)\b", re.MULTILINE)
_INSTALLS = r"(?:COPY|ADD)\b.*requirements|pip3? install.*-r|conda env (?:create|update)"
_GPU = re.compile(r"^\s*(torch|tensorflow-gpu|jax\[cuda|nvidia-|cupy|onnxruntime-gpu)", re.MULTILINE | re.IGNORECASE)


def propose(project: Project, job: Candidate, *, asked: bool) -> Draft:
    """Return the configuration for a job.

    Args:
        project: what was found.
        job: the job that was chosen.
        asked: whether the user named it.
    """
    draft = Draft(items=[job_item(job, asked=asked)])
    folders = _near_tests(project, job)
    unittest = bool(folders) and all(_is_unittest(file) for folder in folders for file in project.tests[folder])
    image = guess_image(project, job, needs_pytest=bool(folders) and not unittest)
    if image.item is not None:
        draft.items.append(image.item)
    draft.notes += image.notes
    _tests(project, image, folders, draft, unittest=unittest)
    _gate(project, job, draft)
    _model(project, job, draft)
    _look_around(project, job, draft)
    return draft


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


def _is_unittest(file: TextFile) -> bool:
    return re.search(r"^\s*(import|from)\s+unittest\b", file.text, re.MULTILINE) is not None and not re.search(
        r"^\s*(import|from)\s+pytest\b", file.text, re.MULTILINE
    )


def _tests(project: Project, image: Image, folders: list[str], draft: Draft, *, unittest: bool) -> None:
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
    draft.items.append(Item(key="tests", value=[Item(key="command", value=command, why=why, origin=origin)]))
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


def _gate(project: Project, job: Candidate, draft: Draft) -> None:
    found: dict[str, Mark] = {}
    for file in _code(project, job):
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


def _model(project: Project, job: Candidate, draft: Draft) -> None:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", project.name).strip("-._") or "model"
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
    for file in _code(project, job):
        for mark, match in file.all(_OUTPUT):
            if "model" in match[1]:
                value = [Item(key="name", value=name), Item(key="path", value=match[1], origin=mark)]
                why = "the code writes it: registered after the gate, if you want"
                draft.items.append(Item(key="model", value=value, why=why, proposed=True))
                return


def _code(project: Project, job: Candidate) -> list[TextFile]:
    return [one for one in project.scripts if job.code in ("", ".") or one.path.startswith(f"{job.code}/")]


def _look_around(project: Project, job: Candidate, draft: Draft) -> None:
    for document in project.of("other job"):
        what = document.said("type") or "another"
        draft.notes.append(f"{document.path}:1: a job of the type {what}: aml-train runs command jobs alone")
    if job.kind == "command":
        for document in project.of("runconfig"):
            draft.notes.append(f"{document.path}:1: a run configuration of SDK v1 was left aside")
    for document in project.of("workflow"):
        found = TextFile(path=document.path, text=document.text).first(r"uses:\s*\S*(azure/aml-\w+|aml-run)\S*")
        if found:
            draft.notes.append(f"{found[0].where}: {found[1][1]}: docs/migration.md says how to come from there")
    for path, file in sorted(project.others.items()):
        if path in ("config.json", ".azureml/config.json") and _is_workspace(file.text):
            draft.notes.append(f"{path}:1: it names a workspace: for runs in Azure add `targets: {{azure: {{}}}}`")
    if project.truncated:
        draft.notes.append("the folder holds very many files: not all of them were looked at")
    draft.notes += [str(fault) for fault in project.faults]


def _is_workspace(text: str) -> bool:
    try:
        said = json.loads(text)
    except ValueError:
        return False
    return isinstance(said, dict) and {"subscription_id", "resource_group", "workspace_name"} <= set(said)


# The image: from the job's environment, else from what is nearest to the job's code


@dataclass(frozen=True, kw_only=True)
class Image:
    """The key ``image``, or None if the job keeps its environment.

    Attributes:
        has_pytest: whether the installed packages include pytest; None if unknown.
        notes: what the user should know.
    """

    item: Item | None
    has_pytest: bool | None = None
    notes: tuple[str, ...] = ()


def guess_image(project: Project, job: Candidate, *, needs_pytest: bool) -> Image:
    """Return the image for a job.

    Args:
        project: what was found.
        job: the job that was chosen.
        needs_pytest: whether tests are to run in the image by pytest.
    """
    given = job.environment
    notes: list[str] = []
    if given.inline_conda is not None:
        notes.append(
            f"{given.inline_conda.where}: the conda packages are listed in the job itself: "
            "move them into a file and name it in `image.conda`"
        )
    if given.dockerfile is not None:
        mark, path, context = given.dockerfile
        return _from_dockerfile(path, context, mark, "the job's environment is built from it", notes)
    base = given.base
    if given.conda is not None:
        return _from_conda(project, job, given.conda[1], given.conda[0], base, notes)
    if base is not None:
        mark, text = base
        items = [Item(key="base", value=text, why="the image of the job's environment", origin=mark)]
        items += _tracking(project, job, "")
        return Image(item=Item(key="image", value=items), has_pytest=None, notes=tuple(notes))
    return _from_files(project, job, notes, needs_pytest=needs_pytest)


def _from_files(project: Project, job: Candidate, notes: list[str], *, needs_pytest: bool) -> Image:
    name = job.environment.name
    instead = f"; replaces the job's environment {name[1]}" if name else ""
    conda = sorted(project.of("conda"), key=lambda one: nearness(one.path, job.code))
    requirements = _for_training(project.requirements, job)
    dockerfiles = sorted(project.dockerfiles, key=lambda one: nearness(one.path, job.code))
    whole = next(
        ((one, found[0]) for one in dockerfiles if (found := one.first(_INSTALLS, re.IGNORECASE | re.MULTILINE))),
        None,
    )
    projects = sorted(project.pyproject, key=lambda one: nearness(one[0].path, job.code))
    packages = next(((file, names) for file, said in projects if (names := _dependencies(said))), None)
    if whole is not None and (not conda or "conda" in whole[0].text):
        file, mark = whole
        why = "it installs the project's requirements" + instead
        return _from_dockerfile(file.path, file.folder or ".", mark, why, notes)
    if conda:
        _more(notes, "conda files", [one.path for one in conda])
        first = conda[0]
        return _from_conda(project, job, first.path, first.mark("dependencies"), None, notes, instead)
    if requirements:
        _more(notes, "requirements files", [one.path for one in requirements])
        return _from_requirements(project, job, requirements[0], notes, instead, needs_pytest=needs_pytest)
    if packages is not None:
        file, names = packages
        found = file.first(r"^dependencies\s*=")
        mark = found[0] if found else Mark(file=file.path, line=1)
        listed = [*names, "pytest"] if needs_pytest and not _names_pytest("\n".join(names)) else names
        pip = Item(key="pip", value=listed, why="the project's dependencies" + instead, origin=mark)
        items = [_base(project, job), pip, *_tracking(project, job, "\n".join(names))]
        return Image(
            item=Item(key="image", value=items), has_pytest=_names_pytest("\n".join(listed)), notes=tuple(notes)
        )
    if dockerfiles:
        file = dockerfiles[0]
        why = "the only description of an environment here" + instead
        return _from_dockerfile(file.path, file.folder or ".", Mark(file=file.path, line=1), why, notes)
    if name is not None:
        notes.append(
            f"{name[0].where}: the job keeps its environment {name[1]}, as nothing here says what is in it; "
            "tests run only inside an image that aml-train builds: add `image`"
        )
        return Image(item=None, notes=tuple(notes))
    notes.append("nothing says which packages the job needs: list them under `image.pip`")
    items = [_base(project, job), *_tracking(project, job, "")]
    if needs_pytest:
        items.append(Item(key="pip", value=["pytest"], why="the tests need it"))
    return Image(item=Item(key="image", value=items), has_pytest=needs_pytest, notes=tuple(notes))


def _from_dockerfile(path: str, context: str, mark: Mark, why: str, notes: list[str]) -> Image:
    items = [Item(key="file", value=path, why=why, origin=mark)]
    if context != (path.rpartition("/")[0] or "."):
        items.append(Item(key="context", value=context, origin=mark))
    item = Item(key="image", value=[Item(key="dockerfile", value=items)])
    return Image(item=item, has_pytest=None, notes=tuple(notes))


def _from_conda(
    project: Project,
    job: Candidate,
    path: str,
    mark: Mark,
    base: tuple[Mark, str] | None,
    notes: list[str],
    instead: str = "",
) -> Image:
    document = next((one for one in project.documents if one.path == path), None)
    text = document.text if document else ""
    if base is not None:
        first = Item(key="base", value=base[1], why="the image of the job's environment", origin=base[0])
    else:
        first = _base(project, job, document)
    why = "the job's conda file" if job.environment.conda else "the conda file nearest to the job's code"
    items = [first, Item(key="conda", value=path, why=why + instead, origin=mark), *_tracking(project, job, text)]
    return Image(item=Item(key="image", value=items), has_pytest=_names_pytest(text), notes=tuple(notes))


def _from_requirements(
    project: Project, job: Candidate, file: TextFile, notes: list[str], instead: str, *, needs_pytest: bool
) -> Image:
    why = "the requirements file nearest to the job's code" + instead
    has_pytest = _names_pytest(file.text)
    for mark, match in file.all(r"^\s*(?:-e\s+\S+|\.{1,2}/\S*|\.$)"):
        notes.append(
            f"{mark.where}: `{match[0].strip()}` is a path of this machine: copy it into the image, or leave it out"
        )
    gpu = _GPU.search(file.text)
    if gpu and re.search(
        r"gpu|a100|h100|v100|nd\d|nc\d", (job.document.said("compute") if job.document else "").lower()
    ):
        notes.append(
            f"{file.mark(gpu).where}: for GPUs, a base that has {gpu[1]} and CUDA may serve better, "
            "such as nvcr.io/nvidia/pytorch:24.10-py3"
        )
    mark = Mark(file=file.path, line=1)
    if needs_pytest and not has_pytest:
        also = Item(key="packages", value=["pytest"], why=f"the tests need it, and {file.path} does not name it")
        value: Sequence[Item] = [Item(key="requirements", value=file.path, why=why, origin=mark), also]
        pip = Item(key="pip", value=value)
    else:
        pip = Item(key="pip", value=file.path, why=why, origin=mark)
    items = [_base(project, job), pip, *_tracking(project, job, file.text)]
    return Image(
        item=Item(key="image", value=items), has_pytest=True if needs_pytest else has_pytest, notes=tuple(notes)
    )


def _for_training(files: Sequence[TextFile], job: Candidate) -> list[TextFile]:
    """Return the requirements files that training may need, the likeliest first."""
    fit = [
        one
        for one in files
        if not re.search(r"dev|test|doc|lint|ci\b|deploy|serv|score", one.path.rpartition("/")[2])
    ]

    def key(file: TextFile) -> tuple[int, int, int, str]:
        name = file.path.rpartition("/")[2]
        plain = 0 if name == "requirements.txt" else 1 if "train" in name else 2
        away, depth, path = nearness(file.path, job.code)
        return away, plain, depth, path

    return sorted((one for one in fit if one.path.endswith(".txt")), key=key)


def _base(project: Project, job: Candidate, conda: Document | None = None) -> Item:
    """Return the base image: Python's, in the version that the project requires."""
    python = choose_python(project, job.code, conda)
    return Item(key="base", value=f"python:{python.version}-slim-bookworm", why=python.why, origin=python.mark)


def _tracking(project: Project, job: Candidate, installed: str) -> list[Item]:
    """Return the key that adds AzureML's plug-in, if the code tracks and lacks it."""
    if re.search(r"azureml-(mlflow|defaults)", installed):
        return []
    for file in _code(project, job):
        match = _TRACKING.search(file.text)
        if match:
            why = f"the code imports {match[1]}, and nothing installs AzureML's plug-in"
            key = "azureml-mlflow" if match[1] == "mlflow" else "azureml-defaults"
            return [Item(key=key, value="latest", why=why, origin=file.mark(match))]
    return []


def _dependencies(said: object) -> list[str]:
    project = said.get("project") if isinstance(said, dict) else None
    found = project.get("dependencies") if isinstance(project, dict) else None
    return [str(one) for one in found] if isinstance(found, list) else []


def _names_pytest(text: str) -> bool:
    return re.search(r"^[\s\"'-]*pytest\b", text, re.MULTILINE) is not None


def _more(notes: list[str], what: str, paths: Sequence[str]) -> None:
    if len(paths) > 1:
        notes.append(f"other {what} were found and left aside: {', '.join(paths[1:6])}")
