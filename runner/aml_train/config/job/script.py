"""What commands run: that the script or the tests are there, and that the script gets the arguments that it requires.

Files are read, and nothing is run. What a shell could only know, such as a variable or a file that a command makes, is left alone.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aml_train.config.job.references import places
from aml_train.config.yaml.nodes import Faults, MapNode, ScalarNode, find, scalars, shown
from aml_train.config.yaml.shapes import nearest

#: Commands after which other files may be there, or another folder is the current one.
_CHANGES: Final = re.compile(r"\b(?:cd|pushd|git|wget|curl|unzip|tar|cp|mv|ln|azcopy|rsync|tee|eval)\b|>\s*\S|<<")
_PYTHON: Final = re.compile(r"python(?:3(?:\.\d+)?)?")
_LAUNCHERS: Final = ("torchrun", "accelerate", "deepspeed", "mpirun", "horovodrun")
_WITH_VALUE: Final = ("-X", "-W")
#: Folders with other people's code, and how many files a search looks at: the code may be a folder full of data.
_FOREIGN: Final = frozenset({"__pycache__", "node_modules", "site-packages"})
_MOST_FILES: Final = 20_000
#: Files that may read variables, and the names of variables by which AzureML passes inputs
#: (azure-ai-ml, ``entities/_job/command_job.py``; ``environmentVariableName`` of a run's data).
_SCRIPTS: Final = (".py", ".sh", ".R", ".r", ".ipynb", ".jl")
_VARIABLES: Final = re.compile(r"AZURE_?ML_(?:INPUT|PARAMETER|DATAREFERENCE)")
#: Options of pytest without a value: what follows them is a path.
_PYTEST_FLAGS: Final = re.compile(
    r"-[qvxsl]+|-r\w*|--(?:verbose|quiet|exitfirst|lf|ff|strict-\S+|cov|no-header|.+=.*)"
)
#: Calls and modules after which a script's arguments may be other ones, or come from a file or a variable.
_UNCLEAR: Final = frozenset(
    {
        "add_subparsers",
        "add_mutually_exclusive_group",
        "group",
        "add_typer",
        "callback",
        "configargparse",
        "jsonargparse",
    }
)
#: Calls that write the file of their first literal, as joblib.dump and DataFrame.to_csv do; and calls that keep a file.
_WRITES: Final = re.compile(
    r"dump|save|save_\w+|savez|savefig|savetxt|to_(?:csv|parquet|pickle|json|feather|hdf)|write_model"
)
_KEEPS: Final = re.compile(r"log_(?:artifact|image|file)s?$|upload_(?:file|folder)$|copy\w*$|move$|rename$")


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An argument of a script: its flags, or the name of a positional one, and the line that declares it.

    Attributes:
        required: whether the script does not start without it.
        valued: whether the word after the flag is surely its value.
        either: Fire takes each by its place as well, and the word after any flag as that flag's value.
    """

    flags: tuple[str, ...]
    line: int
    required: bool = True
    valued: bool = False
    either: bool = False

    @property
    def positional(self) -> bool:
        """Whether it is given by its place."""
        return not self.flags[0].startswith("-")


def check_script(tree: MapNode, code: Path | None, faults: Faults, *, complete: bool = True) -> None:
    """Check that the script of a command is in the folder of the code, and gets what it requires.

    Args:
        tree: the mapping with the command.
        code: the folder of the code; None for one that is not here.
        faults: takes the faults.
        complete: whether the folder has all files that the job has.
    """
    command = find(tree, "command")
    if not isinstance(command, ScalarNode) or code is None or not code.is_dir() or _CHANGES.search(command.text):
        return
    for words in _commands(command.text):
        script = _script(words, code)
        if script is None:
            continue
        mark = places(command, script)(0)
        path, given = code / script, words[words.index(script) + 1 :] if script in words else []
        if not path.is_file():
            if complete and (known := _files(code)):
                near = nearest(script, tuple(known))
                remedy = (
                    f"did you mean `{near}`?" if near else "correct the path, which starts in the folder of the code"
                )
                faults.add(
                    mark,
                    f"there is no `{shown(script)}` in the code",
                    why=f"the command runs it in `{code.name}`",
                    remedy=remedy,
                )
        elif path.suffix == ".py" and script in words:
            for missing in _missing(path, given):
                what = f"the command gives `{script}` no `{missing.flags[-1]}`"
                faults.add(
                    mark, what, why=f"it is required ({script}:{missing.line})", remedy="add it to the command"
                )


