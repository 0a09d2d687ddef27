"""The proposed image: of the job's environment, else of files near its code, else of what the code imports. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from packaging.specifiers import SpecifierSet

from aml_train.cli.scaffold.draft import Candidate, Item
from aml_train.cli.scaffold.project import Document, Project, TextFile, folder_of, is_submitter, nearness
from aml_train.cli.scaffold.scripts import find_module, imports_of, parse_source
from aml_train.config.yaml.nodes import Mark

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


@dataclass(frozen=True, kw_only=True)
class _Guess:
    """What is read for the image of one job; *instead* is the reason's end, if an environment is replaced."""

    project: Project
    job: Candidate
    needs_pytest: bool
    instead: str = ""
    notes: list[str] = field(default_factory=list)

    def image(self, items: Sequence[Item], *, has_pytest: bool | None) -> Image:
        return Image(item=Item(key="image", value=items), has_pytest=has_pytest, notes=tuple(self.notes))


def propose_image(project: Project, job: Candidate, *, needs_pytest: bool) -> Image:
    """Return the image for a job.

    Args:
        project: what was found.
        job: the job that was chosen.
        needs_pytest: whether tests are to run in the image.
    """
    given = job.environment
    instead = f"; replaces the job's environment {given.name[1]}" if given.name else ""
    guess = _Guess(project=project, job=job, needs_pytest=needs_pytest, instead=instead)
    if given.inline_conda is not None:
        guess.notes.append(
            f"{given.inline_conda.where}: the conda packages are listed in the job itself: "
            "move them into a file and name it in `image.conda`"
        )
    if given.dockerfile is not None:
        mark, path, context = given.dockerfile
        return _from_dockerfile(guess, path, context, mark, "the job's environment is built from it")
    if given.conda is not None:
        return _from_conda(guess, given.conda[1], given.conda[0], "the job's conda file")
    if given.base is not None:
        return guess.image([_base(guess), *_tracking(guess, "")], has_pytest=None)
    return _from_files(guess)


def _from_files(guess: _Guess) -> Image:
    project, job = guess.project, guess.job
    conda = [one for one in project.of("conda") if not _is_of_others(project, job, one.path)]
    conda.sort(key=lambda one: _fitness(one.path, job.code))
    requirements = _for_training(project, job)
    dockerfiles = _dockerfiles(guess)
    whole = [(one, found[0]) for one in dockerfiles if (found := one.first(_INSTALLS, re.IGNORECASE | re.MULTILINE))]
    if whole and (not conda or "conda" in whole[0][0].text):
        file, mark = whole[0]
        guess.notes.extend(
            f"{one.path}:1: left aside: {file.path} does not install it"
            for one in requirements
            if one.path.rpartition("/")[2] not in file.text
        )
        return _from_dockerfile(guess, file.path, file.folder or ".", mark, "it installs the packages")
    if conda:
        _left_aside(guess, "conda files", [one.path for one in conda])
        mark = conda[0].mark("dependencies")
        return _from_conda(guess, conda[0].path, mark, "the conda file nearest to the job's code")
    if requirements:
        _left_aside(guess, "requirements files", [one.path for one in requirements])
        return _from_requirements(guess, requirements[0])
    packages = declared(project, job.code)
    if packages is not None:
        why = "the project's dependencies" + guess.instead
        return _from_list(guess, packages[1], Item(key="pip", value="", why=why, origin=packages[0]))
    if dockerfiles:
        file = dockerfiles[0]
        why = "the only description of an environment here"
        return _from_dockerfile(guess, file.path, file.folder or ".", Mark(file=file.path, line=1), why)
    if job.environment.name is not None:
        mark, name = job.environment.name
        guess.notes.append(
            f"{mark.where}: the job keeps its environment {name}, as nothing here says what is in it; "
            "tests run only inside an image that aml-train builds: add `image`"
        )
        return Image(item=None, notes=tuple(guess.notes))
    return _from_code(guess)


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


def _for_training(project: Project, job: Candidate) -> list[TextFile]:
    """Return the requirements files that training may need, the likeliest first."""
    fit = [
        one
        for one in project.requirements
        if one.path.endswith(".txt")
        and not _is_of_others(project, job, one.path)
        and not _OTHER_PURPOSE.search(one.path.rpartition("/")[2])
    ]

    def key(file: TextFile) -> tuple[int, int, int, str]:
        name = file.path.rpartition("/")[2]
        plain = 0 if name == "requirements.txt" else 1 if "train" in name else 2
        away, depth, path = nearness(file.path, job.code)
        return away, plain, depth, path

    return sorted(fit, key=key)


