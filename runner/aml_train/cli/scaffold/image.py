"""The proposed image: of the job's environment, else of files near its code, else of what the code imports. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from aml_train.cli.scaffold.draft import Draft, Item
from aml_train.cli.scaffold.project import Document, Project, TextFile, folder_of, nearness
from aml_train.cli.scaffold.scripts import find_module, imports_of
from aml_train.config.yaml.nodes import Mark

_File = TypeVar("_File", Document, TextFile)
_TRACKING: Final = re.compile(r"^\s*(?:import|from)\s+(mlflow|azureml\.core)\b", re.MULTILINE)
_INSTALLS: Final = r"(?:COPY|ADD)\b.*requirements|pip3? install.*-r|conda env (?:create|update)|MLNX_OFED|mlnxofedinstall|^FROM\s+nvcr\.io"
_SERVES: Final = re.compile(r"\b(?:uvicorn|gunicorn|flask run|streamlit|fastapi|bentoml|azmlinfsrv|torchserve)\b")
_OTHER_PURPOSE: Final = re.compile(r"dev|test|doc|lint|ci\b|deploy|serv|scor|inference|monitor")
_PATH_LINE: Final = r"^[ \t]*(?:(?:-e|--editable)[ =]\S*|\.{1,2}(?:/\S*|\[[^\]]*\])?[ \t]*$|file:\S+)"

MPI_BASE: Final = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04"
"""Azure's image with Open MPI and Python: https://github.com/Azure/AzureML-Containers."""

_PACKAGES: Final = {
    "PIL": "pillow",
    "azureml": "azureml-defaults",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "hydra": "hydra-core",
    "imblearn": "imbalanced-learn",
    "mlflow": "mlflow-skinny",
    "pytorch_lightning": "pytorch-lightning",
    "sentence_transformers": "sentence-transformers",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Module → the distribution that installs it, if their names differ."""

_SAME_NAME: Final = frozenset([
    "accelerate", "catboost", "datasets", "fsspec", "h5py", "jax", "joblib", "keras", "lightgbm", "lightning",
    "matplotlib", "mpi4py", "numpy", "omegaconf", "onnx", "openpyxl", "pandas", "polars", "psutil", "pyarrow",
    "requests", "safetensors", "scipy", "seaborn", "sentencepiece", "shap", "spacy", "statsmodels", "tensorboard",
    "tensorflow", "tokenizers", "torch", "torchaudio", "torchmetrics", "torchvision", "tqdm", "transformers",
    "xgboost",
])  # fmt: skip
"""Distributions whose module has their own name. Another module's name is no substitute: anyone may have published it."""


def propose_image(draft: Draft) -> Item | None:
    """Return the key ``image``; None if the job keeps its environment."""
    given = draft.job.environment
    if given.inline_conda is not None:
        draft.notes.append(
            f"{given.inline_conda.where}: the conda packages are listed in the job itself: "
            "move them into a file and name it in `image.conda`"
        )
    if given.dockerfile is not None:
        mark, path, context = given.dockerfile
        items = _from_dockerfile(draft, path, context, mark, "the job's environment is built from it")
    elif given.conda is not None:
        items = _from_conda(draft, given.conda[1], given.conda[0], "the job's conda file")
    elif given.base is not None:
        items = [_base(draft), *_tracking(draft, "")]
        if missing := _missing_pytest(draft, ""):
            items.insert(1, Item(key="pip", value=missing, why="the tests need it"))
    else:
        items = _from_files(draft)
    return Item(key="image", value=items) if items else None


def _instead(draft: Draft) -> str:
    """Return the end of a reason where the job's environment is replaced."""
    name = draft.job.environment.name
    return f"; replaces the job's environment {name[1]}" if name else ""


def _from_files(draft: Draft) -> list[Item]:
    """Return the keys of the image that files near the code describe; none if the job keeps its environment."""
    project, job = draft.project, draft.job
    conda = _near(draft, project.of("conda"))
    requirements = _near(draft, [one for one in project.requirements if one.path.endswith(".txt")])
    requirements = [one for one in requirements if not _OTHER_PURPOSE.search(one.name)]
    dockerfiles = [one for one in _near(draft, project.dockerfiles) if not _SERVES.search(one.text)]
    whole = [(one, found[0]) for one in dockerfiles if (found := one.first(_INSTALLS, re.IGNORECASE | re.MULTILINE))]
    if whole and (not conda or "conda" in whole[0][0].text):
        file, mark = whole[0]
        draft.notes += [
            f"{one.path}:1: left aside: {file.path} does not install it"
            for one in requirements
            if one.name not in file.text
        ]
        return _from_dockerfile(draft, file.path, file.folder or ".", mark, "it installs the packages")
    if conda:
        mark = conda[0].mark("dependencies")
        return _from_conda(draft, conda[0].path, mark, "the conda file nearest to the job's code")
    if requirements:
        return _from_requirements(draft, requirements[0])
    packages = declared(project, draft.home)
    if packages is not None:
        return _from_list(draft, packages[1], packages[0], "the project's dependencies" + _instead(draft))
    if dockerfiles:
        file = dockerfiles[0]
        why = "the only description of an environment here"
        return _from_dockerfile(draft, file.path, file.folder or ".", Mark(file=file.path, line=1), why)
    if job.environment.name is not None:
        mark, name = job.environment.name
        draft.notes.append(
            f"{mark.where}: the job keeps its environment {name}, as nothing here says what is in it; "
            "tests run only inside an image that aml-train builds: add `image`"
        )
        return []
    return _from_code(draft)


def _near(draft: Draft, files: Sequence[_File]) -> list[_File]:
    """Return the files that may describe the job's environment: the nearest first, other purposes last, then training.

    Files next to other code are left out.
    """
    code = "" if draft.home == "." else draft.home

    def of_others(folder: str) -> bool:
        if not folder or f"{code}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{code}/" if code else ""):
            return False
        return any(one.folder == folder for one in draft.project.scripts)

    def fitness(file: _File) -> tuple[bool, int, bool, bool, int, str]:
        away, depth, path = nearness(file.path, code)
        name = path.rpartition("/")[2]
        purpose = bool(_OTHER_PURPOSE.search(path.lower()))
        return purpose, away, name != "requirements.txt", "train" not in path.lower(), depth, path

    return sorted((one for one in files if not of_others(one.folder)), key=fitness)