def check_tests(command: ScalarNode, folder: Path, faults: Faults) -> None:
    """Check that the paths that a command gives pytest are there."""
    if _CHANGES.search(command.text):
        return
    for words in _commands(command.text):
        at = 1 if words[0] == "pytest" else 3 if _PYTHON.fullmatch(words[0]) and words[1:3] == ["-m", "pytest"] else 0
        for before, word in zip(words[at - 1 :], words[at:], strict=False) if at else ():
            path = word.partition("::")[0]
            plain = before == "pytest" or not before.startswith("-") or _PYTEST_FLAGS.fullmatch(before)
            if not plain or word.startswith("-") or "$" in word or "*" in word or (folder / path).exists():
                continue
            if not _files(folder):
                return
            near = nearest(path, tuple(one.name for one in folder.iterdir()))
            remedy = (
                f"did you mean `{near}`?"
                if near
                else "correct the path, which starts in the project or in `tests.workdir`"
            )
            faults.add(places(command, word)(0), f"there is no `{shown(path)}` for pytest", remedy=remedy)


def remark_metrics(tree: MapNode, code: Path | None, faults: Faults) -> None:
    """Remark rules for a metric that is nearly one of those that the code logs by name."""
    table = find(tree, "gate")
    if not isinstance(table, MapNode) or code is None or not code.is_dir():
        return
    texts = ((code / path).read_text("utf-8", "replace") for path in _files(code))
    known = tuple(dict.fromkeys(name for text in texts for name, _ in logged_metrics(text)))
    for metric, entry in table.entries.items():
        plain = not isinstance(entry.node, MapNode) or "file" not in entry.node.entries
        if plain and metric not in known and (near := nearest(metric, known)) is not None:
            faults.remark(entry.mark, f"the code logs no `{shown(metric)}`, but `{near}`: is that meant?")


def remark_inputs(tree: MapNode, inner: MapNode, code: Path | None, faults: Faults) -> None:
    """Remark inputs that nothing reads: not the job, and not the code by AzureML's variables, ``AZURE_ML_INPUT_…`` and others.

    Args:
        tree: the job, which has the inputs.
        inner: the mapping with the command, which may be the job itself.
        code: the local code; without any, other files of the image may read them.
        faults: takes the remarks.
    """
    inputs = find(tree, "inputs")
    if not isinstance(inputs, MapNode) or code is None:
        return
    others = [entry.node for key, entry in (*tree.entries.items(), *inner.entries.items()) if key != "inputs"]
    text = "\n".join(one.text for node in others for one in scalars(node))
    unused = [name for name in inputs.entries if not re.search(rf"inputs\.{re.escape(name)}\b", text)]
    if not unused or _VARIABLES.search(text):
        return
    files = [code / path for path in _files(code, _SCRIPTS)] if code.is_dir() else [code]
    if any(_VARIABLES.search(file.read_text("utf-8", "replace")) for file in files):
        return
    for name in unused:
        what = f"the command does not use the input `{shown(name)}`"
        faults.remark(inputs.entries[name].mark, f"{what}: write `${{{{inputs.{shown(name)}}}}}` where it is meant")


