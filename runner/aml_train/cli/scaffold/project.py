"""The files of a repository that show how it trains. Reads, changes nothing."""

from __future__ import annotations

import ast
import functools
import json
import os
import posixpath
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from aml_train.config.job.script import parsed
from aml_train.config.yaml.nodes import Faults, ListNode, MapNode, Mark, Node, ScalarNode, find, place
from aml_train.config.yaml.source import MAX_BYTES, read_text
from aml_train.config.yaml.tree import parse
from aml_train.core.errors import Fault

Kind = Literal["command", "pipeline", "sweep", "other job", "component", "environment", "runconfig", "conda"]

_GRAPHS: Final[tuple[Kind, ...]] = ("pipeline", "sweep")
_CONDA_KEYS: Final = frozenset({"name", "channels", "dependencies", "variables", "prefix"})
_OTHER_JOBS = ("spark", "automl", "parallel", "import", "finetuning")

MAX_DEPTH: Final = 6
MAX_FILES: Final = 20_000
MAX_TEXTS: Final = 300
"""Files of one kind that are read at most."""

SKIPPED: Final = frozenset(
    {"__pycache__", "node_modules", "site-packages", "build", "dist", "outputs", "mlruns", "wandb"}
)
HIDDEN: Final = frozenset({".azureml"})
"""Hidden folders that are read; others belong to tools."""

ENVIRONMENTS: Final = ("pyvenv.cfg", "conda-meta")
"""Files that mark a folder as an environment of Python or conda."""