def _from_dockerfile(draft: Draft, path: str, context: str, mark: Mark, why: str) -> list[Item]:
    file = next((one for one in draft.project.dockerfiles if one.path == path), None)
    text = "" if file is None else file.text
    installed = [text, *(one.text for one in draft.project.requirements if one.name in text)]
    if draft.tests and "pytest" not in "\n".join(installed):
        draft.notes.append(f"{path}:1: the tests need pytest, which it does not install: add it there")
    items = [Item(key="file", value=path, why=why + _instead(draft), origin=mark)]
    if context != (folder_of(path) or "."):
        items.append(Item(key="context", value=context, origin=mark))
    return [Item(key="dockerfile", value=items)]


def _from_conda(draft: Draft, path: str, mark: Mark, why: str) -> list[Item]:
    document = next((one for one in draft.project.documents if one.path == path), None)
    text = document.text if document else ""
    items = [_base(draft, document), Item(key="conda", value=path, why=why + _instead(draft), origin=mark)]
    if missing := _missing_pytest(draft, text):
        items.append(Item(key="pip", value=missing, why="the tests need it, and the conda file does not name it"))
    return [*items, *_tracking(draft, text)]


def _from_requirements(draft: Draft, file: TextFile) -> list[Item]:
    why = "the requirements file nearest to the job's code" + _instead(draft)
    mark = Mark(file=file.path, line=1)
    rest = without_paths(file)
    if rest is not None:
        place, names = rest
        own = declared(draft.project, file.folder or ".")
        names = (*names, *(one for one in (own[1] if own else ()) if one not in names))
        return _from_list(draft, names, place, f"{file.path} without the project itself, which is the job's code")
    pip = Item(key="pip", value=file.path, why=why, origin=mark)
    if missing := _missing_pytest(draft, file.text):
        also = Item(key="packages", value=missing, why=f"the tests need it, and {file.path} does not name it")
        pip = Item(key="pip", value=[Item(key="requirements", value=file.path, why=why, origin=mark), also])
    return [_base(draft), pip, *_tracking(draft, file.text)]


def _from_list(draft: Draft, names: Sequence[str], mark: Mark, why: str) -> list[Item]:
    text = "\n".join(names)
    pip = Item(key="pip", value=[*names, *_missing_pytest(draft, text)], why=why, origin=mark)
    return [_base(draft), pip, *_tracking(draft, text)]


def _from_code(draft: Draft) -> list[Item]:
    """Return an image with the well-known packages that the code imports."""
    plugin = _tracking(draft, "")
    imported = [one for one in _imported(draft) if not (plugin and one[0].startswith(("mlflow-skinny", "azureml")))]
    listed = [*(name for name, _ in imported), *_missing_pytest(draft, "")]
    items = [_base(draft), *plugin]
    if not imported:
        draft.notes.append("nothing says which packages the job needs: list them under `image.pip`")
    if listed:
        why = "a guess: the code imports them, and nothing lists packages" if imported else "the tests need it"
        items.insert(1, Item(key="pip", value=listed, why=why, origin=imported[0][1] if imported else None))
    return items