def parsed(text: str) -> ast.Module:
    """Return the syntax tree of Python code; an empty one if it is none of Python 3."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's code, such as escapes that Python does not know
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def logged_metrics(text: str) -> Iterator[tuple[str, int]]:
    """Yield the metrics that code logs by literal names, with MLflow or with azureml-core, and the line.

    The names may also be those of a dictionary or list in the same file, which the code logs in a loop.
    """
    values: dict[str, ast.expr] = {}
    calls: list[ast.Call] = []
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Assign):
            values |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.For):
            first = (node.target.elts or [node.target])[0] if isinstance(node.target, ast.Tuple) else node.target
            values |= {first.id: node.iter} if isinstance(first, ast.Name) else {}
        elif isinstance(node, ast.Call) and (called(node) in ("log_metric", "log_metrics") or _is_run_log(node.func)):
            calls.append(node)
    for call in sorted(calls, key=lambda one: one.lineno):
        given = [*call.args, *(one.value for one in call.keywords if one.arg in ("key", "metrics"))][:1]
        for name in dict.fromkeys(name for node in given for name in _names(node, values, 9)):
            yield name, call.lineno


def _is_run_log(func: ast.expr) -> bool:
    owner = func.value if isinstance(func, ast.Attribute) and func.attr == "log" else None
    return getattr(owner, "id", getattr(owner, "attr", "")) == "run"


def _names(node: ast.expr, values: Mapping[str, ast.expr], depth: int) -> Iterator[str]:
    """Yield the names that an expression stands for, by the *values* of variables, followed *depth* times."""
    match node:
        case ast.Constant(value=str(name)):
            yield name
        case ast.Dict(keys=inner) | ast.List(elts=inner) | ast.Tuple(elts=inner) if depth:
            for one in inner:
                first = one.elts[0] if isinstance(one, ast.Tuple) and one.elts else one
                yield from _names(first, values, depth - 1) if first is not None else ()
        case ast.Call(func=ast.Attribute(attr="items" | "keys", value=owner)) if depth:
            yield from _names(owner, values, depth - 1)
        case ast.Name(id=name) if name in values and depth:
            yield from _names(values[name], values, depth - 1)


def files_beside_outputs(text: str) -> Iterator[tuple[str, int]]:
    """Yield the files that code writes outside ``outputs/`` by literal names, and the line; what it also logs or copies is kept."""
    calls = [node for node in ast.walk(parsed(text)) if isinstance(node, ast.Call)]
    if any(called(call) == "chdir" for call in calls):
        return
    kept = {name for call in calls if _KEEPS.match(called(call)) for name in _texts(call)}
    for call in calls:
        name, texts = called(call), _texts(call)
        writes = _WRITES.fullmatch(name) or (
            name == "open" and any(re.fullmatch("[wax][bt+]*", one) for one in texts[1:])
        )
        for path in texts[:1] if writes else ():
            if (
                not re.match(r"(?:\./)?(?:outputs|logs)/|[/~%]|\w+:", path)
                and "." in path
                and kept.isdisjoint((path, *map(str, Path(path).parents)))
            ):
                yield path.removeprefix("./"), call.lineno


def _texts(call: ast.Call) -> list[str]:
    given = (*call.args, *(one.value for one in call.keywords))
    return [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def files_not_kept(code: Path) -> dict[str, str]:
    """Return the files that the code of a job writes outside ``outputs/`` by literal names: path → ``file:line``."""
    own = (path for path in _files(code) if not re.search(r"(?:^|[/_])tests?[/_.]|conftest|^setup\.py$", path))
    return {
        name: f"{path}:{line}"
        for path in own
        for name, line in files_beside_outputs((code / path).read_text("utf-8", "replace"))
    }


def script_arguments(tree: ast.Module) -> list[Argument]:
    """Return the arguments of a script; none where which ones it requires depends on others, as with subcommands."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [called(call) for call in calls]
    imported = _imported(tree)
    if _UNCLEAR & {*names, *imported} or names.count("ArgumentParser") > 1:
        return []
    branches = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "__name__" not in ast.dump(node.test)]
    conditional = {inner for node in branches for inner in ast.walk(node)}
    found = [one for module in ("typer", "fire") if module in imported for one in _of_function(tree, calls, module)]
    for call, name in zip(calls, names, strict=True):
        flags = tuple(one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str))
        given = {one.arg: one.value for one in call.keywords}
        if call in conditional:
            continue
        if name == "add_argument" and flags:
            needed = _is_required(flags[0], given)
        elif name in ("option", "argument") and flags and isinstance(call.func, ast.Attribute):
            needed = _true(given.get("required")) or (
                name == "argument" and not given.keys() & {"required", "default", "nargs"}
            )
        else:
            continue
        required = needed and not given.keys() & {"envvar", "prompt"}
        found.append(Argument(flags=flags, line=call.lineno, required=required, valued=_is_valued(flags, given)))
    return sorted(found, key=lambda one: one.line)