def _dockerfiles(guess: _Guess) -> list[TextFile]:
    """Return the Dockerfiles nearest to the code, without those of services."""
    found = sorted(guess.project.dockerfiles, key=lambda one: nearness(one.path, guess.job.code))
    found = [one for one in found if not _is_of_others(guess.project, guess.job, one.path)]
    serving = [one for one in found if _SERVES.search(one.text)]
    guess.notes.extend(f"{one.path}:1: left aside: it starts a service" for one in serving)
    return [one for one in found if one not in serving]


def _left_aside(guess: _Guess, what: str, paths: Sequence[str]) -> None:
    if len(paths) > 1:
        guess.notes.append(f"other {what} were found and left aside: {', '.join(paths[1:6])}")


def _from_dockerfile(guess: _Guess, path: str, context: str, mark: Mark, why: str) -> Image:
    items = [Item(key="file", value=path, why=why + guess.instead, origin=mark)]
    if context != (folder_of(path) or "."):
        items.append(Item(key="context", value=context, origin=mark))
    return guess.image([Item(key="dockerfile", value=items)], has_pytest=None)


def _from_conda(guess: _Guess, path: str, mark: Mark, why: str) -> Image:
    document = next((one for one in guess.project.documents if one.path == path), None)
    text = document.text if document else ""
    items = [_base(guess, document), Item(key="conda", value=path, why=why + guess.instead, origin=mark)]
    if guess.needs_pytest and not _names_pytest(text):
        missing = "the tests need it, and the conda file does not name it"
        items.append(Item(key="pip", value=["pytest"], why=missing))
    items += _tracking(guess, text)
    return guess.image(items, has_pytest=guess.needs_pytest or _names_pytest(text))


def _from_requirements(guess: _Guess, file: TextFile) -> Image:
    why = "the requirements file nearest to the job's code" + guess.instead
    mark = Mark(file=file.path, line=1)
    rest = without_paths(file)
    if rest is not None:
        place, names = rest
        own = declared(guess.project, file.folder or ".")
        names = (*names, *(one for one in (own[1] if own else ()) if one not in names))
        why = f"{file.path} without the project itself, which is the job's code"
        return _from_list(guess, names, Item(key="pip", value="", why=why, origin=place))
    pip = Item(key="pip", value=file.path, why=why, origin=mark)
    if guess.needs_pytest and not _names_pytest(file.text):
        also = Item(key="packages", value=["pytest"], why=f"the tests need it, and {file.path} does not name it")
        pip = Item(key="pip", value=[Item(key="requirements", value=file.path, why=why, origin=mark), also])
    items = [_base(guess), pip, *_tracking(guess, file.text)]
    return guess.image(items, has_pytest=guess.needs_pytest or _names_pytest(file.text))


def _from_list(guess: _Guess, names: Sequence[str], pip: Item) -> Image:
    text = "\n".join(names)
    listed = [*names, *(["pytest"] if guess.needs_pytest and not _names_pytest(text) else [])]
    items = [_base(guess), Item(key="pip", value=listed, why=pip.why, origin=pip.origin), *_tracking(guess, text)]
    return guess.image(items, has_pytest=guess.needs_pytest or _names_pytest(text))


def _from_code(guess: _Guess) -> Image:
    """Return an image with the well-known packages that the code imports."""
    plugin = _tracking(guess, "")
    imported = [one for one in _imported(guess) if not (plugin and one[0].startswith(("mlflow-skinny", "azureml")))]
    listed = [*(name for name, _ in imported), *(["pytest"] if guess.needs_pytest else [])]
    items = [_base(guess), *plugin]
    if not imported:
        guess.notes.append("nothing says which packages the job needs: list them under `image.pip`")
    if listed:
        why = "a guess: the code imports them, and nothing lists packages" if imported else "the tests need it"
        items.insert(1, Item(key="pip", value=listed, why=why, origin=imported[0][1] if imported else None))
    return guess.image(items, has_pytest=guess.needs_pytest)


def _imported(guess: _Guess) -> list[tuple[str, Mark]]:
    """Return the well-known packages that the job's code imports, with places."""
    found: dict[str, Mark] = {}
    for file in code_of_job(guess.project, guess.job):
        tree = parse_source(file.text)
        for one in imports_of(tree, file.path) if tree is not None else ():
            top = one.module.partition(".")[0]
            name = _PACKAGES.get(top, top if top in _SAME_NAME else None)
            own = any(find_module(guess.project, top, root) for root in ("", "src", file.folder))
            if name is not None and not one.relative and not own:
                found.setdefault(name, Mark(file=file.path, line=one.line))
    return list(found.items())


