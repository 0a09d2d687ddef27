"""The image that is proposed: from the job's environment, else from what lies nearest to the job's code. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aml_train.cli.scaffold.candidates import Candidate
from aml_train.cli.scaffold.documents import Document
from aml_train.cli.scaffold.draft import Item
from aml_train.cli.scaffold.project import Project, TextFile, nearness
from aml_train.config import Mark

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
DEFAULT_PYTHON = "3.11"
_TRACKING = re.compile(r"^\s*(?:import|from)\s+(mlflow|azureml\.core)\b", re.MULTILINE)
_INSTALLS = r"(?:COPY|ADD)\b.*requirements|pip3? install.*-r|conda env (?:create|update)"
_GPU = re.compile(r"^\s*(torch|tensorflow-gpu|jax\[cuda|nvidia-|cupy|onnxruntime-gpu)", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Image:
    """The key ``image``, or None where the job keeps its environment.

    Attributes:
        has_pytest: whether what is installed names pytest; None where that cannot be seen.
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
            f"{given.inline_conda.where}: the job's conda packages stand in the job itself: "
            "move them into a file of their own and name it in `image.conda`"
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
            "tests run inside an image of your own: add `image`"
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
    """Return the image to build from: Python's own, in the version that the project wants."""
    version, mark = _python(project, job, conda)
    why = "the project's Python" if mark else "a guess: nothing says which Python"
    return Item(key="base", value=f"python:{version}-slim-bookworm", why=why, origin=mark)


def _python(project: Project, job: Candidate, conda: Document | None) -> tuple[str, Mark | None]:
    if conda is not None:
        for mark, text in conda.items("dependencies"):
            match = re.fullmatch(r"python\s*[=<>~]+\s*(\d\.\d+).*", text)
            if match and match[1] in PYTHONS:
                return match[1], mark
    near = sorted(project.others.values(), key=lambda one: nearness(one.path, job.code))
    files = [
        (one, r"^(?:python-)?(\d\.\d+)")
        for one in near
        if one.path.rpartition("/")[2] in (".python-version", "runtime.txt")
    ]
    files += [(one, r"^requires-python\s*=\s*[\"'][^\"'\d]*(\d\.\d+)") for one, _ in project.pyproject]
    files += [
        (TextFile(path=one.path, text=one.text), r"python-version:\s*[\[\"' ]*(\d\.\d+)")
        for one in project.of("workflow")
    ]
    for file, pattern in files:
        found = file.first(pattern)
        if found and found[1][1] in PYTHONS:
            return found[1][1], found[0]
    return DEFAULT_PYTHON, None


def _tracking(project: Project, job: Candidate, installed: str) -> list[Item]:
    """Return the key ``azureml-mlflow`` where the code tracks with MLflow and nothing installs AzureML's plug-in."""
    if re.search(r"azureml-(mlflow|defaults)", installed):
        return []
    for file in project.scripts:
        if not _inside(file.path, job.code):
            continue
        match = _TRACKING.search(file.text)
        if match:
            why = f"the code imports {match[1]}, and nothing installs AzureML's plug-in"
            key = "azureml-mlflow" if match[1] == "mlflow" else "azureml-defaults"
            return [Item(key=key, value="latest", why=why, origin=file.mark(match))]
    return []


def _inside(path: str, folder: str) -> bool:
    return folder in ("", ".") or path.startswith(f"{folder}/")


def _dependencies(said: object) -> list[str]:
    project = said.get("project") if isinstance(said, dict) else None
    found = project.get("dependencies") if isinstance(project, dict) else None
    return [str(one) for one in found] if isinstance(found, list) else []


def _names_pytest(text: str) -> bool:
    return re.search(r"^[\s\"'-]*pytest\b", text, re.MULTILINE) is not None


def _more(notes: list[str], what: str, paths: Sequence[str]) -> None:
    if len(paths) > 1:
        notes.append(f"other {what} were found and left aside: {', '.join(paths[1:6])}")