def _imported(draft: Draft) -> list[tuple[str, Mark]]:
    """Return the well-known packages that the job's code imports, with places."""
    found: dict[str, Mark] = {}
    for file in draft.code:
        for one in imports_of(file):
            top = one.module.partition(".")[0]
            name = _PACKAGES.get(top, top if top in _SAME_NAME else None)
            own = any(find_module(draft.project, top, root) for root in ("", "src", file.folder))
            if name is not None and not one.relative and not own:
                found.setdefault(name, Mark(file=file.path, line=one.line))
    return list(found.items())


def _tracking(draft: Draft, installed: str) -> list[Item]:
    """Return the key that adds AzureML's plug-in, if the code tracks and lacks it."""
    if re.search(r"azureml-(mlflow|defaults)", installed):
        return []
    for file in draft.code:
        match = _TRACKING.search(file.text)
        if match:
            why = f"the code imports {match[1]}, and nothing installs AzureML's plug-in"
            key = "azureml-mlflow" if match[1] == "mlflow" else "azureml-defaults"
            return [Item(key=key, value="latest", why=why, origin=file.mark(match))]
    return []


def _missing_pytest(draft: Draft, text: str) -> list[str]:
    """Return pytest, if the tests need it and the packages in *text* lack it."""
    named = re.search(r"^[\s\"'-]*pytest\b", text, re.MULTILINE) is not None
    return ["pytest"] if draft.tests and not named else []


# Declared packages


def declared(project: Project, goal: str) -> tuple[Mark, tuple[str, ...]] | None:
    """Return the dependencies of the nearest pyproject.toml or Pipfile that has any, and their place.

    They have the versions of the lock file next to it, if there is one.
    """
    for file in sorted(project.pyproject, key=lambda one: nearness(one.path, goal)):
        listed = file.declared("project", "dependencies")
        found = [str(one) for one in listed] if isinstance(listed, list) else []
        found = found or list(_poetry(file.table("tool", "poetry", "dependencies") or file.table("packages")))
        if found:
            place = file.first(r"^dependencies\s*=|^\[(?:tool\.poetry\.dependencies|packages)\]")
            locked = _locked([one for one in project.locks if one.folder == file.folder])
            pinned = tuple(_pinned(one, locked) for one in found)
            return place[0] if place else Mark(file=file.path, line=1), pinned
    return None


def _locked(locks: Sequence[TextFile]) -> dict[str, str]:
    """Return the version that lock files chose of each package, by normalised names; none of one that they have twice."""
    listed = [(str(one.get("name")), one.get("version")) for file in locks for one in file.tables("package")]
    for file in locks:
        of_pipenv = [(name, one) for name, one in file.table("default").items() if isinstance(one, dict)]
        listed += [(name, str(one.get("version")).removeprefix("==")) for name, one in of_pipenv]
    names = Counter(canonicalize_name(name) for name, _ in listed)
    return {name: str(version) for given, version in listed if names[name := canonicalize_name(given)] == 1}


def _pinned(requirement: str, locked: Mapping[str, str]) -> str:
    """Return a requirement with its version of the lock file; unchanged if it has none that any index may have."""
    try:
        found = Requirement(requirement)
        version = Version(locked[canonicalize_name(found.name)])
    except (ValueError, KeyError):
        return requirement
    if found.url is None and version.local is None:
        found.specifier = SpecifierSet(f"=={version}")
    return str(found)


def _poetry(listed: Mapping[str, Any]) -> Iterator[str]:
    """Yield dependencies of Poetry or Pipenv as PEP 508 has them."""
    for name, given in listed.items():
        spec = given if isinstance(given, dict) else {"version": given}
        version, extras = spec.get("version"), spec.get("extras")
        if name.lower() == "python" or not isinstance(version, str) or spec.get("optional"):
            continue
        specifier = _specifier(version.strip())
        wanted = f"[{','.join(map(str, extras))}]" if isinstance(extras, list) else ""
        exact = "==" if specifier[:1].isdigit() else ""
        yield name + wanted + ("" if specifier == "*" else exact + specifier)