_TEST: Final = re.compile(r"^\s*(?:async\s+)?def test", re.MULTILINE)
_NAMES: Final = {
    "others": re.compile(r"\.python-version|setup\.cfg|pytest\.ini"),
    "requirements": re.compile(r"requirements[\w.-]*\.(txt|in)|[\w-]+[-_.]requirements\.txt"),
    "dockerfiles": re.compile(r"Dockerfile(\.[\w-]+)?|[\w-]+\.Dockerfile", re.IGNORECASE),
    "pyproject": re.compile(r"pyproject\.toml|Pipfile"),
    "locks": re.compile(r"(?:poetry|uv)\.lock|Pipfile\.lock"),
    "notebooks": re.compile(r".*\.ipynb"),
    "testing": re.compile(r"test_\w+\.py|\w+_test\.py"),
    "scripts": re.compile(r".*\.py"),
}
"""What files are by their names; the first that fits counts."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A YAML file that was recognised."""

    path: str
    kind: Kind
    tree: MapNode
    text: str

    def node(self, *keys: str) -> Node | None:
        """Return the node under *keys*, or None."""
        return find(self.tree, *keys)

    def said(self, *keys: str) -> str:
        """Return the text under *keys*; empty without a scalar."""
        node = self.node(*keys)
        return node.text if isinstance(node, ScalarNode) and node.kind != "null" else ""

    def mark(self, *keys: str) -> Mark:
        """Return the place of the last of *keys* that exists; the first line without any."""
        mark = place(self.tree, *keys)
        return Mark(file=self.path, line=mark.line or 1)

    def marked(self, *keys: str) -> tuple[Mark, str] | None:
        """Return the text under *keys* with its place, or None."""
        text = self.said(*keys)
        return (self.mark(*keys), text) if text else None

    def items(self, *keys: str) -> list[tuple[Mark, str]]:
        """Return the scalars of the list under *keys*, each with its place."""
        node = self.node(*keys)
        if not isinstance(node, ListNode):
            return []
        return [(item.mark, item.text) for item in node.items if isinstance(item, ScalarNode)]

    @property
    def folder(self) -> str:
        """The folder that its relative paths start from."""
        return folder_of(self.path)


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """A file by lines."""

    path: str
    text: str

    def first(self, pattern: str, flags: re.RegexFlag = re.MULTILINE) -> tuple[Mark, re.Match[str]] | None:
        """Return the first match with its place, or None."""
        match = re.search(pattern, self.text, flags)
        return None if match is None else (self.mark(match), match)

    def all(self, pattern: str) -> Iterator[tuple[Mark, re.Match[str]]]:
        """Yield every match with its place."""
        for match in re.finditer(pattern, self.text, re.MULTILINE):
            yield self.mark(match), match

    def mark(self, match: re.Match[str]) -> Mark:
        """Return the line that a match begins at."""
        return Mark(file=self.path, line=self.text.count("\n", 0, match.start()) + 1)

    @property
    def folder(self) -> str:
        """Its folder, empty for the project folder."""
        return folder_of(self.path)

    @property
    def name(self) -> str:
        """Its name without the folder."""
        return self.path.rpartition("/")[2]

    def declared(self, *keys: str) -> Any:
        """Return the value under *keys* of a TOML or JSON file; None if there is none, or it cannot be read."""
        found: Any = self._toml
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def table(self, *keys: str) -> dict[str, Any]:
        """Return the table under *keys*; an empty one if there is none."""
        found = self.declared(*keys)
        return found if isinstance(found, dict) else {}

    def tables(self, *keys: str) -> list[dict[str, Any]]:
        """Return the tables of the list under *keys*; none if there is no such list."""
        found = self.declared(*keys)
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    @functools.cached_property
    def _toml(self) -> Any:
        try:
            return json.loads(self.text) if self.text.lstrip().startswith("{") else tomllib.loads(self.text)
        except (ValueError, RecursionError):
            # Other tools report it; here it is ignored.
            return {}

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of Python code; an empty one if it is none of Python 3."""
        return parsed(self.text)


@dataclass(frozen=True, kw_only=True)
class Project:
    """The findings. Paths are relative to the project, with ``/``.

    Attributes:
        name: the last part of the project's name.
        documents: YAML files of AzureML or conda.
        requirements: requirements files.
        dockerfiles: Dockerfiles.
        pyproject: the pyproject.toml files, and Pipfiles.
        locks: files with the versions that Poetry, uv or Pipenv chose.
        notebooks: Jupyter's.
        tests: folders that hold tests, the outermost ones, with the files that define any.
        scripts: Python files, without tests.
        others: small files with a known name, such as ``.python-version``.
        faults: faults of files that look like AzureML's and cannot be read.
        files: the paths of all files.
    """

    name: str
    documents: Sequence[Document] = ()
    requirements: Sequence[TextFile] = ()
    dockerfiles: Sequence[TextFile] = ()
    pyproject: Sequence[TextFile] = ()
    locks: Sequence[TextFile] = ()
    notebooks: Sequence[TextFile] = ()
    tests: Mapping[str, Sequence[TextFile]] = field(default_factory=dict)
    scripts: Sequence[TextFile] = ()
    others: Sequence[TextFile] = ()
    faults: Sequence[Fault] = ()
    files: frozenset[str] = frozenset()

    def of(self, *kinds: Kind) -> list[Document]:
        """Return the documents of these kinds."""
        return [document for document in self.documents if document.kind in kinds]

    @functools.cached_property
    def folders(self) -> frozenset[str]:
        """The folders of all files, without the project's own."""
        found: set[str] = set()
        for path in self.files:
            folder = folder_of(path)
            while folder and folder not in found:
                found.add(folder)
                folder = folder_of(folder)
        return frozenset(found)


def scan(directory: Path, called: str | None = None) -> Project:
    """Look through a project folder.

    Args:
        directory: the folder; deeper levels and folders of tools are skipped.
        called: the project's name; the folder's name by default.
    """
    paths, faults = _walk(directory), list[Fault]()
    documents: list[Document] = []
    texts: dict[str, list[TextFile]] = {kind: [] for kind in _NAMES}
    for path in paths:
        name = path.rpartition("/")[2]
        kind = next((kind for kind, pattern in _NAMES.items() if pattern.fullmatch(name)), None)
        if name.endswith((".yml", ".yaml", ".runconfig")) or path.startswith(".azureml/"):
            documents += _document(directory, path, faults)
        elif kind is not None and len(texts[kind]) < MAX_TEXTS:
            texts[kind] += _text(directory, path)
    return Project(
        name=called or directory.resolve().name,
        documents=documents,
        tests=_test_folders([file for file in texts.pop("testing") if _TEST.search(file.text)]),
        faults=tuple(faults),
        files=frozenset(paths),
        **texts,
    )


