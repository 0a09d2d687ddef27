"""The proposed image: of the job's environment, else of nearby files. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from aml_train.cli.scaffold.candidates import Candidate
from aml_train.cli.scaffold.draft import Item
from aml_train.cli.scaffold.packages import declared, from_imports, loaded_by, without_paths
from aml_train.cli.scaffold.project import Document, Project, TextFile, folder_of, nearness
from aml_train.cli.scaffold.python_version import PYTHONS, choose_python
from aml_train.cli.scaffold.submitted import is_submitter
from aml_train.config import Mark

_TRACKING: Final = re.compile(r"^\s*(?:import|from)\s+(mlflow|azureml\.core)\b", re.MULTILINE)
_INSTALLS: Final = r"(?:COPY|ADD)\b.*requirements|pip3? install.*-r|conda env (?:create|update)|MLNX_OFED|mlnxofedinstall|^FROM\s+nvcr\.io"
_SERVES: Final = re.compile(r"\b(?:uvicorn|gunicorn|flask run|streamlit|fastapi|bentoml|azmlinfsrv|torchserve)\b")
_GPU: Final = re.compile(
    r"^\s*(torch|tensorflow-gpu|jax\[cuda|nvidia-|cupy|onnxruntime-gpu)", re.MULTILINE | re.IGNORECASE
)
_OTHER_PURPOSE: Final = re.compile(r"dev|test|doc|lint|ci\b|deploy|serv|scor|inference|monitor")

MPI_BASE: Final = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04"
"""Azure's image with Open MPI and Python: https://github.com/Azure/AzureML-Containers."""

_OFED_LINE: Final = re.compile(r"MLNX_OFED|mlnxofedinstall")
_OFED: Final = r"(?:MOFED_VER(?:SION)?[ =]+|MLNX_OFED_LINUX-)[\"']?(\d+\.\d+-\d+(?:\.\d+)+)"


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
    if given.inline_conda is not None and given.pip is None:
        notes.append(
            f"{given.inline_conda.where}: the conda packages are listed in the job itself: "
            "move them into a file and name it in `image.conda`"
        )
    if given.dockerfile is not None:
        mark, path, context = given.dockerfile
        return _from_dockerfile(path, context, mark, "the job's environment is built from it", notes)
    base = given.base
    if given.pip is not None:
        mark, names = given.pip
        listed = Item(key="pip", value="", why="the packages of the job's environment", origin=mark)
        return _from_list(project, job, names, listed, notes, needs_pytest)
    if given.conda is not None:
        mark, path = given.conda
        return _from_conda(project, job, path, mark, base, notes, needs_pytest=needs_pytest)
    if base is not None:
        mark, text = base
        items = [Item(key="base", value=text, why="the image of the job's environment", origin=mark)]
        items += _tracking(project, job, "")
        return Image(item=Item(key="image", value=items), has_pytest=None, notes=tuple(notes))
    return _from_files(project, job, notes, needs_pytest=needs_pytest)


def _from_files(project: Project, job: Candidate, notes: list[str], *, needs_pytest: bool) -> Image:
    name = job.environment.name
    instead = f"; replaces the job's environment {name[1]}" if name else ""
    conda = [one for one in project.of("conda") if not _is_of_others(project, job, one.path)]
    conda.sort(key=lambda one: _fitness(one.path, job.code))
    usable = [one for one in project.requirements if not _is_of_others(project, job, one.path)]
    requirements = _for_training(usable, job)
    dockerfiles = _dockerfiles(project, job, notes)
    whole = next(
        ((one, found[0]) for one in dockerfiles if (found := one.first(_INSTALLS, re.IGNORECASE | re.MULTILINE))),
        None,
    )
    packages = declared(project, job.code)
    if whole is not None and (not conda or "conda" in whole[0].text or _OFED_LINE.search(whole[0].text)):
        file, mark = whole
        why = (
            "it describes the environment"
            if file.first(r"^FROM\s+nvcr\.io|OFED")
            else "it installs the project's requirements"
        )
        notes += _offer(file)
        notes += [
            f"{one.path}:1: left aside: {file.path} does not install it"
            for one in requirements
            if one.path.rpartition("/")[2] not in file.text
        ]
        return _from_dockerfile(file.path, file.folder or ".", mark, why + instead, notes)
    if conda:
        _more(notes, "conda files", [one.path for one in conda])
        first = conda[0]
        mark = first.mark("dependencies")
        return _from_conda(project, job, first.path, mark, None, notes, instead, needs_pytest=needs_pytest)
    if requirements:
        _more(notes, "requirements files", [one.path for one in requirements])
        return _from_requirements(project, job, requirements[0], notes, instead, needs_pytest=needs_pytest)
    if packages is not None:
        why = "the project's dependencies" + instead
        return _from_list(
            project,
            job,
            packages.requirements,
            Item(key="pip", value="", why=why, origin=packages.mark),
            notes,
            needs_pytest,
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
    return _from_code(project, job, notes, needs_pytest=needs_pytest)


def _fitness(path: str, code: str) -> tuple[bool, int, bool, int, str]:
    """Return a sort key: other purposes last, the nearest first, then training."""
    away, depth, _ = nearness(path, code)
    return bool(_OTHER_PURPOSE.search(path.lower())), away, "train" not in path.lower(), depth, path


def _is_of_others(project: Project, job: Candidate, path: str) -> bool:
    """Return whether a file describes the environment of other code, next to it."""
    folder, code = folder_of(path), "" if job.code == "." else job.code
    if not folder or f"{code}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{code}/" if code else ""):
        return False
    return any(one.folder == folder for one in project.scripts)