def _specifier(text: str) -> str:
    """Return a version of Poetry's, such as ``^1.2``, as a specifier of PEP 440."""

    def caret(match: re.Match[str]) -> str:
        parts = [int(part) for part in match[1].split(".")]
        first = next((at for at, part in enumerate(parts) if part), len(parts) - 1)
        return f">={match[1]},<{'.'.join(str(part) for part in [*parts[:first], parts[first] + 1])}"

    text = re.sub(r"\^\s*(\d{1,9}(?:\.\d{1,9})*)", caret, text)
    return re.sub(
        r"(?<![=!])~\s*(\d{1,9})\.(\d{1,9})((?:\.\d+)*)",
        lambda at: f">={at[1]}.{at[2]}{at[3]},<{at[1]}.{int(at[2]) + 1}",
        text,
    )


def without_paths(file: TextFile) -> tuple[Mark, tuple[str, ...]] | None:
    """Return the requirements of a file that installs the project, without it.

    None if there is no such line, or if the rest has options, which a list cannot have. The mark is that of the first line.
    """
    found = file.first(_PATH_LINE)
    if found is None:
        return None
    kept = re.sub(_PATH_LINE, "", file.text, flags=re.MULTILINE)
    lines = [re.sub(r"(^|\s)#.*$", "", line).strip() for line in kept.splitlines()]
    if any(line.startswith("-") or line.endswith("\\") for line in lines):
        return None
    return found[0], tuple(line for line in lines if line)


# The base image


def _base(draft: Draft, conda: Document | None = None) -> Item:
    """Return the base image: that of the job's environment, else Python's own."""
    given, document = draft.job.environment, draft.job.document
    if given.base is not None:
        return Item(key="base", value=given.base[1], why="the image of the job's environment", origin=given.base[0])
    if document is not None and document.said("distribution", "type").lower() == "mpi":
        return Item(key="base", value=MPI_BASE, why="a guess: an image with mpirun, which Python's own lacks")
    return choose_python(draft.project, draft.home, conda)


PYTHONS: Final = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
NEWEST: Final = "3.13"
"""The newest version that is chosen from a range: most packages for machine learning have wheels for it."""

_RANGE: Final = r"^(?:requires-python|python)\s*=\s*[\"']([^\"']{1,200})[\"']"


def choose_python(project: Project, goal: str, conda: Document | None = None) -> Item:
    """Return Python's own image of a project's version: an exact one, else the newest of a range.

    Args:
        project: what was found.
        goal: the folder of the job's code: the files nearest to it count first.
        conda: the conda file that the image is built from.
    """
    for mark, text in conda.items("dependencies") if conda is not None else ():
        match = re.fullmatch(r"python\s*[=<>~]+\s*(\d\.\d+).*", text)
        if match and match[1] in PYTHONS:
            return _python(match[1], "the project's Python", mark)
    near = sorted([*project.others, *project.pyproject], key=lambda one: nearness(one.path, goal))
    for file in near:
        found = file.first(r"^(?:cpython-|python-)?(\d\.\d+)") if file.path.endswith(".python-version") else None
        if found and found[1][1] in PYTHONS:
            return _python(found[1][1], "the project's Python", found[0])
    for file in near:
        pattern = _RANGE.replace("python)", "python_version)") if file.name == "Pipfile" else _RANGE
        found = file.first(pattern) if file.name in ("Pipfile", "pyproject.toml") else None
        locked = any(one.folder == file.folder for one in project.locks)
        fit = python_of(found[1][1], oldest=locked) if found else None
        if found and fit:
            which = "oldest" if locked else "newest"
            return _python(fit, f"the {which} Python of {found[1][1].strip()}", found[0])
    return _python("3.11", "a guess: nothing says which Python", None)


def _python(version: str, why: str, mark: Mark | None) -> Item:
    return Item(key="base", value=f"python:{version}-slim-bookworm", why=why, origin=mark)


def python_of(text: str, *, oldest: bool = False) -> str | None:
    """Return the newest version that a range allows; None if none or not a range.

    Args:
        text: a specifier of PEP 440, or one of Poetry's with ``^`` or ``~``.
        oldest: the oldest one instead: versions of a lock file may have no wheels for a newer one.
    """
    text = _specifier(text.strip())
    try:
        allowed = SpecifierSet(f"=={text}.*" if re.fullmatch(r"\d\.\d+", text) else text)
        # A patch release decides: `>=3.11.4` allows 3.11, `>3.11` does not mean 3.12 alone.
        fit = [one for one in PYTHONS if any(allowed.contains(f"{one}.{patch}") for patch in (0, 9, 99))]
    except ValueError:
        return None
    usual = PYTHONS[: PYTHONS.index(NEWEST) + 1]
    return next((one for one in reversed(fit) if one in usual and not oldest), fit[0] if fit else None)