def folder_of(path: str) -> str:
    """Return the folder of a path, empty for the project's own."""
    return path.rpartition("/")[0]


def above_packages(project: Project, folder: str) -> str:
    """Return the folder above the packages around *folder*; the folder itself if it is no package."""
    while folder and f"{folder}/__init__.py" in project.files:
        folder = folder_of(folder)
    return folder


def nearness(path: str, goal: str) -> tuple[int, int, str]:
    """Return a sort key that puts paths near the folder *goal* first."""
    folder = PurePosixPath(folder_of(path)).parts
    wanted = PurePosixPath(goal).parts
    common = 0
    for one, other in zip(folder, wanted, strict=False):
        if one != other:
            break
        common += 1
    return len(folder) - common + len(wanted) - common, len(folder), path


def _walk(directory: Path) -> list[str]:
    found: list[str] = []
    for folder, folders, files in os.walk(directory):
        here = PurePosixPath(Path(folder).relative_to(directory).as_posix())
        depth = len(here.parts)
        folders[:] = sorted(
            name
            for name in folders
            if depth < MAX_DEPTH
            and name not in SKIPPED
            and (not name.startswith(".") or (name in HIDDEN and depth == 0))
            and not any(Path(folder, name, mark).exists() for mark in ENVIRONMENTS)
        )
        found += [str(here / name) for name in sorted(files)]
        if len(found) > MAX_FILES:
            break
    return found[:MAX_FILES]


def _text(directory: Path, path: str) -> list[TextFile]:
    """Return a file's text; nothing if it is no file, too large or unreadable."""
    file = directory / path
    try:
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return []
        return [TextFile(path=path, text=file.read_text(encoding="utf-8", errors="replace"))]
    except OSError:
        # An unreadable file is ignored: other tools report it.
        return []


def _document(directory: Path, path: str, faults: list[Fault]) -> list[Document]:
    """Return what a YAML file is, if it is one of AzureML; a broken one is a fault."""
    mine = Faults()
    text = read_text(directory / path, Mark(file=path), path, mine)
    tree = None if text is None else parse(text, path, mine)
    if mine and looks_like_azureml(path, text or ""):
        faults += mine
    if mine or not isinstance(tree, MapNode) or (kind := kind_of(path, tree)) is None:
        return []
    return [Document(path=path, kind=kind, tree=tree, text=text or "")]


def _test_folders(files: Sequence[TextFile]) -> dict[str, list[TextFile]]:
    """Return tests by folder: the outermost ``test`` or ``tests``, else the file's."""
    found: dict[str, list[TextFile]] = {}
    for file in files:
        parts = PurePosixPath(file.folder).parts
        named = next((at for at, part in enumerate(parts) if part in ("test", "tests")), None)
        folder = "/".join(parts if named is None else parts[: named + 1])
        found.setdefault(folder or ".", []).append(file)
    return found


# Files that are named and not read


_SDK: Final = re.compile(r"^\s*(?:from|import)\s+(?:azure\.ai\.ml|azureml)\b", re.MULTILINE)
_SUBMITS: Final = (
    r"\b(?:MLClient|ScriptRunConfig|Estimator|PythonScriptStep|HyperDriveConfig)\b|@(?:dsl\.)?pipeline\b|\.submit\("
)


def is_submitter(file: TextFile) -> bool:
    """Return whether a file submits jobs by an SDK of AzureML: it is not what trains."""
    return _SDK.search(file.text) is not None and re.search(_SUBMITS, file.text, re.MULTILINE) is not None


