"""Scripts that train: how each is run, and the files that it reads. Pure."""

from __future__ import annotations

import ast
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.cli.scaffold.draft import Candidate, Item
from aml_train.cli.scaffold.project import Project, TextFile, above_packages, folder_of, is_submitter
from aml_train.config.job.script import called, script_arguments
from aml_train.config.yaml.nodes import Mark

_NAMED: Final = re.compile(r"train\w*\.py|\w*_?train(ing)?\.py|main\.py|fit\.py|__main__\.py", re.IGNORECASE)
_FITS: Final = re.compile(
    r"\.fit\(|\.fit_transform\(|\.backward\(|\.train\(|\bxgb\.train\b|\blgb\.train\b|\.partial_fit\("
)
_NO_SCRIPTS: Final = frozenset({"setup.py", "conftest.py", "noxfile.py", "__init__.py"})
_READS: Final = re.compile(r"read_\w+|load\w*|open|genfromtxt|imread|scan_\w+|ImageFolder")
_SUFFIXES: Final = (
    ".csv", ".tsv", ".parquet", ".json", ".jsonl", ".txt", ".npy", ".npz", ".pkl", ".pickle", ".h5", ".hdf5", ".feather",
    ".xlsx", ".arff", ".zip", ".gz", ".tar", ".mat", ".arrow", ".db", ".sqlite",
)  # fmt: skip
_ABOVE: Final = re.compile(r"__file__.*(?:\.parents\[[1-9]\]|\.parent\.parent|\.\.)|dirname\(.*dirname\(.*__file__")
"""Code that makes a path of a folder above its own file's."""

_SETS_UP: Final = frozenset(
    {"basicConfig", "filterwarnings", "simplefilter", "append", "insert", "seed", "set_option", "load_dotenv"}
)


def training_scripts(project: Project) -> list[TextFile]:
    """Return the scripts that probably train, by their name or their code."""
    possible = (file for file in project.scripts if file.name not in _NO_SCRIPTS and not is_submitter(file))
    files = [file for file in possible if start_of(file.tree) is not None]
    named = [file for file in files if _NAMED.fullmatch(file.name)]
    return named or [file for file in files if _FITS.search(file.text)]


def rank(file: TextFile) -> tuple[int, int]:
    """Return a sort key that puts the likeliest script first."""
    name = file.name.lower()
    kind = 0 if name == "train.py" else 1 if "train" in name else 2 if name == "main.py" else 3
    return kind, 0 if _FITS.search(file.text) else 1


def start_of(tree: ast.Module) -> int | None:
    """Return the line at which a file begins to do something, or None for a library.

    That is the ``__main__`` guard, or a call or loop at the top level: code of a notebook has no guard.
    """
    for node in tree.body:
        if isinstance(node, ast.If) and "'__name__'" in ast.dump(node.test):
            return node.lineno
    for node in tree.body:
        if isinstance(node, ast.For | ast.While | ast.With):
            return node.lineno
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and called(node.value) not in _SETS_UP:
            return node.lineno
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            name = called(node.value)
            if name in ("fit", "parse_args", "train") or _READS.fullmatch(name):
                return node.lineno
    return None


def entry_points(project: Project) -> Iterator[Candidate]:
    """Yield the commands that pyproject.toml gives a package's functions, as jobs; its folder is their code, as they may read its files."""
    scripts = {file.path: file for file in project.scripts}
    for file in project.pyproject:
        for keys in (("project", "scripts"), ("tool", "poetry", "scripts")):
            for name, target in file.table(*keys).items():
                module, _, function = str(target).partition(":")
                for root in ("src", ""):
                    found = find_module(project, module, posixpath.join(file.folder, root))
                    if found in scripts and function.isidentifier():
                        command = f'python -c "from {module} import {function}; {function}()"'
                        why = f"the command {name} of {file.path}"
                        yield script_of(project, scripts[found], layout=(command, file.folder or ".", root, why))


def script_of(
    project: Project,
    file: TextFile,
    notes: tuple[str, ...] = (),
    *,
    layout: tuple[str, str, str, str] | None = None,
) -> Candidate:
    """Return a script as a job: the form of its command, its folder, its arguments.

    Args:
        layout: the command, the folder of the code, what of it has to be in PYTHONPATH, and the reason; found by default.
    """
    reads = _reads(project, file)
    command, code, python_path, why = layout or _layout(project, file, reads)
    command, required = _with_arguments(command, file)
    why = "fill in the words in capitals" if required else why
    cluster = "a guess: the name of your cluster; the target `local` needs none"
    path = Item(key="PYTHONPATH", value=python_path, why="the script imports from it")
    items = [
        Item(key="command", value=command, why=why),
        Item(key="code", value=code),
        Item(key="compute", value="azureml:cpu-cluster", why=cluster),
        *([Item(key="environment_variables", value=[path])] if python_path else []),
    ]
    return Candidate(
        path=file.path,
        noun="script",
        mark=Mark(file=file.path, line=start_of(file.tree) or 1),
        what=command,
        code=code,
        items=items,
        reads=tuple(reads.values()),
        notes=(*notes, *required),
    )


# The folder and the form of the command