def _from_code(project: Project, job: Candidate, notes: list[str], *, needs_pytest: bool) -> Image:
    """Return an image with the well-known packages that the code imports."""
    imported = from_imports(project, _command(job), job.code)
    plugin = _tracking(project, job, "")
    names = [name for name, _ in imported if not (plugin and name.startswith(("mlflow-skinny", "azureml")))]
    if not names:
        notes.append("nothing says which packages the job needs: list them under `image.pip`")
    listed = [*names, *(["pytest"] if needs_pytest and "pytest" not in names else [])]
    items = [_base(project, job), *plugin]
    if listed:
        why = "a guess: the code imports them, and nothing lists packages" if names else "the tests need it"
        items.insert(1, Item(key="pip", value=listed, why=why, origin=imported[0][1] if names else None))
    return Image(item=Item(key="image", value=items), has_pytest=needs_pytest, notes=tuple(notes))


def _from_list(
    project: Project, job: Candidate, names: Sequence[str], pip: Item, notes: list[str], needs_pytest: bool
) -> Image:
    text = "\n".join(names)
    listed = [*names, "pytest"] if needs_pytest and not names_pytest(text) else list(names)
    items = [_base(project, job), replace(pip, value=listed), *_tracking(project, job, text)]
    return Image(item=Item(key="image", value=items), has_pytest=names_pytest("\n".join(listed)), notes=tuple(notes))


def _dockerfiles(project: Project, job: Candidate, notes: list[str]) -> list[TextFile]:
    """Return the Dockerfiles nearest to the code, without those of services."""
    found = sorted(project.dockerfiles, key=lambda one: nearness(one.path, job.code))
    found = [one for one in found if not _is_of_others(project, job, one.path)]
    serving = [one for one in found if _SERVES.search(one.text) and not _OFED_LINE.search(one.text)]
    notes += [f"{one.path}:1: left aside: it starts a service" for one in serving]
    return [one for one in found if one not in serving]


def _offer(file: TextFile) -> list[str]:
    """Return the note on a Dockerfile that installs MLNX_OFED: two keys do the same."""
    found = file.first(_OFED)
    if found is None:
        return []
    base = next((match[1] for _, match in file.all(r"^FROM\s+([^\s$]+)")), None)
    base = base or next((match[1] for _, match in file.all(r"^ARG\s+\w+=[\"']?([\w./-]+:[\w.-]+)")), "IMAGE")
    keys = f"{{base: {base}, ofed: {{source: mlnx_ofed, version: {found[1][1]}}}}}"
    return [
        f"{found[0].where}: the Dockerfile is kept; `image: {keys}` installs the same drivers, checked: docs/image.md"
    ]


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
    *,
    needs_pytest: bool,
) -> Image:
    document = next((one for one in project.documents if one.path == path), None)
    text = document.text if document else ""
    if base is not None:
        first = Item(key="base", value=base[1], why="the image of the job's environment", origin=base[0])
    else:
        first = _base(project, job, document)
    why = "the job's conda file" if job.environment.conda else "the conda file nearest to the job's code"
    items = [first, Item(key="conda", value=path, why=why + instead, origin=mark), *_tracking(project, job, text)]
    if needs_pytest and not names_pytest(text):
        why = "the tests need it, and the conda file does not name it"
        items.insert(2, Item(key="pip", value=["pytest"], why=why))
    return Image(
        item=Item(key="image", value=items), has_pytest=needs_pytest or names_pytest(text), notes=tuple(notes)
    )