def unread(project: Project) -> Iterator[tuple[str, str]]:
    """Yield the path of each file that is named only, and the line that says what to do instead."""
    remedy = (
        "it submits by an SDK of AzureML, and is not read: write its command, environment and inputs as a job.yml"
    )
    for file in project.scripts:
        found = file.first(_SUBMITS) if is_submitter(file) else None
        if found is not None:
            yield file.path, f"{found[0].where}: {remedy}"
    for notebook in project.notebooks:
        cells = ["".join(map(str, cell.get("source") or "")) for cell in notebook.tables("cells")]
        written = [posixpath.normpath(posixpath.join(notebook.folder, path)) for path in written_by(cells)]
        unwritten = [path for path in written if path not in project.files]
        what = "a notebook, which is not read: export it with `jupyter nbconvert --to script`"
        if unwritten:
            what = f"a cell writes {unwritten[0]}, and has not run: run the cell, or save its lines as that file"
        yield notebook.path, f"{notebook.path}:1: {what}"
    for path in sorted(one for one in project.files if one.lower().endswith(".r") and not project.scripts):
        remedy = f"write a job.yml with `command: Rscript {path}`, and name an image with R in its `environment`"
        yield path, f"{path}:1: a script in R, which is not read: {remedy}"


def written_by(cells: Sequence[str]) -> Iterator[str]:
    """Yield the files that cells of a notebook write; variables in their names are those of the notebook."""
    code = "\n".join(cells)

    def value(name: re.Match[str]) -> str:
        found = re.search(rf"^{name[1]}\s*=\s*[\"']([^\"']+)", code, re.MULTILINE)
        return found[1] if found else name[0]

    for match in re.finditer(r"^%%writefile +(?:-a +)?(\S+\.py)$", code, re.MULTILINE):
        yield re.sub(r"\{(\w+)\}", value, match[1])


# Kinds of YAML files


def kind_of(path: str, tree: MapNode) -> Kind | None:
    """Return the kind of a YAML file, or None if it is not about training."""
    keys = set(tree.entries)
    schema = _scalar(tree, "$schema").rpartition("/")[2].lower()
    type_ = _scalar(tree, "type").lower()
    if "component" in schema or type_.endswith("_component"):
        return "component"
    if schema.startswith("environment") or ({"name", "image"} <= keys and not keys & {"command", "jobs", "services"}):
        return "environment"
    if schema.startswith("commandjob") or (
        "command" in keys and (type_ == "command" or keys & {"compute", "environment", "experiment_name"})
    ):
        # Version 1 has `command`, too, next to `framework` or `target`.
        return "runconfig" if _is_runconfig(path, keys) else "command"
    for kind in _GRAPHS:
        if schema.startswith(f"{kind}job") or (type_ == kind and keys & {"jobs", "trial"}):
            return kind
    if type_ in _OTHER_JOBS or (schema.endswith("job.schema.json") and schema):
        return "other job"
    if _is_runconfig(path, keys):
        return "runconfig"
    conda = isinstance(find(tree, "dependencies"), ListNode) and keys <= _CONDA_KEYS
    return "conda" if conda else None


def _is_runconfig(path: str, keys: set[str]) -> bool:
    named = path.endswith(".runconfig") or path.startswith((".azureml/", "aml_config/"))
    return (named and bool(keys & {"script", "command"})) or {"script", "framework", "target"} <= keys


def looks_like_azureml(path: str, text: str) -> bool:
    """Return whether a file that is no valid YAML looks like one of AzureML."""
    return (
        "azuremlschemas" in text
        or path.endswith(".runconfig")
        or (
            re.search(r"^command:", text, re.MULTILINE) is not None
            and re.search(r"^(compute|environment|experiment_name):", text, re.MULTILINE) is not None
        )
    )


def _scalar(tree: MapNode, key: str) -> str:
    node = find(tree, key)
    return node.text if isinstance(node, ScalarNode) else ""