def _imported(tree: ast.Module) -> set[str]:
    """Return the modules that a script imports, by their first names."""
    found = {one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names}
    found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in found}


def _of_function(tree: ast.Module, calls: Sequence[ast.Call], module: str) -> Iterator[Argument]:
    """Yield the parameters of the one function that typer or fire makes a command of; of fire's, those that it requires.

    With another decorator, they may come from elsewhere.
    """
    runner = "Fire" if module == "fire" else "run"
    named = {one.id for call in calls if called(call) == runner for one in call.args[:1] if isinstance(one, ast.Name)}
    chosen = []
    for function in (one for one in tree.body if isinstance(one, ast.FunctionDef)):
        decorators = [called(one) if isinstance(one, ast.Call) else "" for one in function.decorator_list]
        if function.name in named or (module == "typer" and "command" in decorators):
            chosen.append((function.args, decorators))
    if len(chosen) != 1 or chosen[0][1] not in ([], ["command"]):
        return
    given = chosen[0][0]
    plain = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(plain) - len(given.defaults)), *given.defaults, *given.kw_defaults]
    for one, default in zip([*plain, *given.kwonlyargs], defaults, strict=True):
        if module == "fire" and default is None:
            flags: tuple[str, ...] = (f"-{one.arg}", f"--{one.arg.replace('_', '-')}", f"--{one.arg}")
            yield Argument(flags=flags, line=one.lineno, either=True)
        elif module == "typer":
            yield _typer_argument(one, default)


def _typer_argument(one: ast.arg, default: ast.expr | None) -> Argument:
    annotated = list(ast.walk(one.annotation)) if one.annotation is not None else []
    declared = [default, *annotated]
    own = next(
        (node for node in declared if isinstance(node, ast.Call) and called(node) in ("Option", "Argument")), None
    )
    given = {key.arg: key.value for key in own.keywords} if own is not None else {}
    if own is not None and own is default:
        default = own.args[0] if own.args else given.get("default")
    names = {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in annotated
        if isinstance(node, ast.Name | ast.Attribute)
    }
    empty = default is None or (isinstance(default, ast.Constant) and default.value is ...)
    # Typer passes a Context itself; what is no value, or a pair of flags, is not judged.
    optional = names & {"Context", "Optional", "bool"} or any(
        isinstance(node, ast.Constant) and node.value is None for node in annotated
    )
    required = empty and not optional and not given.keys() & {"envvar", "prompt", "default_factory"}
    if called(own) == "Argument" if own is not None else empty:
        return Argument(flags=(one.arg,), line=one.lineno, required=required)
    texts = [node.value for node in own.args if isinstance(node, ast.Constant)] if own is not None else []
    named = tuple(text for text in texts if isinstance(text, str) and text.startswith("-"))
    flags = named or (f"--{one.arg.replace('_', '-')}",)
    valued = "bool" not in names and _is_valued(flags, {**given, "default": default or ast.Constant(value=None)})
    return Argument(flags=flags, line=one.lineno, required=required, valued=valued)


def _is_valued(flags: Sequence[str], given: Mapping[str | None, ast.expr]) -> bool:
    """Return whether each of the flags takes the word after it for sure, by the keywords of its declaration."""
    if given.keys() & {"action", "nargs", "is_flag", "flag_value", "count"} or any("/" in flag for flag in flags):
        return False
    return flags[0].startswith("-") and not any(
        (isinstance(node, ast.Name) and node.id == "bool") or isinstance(getattr(node, "value", None), bool)
        for node in (given.get("type"), given.get("default"))
    )