def _from_requirements(
    project: Project,
    job: Candidate,
    file: TextFile,
    notes: list[str],
    instead: str,
    *,
    needs_pytest: bool,
) -> Image:
    why = "the requirements file nearest to the job's code" + instead
    gpu = _GPU.search(file.text)
    if gpu and re.search(r"gpu|a100|h100|v100|nd\d|nc\d", _compute(job).lower()):
        notes.append(
            f"{file.mark(gpu).where}: for GPUs, a base that has {gpu[1]} and CUDA may serve better, "
            "such as nvcr.io/nvidia/pytorch:24.10-py3"
        )
    mark = Mark(file=file.path, line=1)
    rest = without_paths(file)
    if rest is not None:
        place, names = rest
        own = declared(project, file.folder or ".")
        names = (*names, *(one for one in (own.requirements if own else ()) if one not in names))
        pip = Item(
            key="pip", value="", why=f"{file.path} without the project itself, which is the job's code", origin=place
        )
        return _from_list(project, job, names, pip, notes, needs_pytest)
    has_pytest = names_pytest(file.text)
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


def _command(job: Candidate) -> str:
    if job.document is not None and job.kind == "command":
        return job.document.said("command")
    return next((str(item.value) for item in job.items if item.key == "command"), job.what)


def _compute(job: Candidate) -> str:
    if job.document is not None:
        return job.document.said("compute")
    return next((str(item.value) for item in job.items if item.key == "compute"), "")


def _for_training(files: Sequence[TextFile], job: Candidate) -> list[TextFile]:
    """Return the requirements files that training may need, the likeliest first."""
    fit = [one for one in files if not _OTHER_PURPOSE.search(one.path.rpartition("/")[2])]

    def key(file: TextFile) -> tuple[int, int, int, str]:
        name = file.path.rpartition("/")[2]
        plain = 0 if name == "requirements.txt" else 1 if "train" in name else 2
        away, depth, path = nearness(file.path, job.code)
        return away, plain, depth, path

    return sorted((one for one in fit if one.path.endswith(".txt")), key=key)


def _base(project: Project, job: Candidate, conda: Document | None = None) -> Item:
    """Return the base image: that of the job's environment, else Python's own."""
    given = job.environment
    mpi = _distribution(job) == "mpi"
    if given.base is not None and (mpi or given.python is None or given.base[1].startswith("python:")):
        return Item(key="base", value=given.base[1], why="the image of the job's environment", origin=given.base[0])
    if mpi:
        return Item(key="base", value=MPI_BASE, why="a guess: an image with mpirun, which Python's own lacks")
    if given.python is not None and given.python[1] in PYTHONS:
        mark, version = given.python
        instead = f", instead of {given.base[1]}" if given.base else ""
        why = f"a guess: the Python of the job's environment{instead}"
        return Item(key="base", value=f"python:{version}-slim-bookworm", why=why, origin=mark)
    python = choose_python(project, job.code, conda)
    return Item(key="base", value=f"python:{python.version}-slim-bookworm", why=python.why, origin=python.mark)


def _distribution(job: Candidate) -> str:
    return (
        job.document.said("distribution", "type").lower()
        if job.document is not None and job.kind == "command"
        else ""
    )


def _tracking(project: Project, job: Candidate, installed: str) -> list[Item]:
    """Return the key that adds AzureML's plug-in, if the code tracks and lacks it."""
    if re.search(r"azureml-(mlflow|defaults)", installed):
        return []
    loaded = loaded_by(project, _command(job), job.code)
    for file in [one for one in code_of_job(project, job) if not loaded or one.path in loaded]:
        match = _TRACKING.search(file.text)
        if match:
            why = f"the code imports {match[1]}, and nothing installs AzureML's plug-in"
            key = "azureml-mlflow" if match[1] == "mlflow" else "azureml-defaults"
            return [Item(key=key, value="latest", why=why, origin=file.mark(match))]
    return []


def names_pytest(text: str) -> bool:
    """Return whether a list of packages has pytest."""
    return re.search(r"^[\s\"'-]*pytest\b", text, re.MULTILINE) is not None


def _more(notes: list[str], what: str, paths: Sequence[str]) -> None:
    if len(paths) > 1:
        notes.append(f"other {what} were found and left aside: {', '.join(paths[1:6])}")


def code_of_job(project: Project, job: Candidate) -> list[TextFile]:
    """Return the Python files of the job's code, without those that submit jobs."""
    inside = (one for one in project.scripts if job.code in ("", ".") or one.path.startswith(f"{job.code}/"))
    return [one for one in inside if not is_submitter(one)]