def _tracking(guess: _Guess, installed: str) -> list[Item]:
    """Return the key that adds AzureML's plug-in, if the code tracks and lacks it."""
    if re.search(r"azureml-(mlflow|defaults)", installed):
        return []
    for file in code_of_job(guess.project, guess.job):
        match = _TRACKING.search(file.text)
        if match:
            why = f"the code imports {match[1]}, and nothing installs AzureML's plug-in"
            key = "azureml-mlflow" if match[1] == "mlflow" else "azureml-defaults"
            return [Item(key=key, value="latest", why=why, origin=file.mark(match))]
    return []


def _names_pytest(text: str) -> bool:
    return re.search(r"^[\s\"'-]*pytest\b", text, re.MULTILINE) is not None


def code_of_job(project: Project, job: Candidate) -> list[TextFile]:
    """Return the Python files of the job's code, without those that submit jobs."""
    inside = (one for one in project.scripts if job.code in ("", ".") or one.path.startswith(f"{job.code}/"))
    return [one for one in inside if not is_submitter(one)]


# Declared packages


def declared(project: Project, goal: str) -> tuple[Mark, tuple[str, ...]] | None:
    """Return the dependencies of the nearest pyproject.toml that has any, and their place."""
    for file, said in sorted(project.pyproject, key=lambda one: nearness(one[0].path, goal)):
        found = _standard(said) or list(_poetry(said))
        if found:
            place = file.first(r"^dependencies\s*=|^\[tool\.poetry\.dependencies\]")
            return place[0] if place else Mark(file=file.path, line=1), tuple(found)
    return None


def _standard(said: Mapping[str, Any]) -> list[str]:
    project = said.get("project")
    found = project.get("dependencies") if isinstance(project, dict) else None
    return [str(one) for one in found] if isinstance(found, list) else []


def _poetry(said: Mapping[str, Any]) -> Iterator[str]:
    """Yield Poetry's dependencies as PEP 508 has them."""
    tool = said.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    listed = poetry.get("dependencies") if isinstance(poetry, dict) else None
    for name, given in (listed if isinstance(listed, dict) else {}).items():
        version = given.get("version") if isinstance(given, dict) else given
        optional = isinstance(given, dict) and given.get("optional")
        if name.lower() != "python" and isinstance(version, str) and not optional:
            specifier = _specifier(version.strip())
            yield (
                name if specifier == "*" else f"{name}=={specifier}" if specifier[:1].isdigit() else name + specifier
            )


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


def _base(guess: _Guess, conda: Document | None = None) -> Item:
    """Return the base image: that of the job's environment, else Python's own."""
    given, document = guess.job.environment, guess.job.document
    if given.base is not None:
        return Item(key="base", value=given.base[1], why="the image of the job's environment", origin=given.base[0])
    if document is not None and document.said("distribution", "type").lower() == "mpi":
        return Item(key="base", value=MPI_BASE, why="a guess: an image with mpirun, which Python's own lacks")
    return choose_python(guess.project, guess.job.code, conda)


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
    near = sorted(
        [*project.others.values(), *(one for one, _ in project.pyproject)], key=lambda one: nearness(one.path, goal)
    )
    for file in near:
        found = file.first(r"^(?:cpython-|python-)?(\d\.\d+)") if file.path.endswith(".python-version") else None
        if found and found[1][1] in PYTHONS:
            return _python(found[1][1], "the project's Python", found[0])
    for file in near:
        found = file.first(_RANGE) if file.path.endswith("pyproject.toml") else None
        newest = newest_of(found[1][1]) if found else None
        if found and newest:
            return _python(newest, f"the newest Python of {found[1][1].strip()}", found[0])
    return _python("3.11", "a guess: nothing says which Python", None)


def _python(version: str, why: str, mark: Mark | None) -> Item:
    return Item(key="base", value=f"python:{version}-slim-bookworm", why=why, origin=mark)


def newest_of(text: str) -> str | None:
    """Return the newest version that a range allows; None if none or not a range.

    Args:
        text: a specifier of PEP 440, or one of Poetry's with ``^`` or ``~``.
    """
    text = _specifier(text.strip())
    try:
        allowed = SpecifierSet(f"=={text}.*" if re.fullmatch(r"\d\.\d+", text) else text)
        # A patch release decides: `>=3.11.4` allows 3.11, `>3.11` does not mean 3.12 alone.
        fit = [one for one in PYTHONS if any(allowed.contains(f"{one}.{patch}") for patch in (0, 9, 99))]
    except ValueError:
        return None
    usual = PYTHONS[: PYTHONS.index(NEWEST) + 1]
    return next((one for one in reversed(fit) if one in usual), fit[0] if fit else None)