def _is_required(flag: str, given: dict[str | None, ast.expr]) -> bool:
    if flag.startswith("-"):
        return _true(given.get("required"))
    nargs = given.get("nargs")
    return "default" not in given and not (isinstance(nargs, ast.Constant) and nargs.value in ("?", "*"))


def _true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def called(call: ast.Call) -> str:
    """Return the last name of what is called; empty for other expressions."""
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _missing(script: Path, given: Sequence[str]) -> list[Argument]:
    """Return the required arguments that are not *given*; none if a shell decides what is."""
    words = [word.removeprefix("$[[").removesuffix("]]") for word in given]
    if any("$" in word.replace("${{", "") for word in words):
        return []
    arguments = script_arguments(parsed(script.read_text("utf-8", "replace")))
    required = [one for one in arguments if one.required]
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    unnamed = [one for one in required if one.positional or not any(_gives(word, one) for word in flags)]
    if any(one.either for one in unnamed):
        loose = [
            word
            for before, word in zip(["", *words], words, strict=False)
            if not before.startswith("-") or "=" in before
        ]
        return unnamed[sum(not word.startswith("-") for word in loose) :]
    taking = {flag for one in arguments if one.valued for flag in one.flags}
    # `-` and `-1` may stand in a place, and after `--` everything does.
    loose = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if before not in taking and not re.match(r"-\D", word)
    ]
    by_place = [] if "--" in words else [one for one in unnamed if one.positional][len(loose) :]
    return [one for one in unnamed if not one.positional or one in by_place]


def _gives(word: str, one: Argument) -> bool:
    """Return whether a word of the command is a flag of an argument, or begins as it does."""
    return any(flag.startswith(word) or (len(flag) == 2 and word.startswith(flag)) for flag in one.flags)


def _commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command, without variables before it; none of a text with quotes across commands."""
    try:
        shlex.split(text, comments=True)
        parts = re.split(r"\n|;|&&|\|\|?|&", re.sub(r"\\\n", " ", text))
        commands = [shlex.split(part, comments=True) for part in parts]
    except ValueError:
        return
    for words in commands:
        while words and re.match(r"\w+=", words[0]):
            del words[0]
        if words:
            yield words


def _script(words: Sequence[str], code: Path) -> str | None:
    """Return the path of the file that a command runs, relative to the code; None if it names none."""
    program, *rest = words
    if program.startswith("./"):
        found = program
    elif program in _LAUNCHERS:
        found = next((word for word in rest if word.endswith(".py")), "")
    elif program in ("bash", "sh"):
        found = next((word for word in rest if not word.startswith("-")), "") if "-c" not in rest else ""
        found = found if found.endswith(".sh") else ""
    elif _PYTHON.fullmatch(program):
        while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
            rest = rest[2 if rest[0] in _WITH_VALUE else 1 :]
        if rest[:1] == ["-m"] and len(rest) > 1:
            return _module(rest[1], code)
        found = rest[0] if rest and not rest[0].startswith("-") else ""
    else:
        return None
    return found if found and "$" not in found and not found.startswith(("/", "~")) else None


def _module(name: str, code: Path) -> str | None:
    """Return the file of a module of the code; None for one that is installed, or there."""
    top = name.partition(".")[0]
    path = name.replace(".", "/")
    if not (code / top).is_dir() or (code / path).is_dir() or (code / f"{path}.py").is_file():
        return None
    return f"{path}.py"


def _files(code: Path, suffixes: tuple[str, ...] = (".py",)) -> list[str]:
    """Return the files of a folder that end so, relative to it, without hidden folders and installed packages."""
    found, seen = [], 0
    for folder, folders, files in os.walk(code):
        folders[:] = [one for one in folders if not one.startswith(".") and one not in _FOREIGN]
        here = Path(folder).relative_to(code)
        named = [one for one in files if one.endswith(suffixes) and not one.startswith(".")]
        found += [(here / one).as_posix() for one in named if Path(folder, one).is_file()]  # a link may lead nowhere
        seen += len(files)
        if seen >= _MOST_FILES:
            break
    return found
