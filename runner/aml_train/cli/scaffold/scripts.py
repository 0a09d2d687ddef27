"""Scripts that train: how each is run, and the files that it reads. Pure."""

from __future__ import annotations

import ast
import posixpath
import re
import shlex
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.cli.scaffold.draft import Candidate, Item, Read
from aml_train.cli.scaffold.project import Project, TextFile, above_packages, folder_of, is_submitter
from aml_train.config.yaml.nodes import Mark

_NAMED: Final = re.compile(r"train\w*\.py|\w*_?train(ing)?\.py|main\.py|fit\.py|__main__\.py", re.IGNORECASE)
_FITS: Final = re.compile(
    r"\.fit\(|\.fit_transform\(|\.backward\(|\.train\(|\bxgb\.train\b|\blgb\.train\b|\.partial_fit\("
)
_TAKES_ARGUMENTS: Final = re.compile(
    r"\bargparse\b|\bsys\.argv\b|\b(?:import|from) (?:click|typer|fire|hydra|absl)\b"
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
_DATA_NAMES: Final = re.compile(r"data|input|csv|file|train|path|dir", re.IGNORECASE)
_DATA_FOLDERS: Final = ("data", "dataset", "datasets", "input")


def training_scripts(project: Project) -> list[TextFile]:
    """Return the scripts that probably train, by their name or their code."""
    files = [file for file in project.scripts if _may_train(file)]
    named = [file for file in files if _NAMED.fullmatch(file.path.rpartition("/")[2])]
    return named or [file for file in files if _FITS.search(file.text)]


def rank(file: TextFile) -> tuple[int, int]:
    """Return a sort key that puts the likeliest script first."""
    name = file.path.rpartition("/")[2].lower()
    kind = 0 if name == "train.py" else 1 if "train" in name else 2 if name == "main.py" else 3
    return kind, 0 if _FITS.search(file.text) else 1


def _may_train(file: TextFile) -> bool:
    if file.path.rpartition("/")[2] in _NO_SCRIPTS or is_submitter(file):
        return False
    tree = parse_source(file.text)
    if tree is None:  # Python 2: its guard shows that it is run
        return re.search(r"^if __name__ ==", file.text, re.MULTILINE) is not None
    return start_of(tree) is not None


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
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _name(node.value) not in _SETS_UP:
            return node.lineno
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            name = _name(node.value)
            if name in ("fit", "parse_args", "train") or _READS.fullmatch(name):
                return node.lineno
    return None


def script_of(project: Project, file: TextFile, notes: tuple[str, ...] = ()) -> Candidate:
    """Return a script as a job: the form of its command, its folder, its arguments."""
    tree = parse_source(file.text)
    reads: tuple[Read, ...] = ()
    inputs: tuple[Item, ...] = ()
    if tree is None:
        command, code, python_path, why = (
            f"python {shlex.quote(file.path.rpartition('/')[2])}",
            file.folder or ".",
            "",
            "",
        )
        notes = (*notes, f"{file.path}:1: it is not Python 3 as it is: it was not read")
    else:
        reads = tuple(_reads_of_all(project, file))
        command, code, python_path, why = _layout(project, file, tree, reads)
        arguments, inputs, remarks = _arguments(project, file, tree)
        command = " ".join([command, *arguments])
        why = why or ("add the script's arguments" if _TAKES_ARGUMENTS.search(file.text) else "")
        notes = (*notes, *remarks)
    cluster = "a guess: the name of your cluster; the target `local` needs none"
    path = Item(key="PYTHONPATH", value=python_path, why="the script imports from it")
    items = [
        Item(key="command", value=command, why=why),
        Item(key="code", value=code),
        Item(key="compute", value="azureml:cpu-cluster", why=cluster),
        *([Item(key="inputs", value=list(inputs))] if inputs else []),
        *([Item(key="environment_variables", value=[path])] if python_path else []),
    ]
    return Candidate(
        path=file.path,
        noun="script",
        mark=Mark(file=file.path, line=(start_of(tree) if tree is not None else None) or 1),
        what=command,
        code=code,
        items=items,
        reads=reads,
        notes=notes,
    )


# The folder and the form of the command


def _layout(project: Project, file: TextFile, tree: ast.Module, reads: Sequence[Read]) -> tuple[str, str, str, str]:
    """Return the command, the folder of the code, what of it has to be in PYTHONPATH, and the reason."""
    folder = file.folder
    roots = _import_roots(project, file, tree)
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
    return f"python {shlex.quote(file.path.rpartition('/')[2])}", folder or ".", "", ""


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


def _import_roots(project: Project, file: TextFile, tree: ast.Module) -> set[str]:
    """Return the folders that the script's absolute imports need."""
    found: set[str] = set()
    for one in imports_of(tree, file.path):
        top = one.module.partition(".")[0]
        for root in _above(file.folder) if not one.relative else ():
            if find_module(project, top, root) not in (None, file.path):
                found.add(root)
                break
    return found


# Files that it reads


def _reads_of_all(project: Project, file: TextFile) -> Iterator[Read]:
    """Yield what a script and the local modules that it loads read."""
    texts = {one.path: one.text for one in project.scripts}
    seen: set[str] = set()
    for path in loaded_by(project, file.path, _above(file.folder)):
        tree = parse_source(texts[path])
        for one in _reads(project, path, tree) if tree is not None else ():
            if one.text not in seen:
                seen.add(one.text)
                yield one


def _reads(project: Project, path: str, tree: ast.Module) -> Iterator[Read]:
    """Yield the data that strings of a file name: what is in the project, and what a call reads."""
    opened = {id(call.args[0]) for call in _calls(tree) if _opens(call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        text = node.value
        if len(text) > 300 or "\n" in text or not ("/" in text or text.endswith(_SUFFIXES)):
            continue
        found = _existing(project, path, text)
        missing = text.endswith(_SUFFIXES) and "*" not in text and not text.startswith(("outputs", "./outputs", "/"))
        if found is not None or (missing and id(node) in opened):
            yield Read(mark=Mark(file=path, line=node.lineno), text=text, path=found)


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(call: ast.Call) -> str:
    """Return the last name of what is called; empty for other expressions."""
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _opens(call: ast.Call) -> bool:
    """Return whether a call reads the file that its first argument names."""
    if not call.args or not _READS.fullmatch(_name(call)):
        return False
    modes = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "mode")]
    written = any(isinstance(mode, ast.Constant) and str(mode.value)[:1] in ("w", "a", "x") for mode in modes)
    return not (_name(call) == "open" and written)


def _existing(project: Project, path: str, text: str) -> str | None:
    """Return the path of data of the project: relative to the project, or to the file."""
    if text.startswith(("/", "~")) or "://" in text or ".." in text.split("/"):
        return None
    possible = (posixpath.normpath(text), posixpath.normpath(posixpath.join(folder_of(path), text)))
    return next((found for found in possible if _is_data(project, found)), None)


def _is_data(project: Project, path: str) -> bool:
    if path in project.files:
        return not path.endswith((".py", ".ipynb"))
    return path in project.folders and not any(one.path.startswith(f"{path}/") for one in project.scripts)


def _reads_from_top(file: TextFile, reads: Sequence[Read]) -> bool:
    """Return whether paths start from a folder above the script's."""
    if not file.folder:
        return False
    found = [one for one in reads if one.path is not None]
    return _ABOVE.search(file.text) is not None or any(
        posixpath.normpath(one.text) == one.path or not str(one.path).startswith(f"{file.folder}/") for one in found
    )


# Arguments


def _arguments(project: Project, file: TextFile, tree: ast.Module) -> tuple[list[str], tuple[Item, ...], list[str]]:
    """Return required arguments, the inputs they name, and notes on the others."""
    words: list[str] = []
    inputs: list[Item] = []
    notes: list[str] = []
    for call in sorted(_calls(tree), key=lambda one: one.lineno):
        flags = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if _name(call) != "add_argument" or not flags or not _is_required(call, flags[0]):
            continue
        flag = next((one for one in flags if one.startswith("--")), flags[0])
        name = re.sub(r"\W", "_", flag.lstrip("-"))
        mark = Mark(file=file.path, line=call.lineno)
        source = _only_data(project) if _DATA_NAMES.search(name) and "out" not in name.lower() else None
        if source is None:
            notes.append(f"{mark.where}: the script requires {flag}: add it to the command")
            continue
        kind = "uri_file" if source in project.files else "uri_folder"
        why = "a guess: the only data here, uploaded with the job"
        inputs.append(
            Item(key=name, value=[Item(key="type", value=kind), Item(key="path", value=source, why=why, origin=mark)])
        )
        words += [*([flag] if flag.startswith("-") else []), f"${{{{inputs.{name}}}}}"]
    return words, tuple(inputs), notes


def _is_required(call: ast.Call, flag: str) -> bool:
    given = {one.arg: one.value for one in call.keywords}
    required, nargs = given.get("required"), given.get("nargs")
    if flag.startswith("-"):
        return isinstance(required, ast.Constant) and required.value is True
    return "default" not in given and not (isinstance(nargs, ast.Constant) and nargs.value in ("?", "*"))


def _only_data(project: Project) -> str | None:
    """Return the only data file or folder of the project."""
    folders = [name for name in _DATA_FOLDERS if name in project.folders]
    inside = [path for path in project.files if any(path.startswith(f"{name}/") for name in folders)]
    data = [path for path in inside if path.endswith(_SUFFIXES) and not path.endswith(".txt")]
    if len(data) == 1:
        return data[0]
    if len(folders) == 1 and data:
        return folders[0]
    top = [path for path in project.files if path.endswith((".csv", ".parquet", ".npz", ".tsv", ".jsonl"))]
    return top[0] if len(top) == 1 and not folders else None


_MOST_FILES: Final = 300


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A module that a file may load: its dotted name, its line, and whether it was named relative to the file."""

    module: str
    line: int
    relative: bool = False


def parse_source(text: str) -> ast.Module | None:
    """Return the syntax tree of Python code, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's code, such as escapes that Python does not know
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imports_of(tree: ast.Module, path: str) -> Iterator[Imported]:
    """Yield what a file imports; a relative import as a module of the project's folder.

    Imports under a ``try`` with an ``except`` or under ``if TYPE_CHECKING`` are optional, and left out.
    """
    for node in _statements(tree.body):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Imported(module=name.name, line=node.lineno)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                parts = folder_of(path).split("/")
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


def loaded_by(project: Project, path: str, roots: Sequence[str]) -> list[str]:
    """Return a file and the project's modules that it loads, directly or not.

    Args:
        project: what was found.
        path: the file that is run.
        roots: the folders of its ``sys.path``.
    """
    texts = {one.path: one.text for one in project.scripts}
    waiting, found = [path], list[str]()
    while waiting and len(found) < _MOST_FILES:
        one = waiting.pop(0)
        tree = parse_source(texts[one]) if one in texts and one not in found else None
        if one in texts and one not in found:
            found.append(one)
        for each in imports_of(tree, one) if tree is not None else ():
            targets = (find_module(project, each.module, root) for root in ([""] if each.relative else roots))
            waiting += [target for target in targets if target is not None]
    return found