def _layout(project: Project, file: TextFile, reads: Mapping[str, str]) -> tuple[str, str, str, str]:
    """Return the command, the folder of the code, what of it has to be in PYTHONPATH, and the reason."""
    folder = file.folder
    roots = _import_roots(project, file)
    others = roots - {folder}
    from_top = _reads_from_top(file, reads)
    root = _module_root(project, folder, roots)
    if root is not None:
        module = file.path.removesuffix(".py").removeprefix(f"{root}/" if root else "").replace("/", ".")
        command = f"python -m {module.removesuffix('.__main__')}"
        if root and from_top:
            return command, ".", root, "a module of a package; it reads files of the project"
        return command, root or ".", "", "a module of a package"
    if others or (folder and from_top):
        why = "it reads files of the project" if from_top else "it imports from several folders"
        path = (min(others, key=len) or ".") if others else ""
        return f"python {shlex.quote(file.path)}", ".", path, why
    return f"python {shlex.quote(file.name)}", folder or ".", "", ""


def _module_root(project: Project, folder: str, roots: set[str]) -> str | None:
    """Return the folder that the script is run from as a module; None if it is run as a file."""
    package = above_packages(project, folder)
    if folder in roots and package == folder:
        return None
    if package != folder:
        return package
    (root,) = roots if len(roots) == 1 else (None,)
    return root if root is not None and (not root or folder.startswith(f"{root}/")) else None


def _above(folder: str) -> list[str]:
    """Return the folders that a script may import from: its own, those above, and ``src``."""
    found = [folder]
    while folder:
        folder = folder_of(folder)
        found.append(folder)
    return found if "src" in found else [*found, "src"]


def _import_roots(project: Project, file: TextFile) -> set[str]:
    """Return the folders that the script's absolute imports need."""
    found: set[str] = set()
    for one in imports_of(file):
        top = one.module.partition(".")[0]
        for root in _above(file.folder) if not one.relative else ():
            if find_module(project, top, root) not in (None, file.path):
                found.add(root)
                break
    return found


# Files that it reads


def _reads(project: Project, file: TextFile) -> dict[str, str]:
    """Return the data of the project that strings of a script and of the modules that it loads name: path by text."""
    found: dict[str, str] = {}
    for one in loaded_by(project, file, _above(file.folder)):
        for node in ast.walk(one.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                read = _existing(project, one, node.value)
                found |= {node.value: read} if read is not None else {}
    return found


def _existing(project: Project, file: TextFile, text: str) -> str | None:
    """Return the path of data of the project: relative to the project, or to the file."""
    if len(text) > 300 or "\n" in text or not ("/" in text or text.endswith(_SUFFIXES)):
        return None
    if text.startswith(("/", "~")) or "://" in text or ".." in text.split("/"):
        return None
    possible = (posixpath.normpath(text), posixpath.normpath(posixpath.join(file.folder, text)))
    return next((found for found in possible if _is_data(project, found)), None)


def _is_data(project: Project, path: str) -> bool:
    if path in project.files:
        return not path.endswith((".py", ".ipynb"))
    return path in project.folders and not any(one.path.startswith(f"{path}/") for one in project.scripts)


def _reads_from_top(file: TextFile, reads: Mapping[str, str]) -> bool:
    """Return whether paths start from a folder above the script's."""
    return bool(file.folder) and (
        _ABOVE.search(file.text) is not None
        or any(
            posixpath.normpath(text) == path or not path.startswith(f"{file.folder}/") for text, path in reads.items()
        )
    )


# Arguments


def _with_arguments(command: str, file: TextFile) -> tuple[str, tuple[str, ...]]:
    """Return a command with a word to fill in for each argument that the script requires, and a note for each."""
    notes = []
    for one in (each for each in script_arguments(file.tree) if each.required):
        flag = next((flag for flag in one.flags if flag.startswith("--")), one.flags[-1])
        word = re.sub(r"\W", "_", flag.lstrip("-")).upper()
        command += f" {word}" if one.positional else f" {flag} {word}"
        notes.append(f"{file.path}:{one.line}: the script requires {flag}: fill in {word} in the command")
    return command, tuple(notes)


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A module that a file may load: its dotted name, its line, and whether it was named relative to the file."""

    module: str
    line: int
    relative: bool = False


def imports_of(file: TextFile) -> Iterator[Imported]:
    """Yield what a file imports; a relative import as a module of the project's folder.

    Imports under a ``try`` with an ``except`` or under ``if TYPE_CHECKING`` are optional, and left out.
    """
    for node in _statements(file.tree.body):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Imported(module=name.name, line=node.lineno)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                parts = file.folder.split("/")
                module = ".".join([*filter(None, parts[: len(parts) - node.level + 1]), *filter(None, [module])])
            names = [f"{module}.{name.name}".lstrip(".") for name in node.names if name.name != "*"]
            for found in filter(None, [module, *names]):
                yield Imported(module=found, line=node.lineno, relative=node.level > 0)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        optional = (isinstance(node, ast.Try) and node.handlers) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        )
        if not optional:
            for block in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, block, None) or ())


def find_module(project: Project, module: str, root: str) -> str | None:
    """Return the path of a module below *root*: its file, or its folder without ``__init__.py``."""
    base = posixpath.normpath(posixpath.join(root, module.replace(".", "/")))
    for path in (f"{base}/__init__.py", f"{base}.py"):
        if path in project.files:
            return path
    return base if any(one.path.startswith(f"{base}/") for one in project.scripts) else None


def loaded_by(project: Project, file: TextFile, roots: Sequence[str]) -> list[TextFile]:
    """Return a file and the project's modules that it loads, directly or not; *roots* are the folders of its ``sys.path``."""
    files = {one.path: one for one in project.scripts}
    waiting, found = [file.path], dict[str, TextFile]()
    while waiting:
        path = waiting.pop(0)
        if path not in files or path in found:
            continue
        found[path] = files[path]
        for each in imports_of(files[path]):
            targets = (find_module(project, each.module, root) for root in ([""] if each.relative else roots))
            waiting += [target for target in targets if target is not None]
    return list(found.values())
