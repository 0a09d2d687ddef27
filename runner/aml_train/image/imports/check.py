"""Imports of the job's command and the tests that neither image nor code have.

A note is certain or says that it is not: it names a module only if every package of the image is known. Base images and
build steps with other contents give none.
"""

from __future__ import annotations

import os
import posixpath
import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from aml_train.config import Config
from aml_train.image.imports.command_line import Program, programs
from aml_train.image.imports.distributions import may_provide, package_for
from aml_train.image.imports.packages import Packages, packages_of
from aml_train.image.imports.sources import Code, Needed, needed_by

WORKSPACE: Final = "/workspace"
"""The folder of the tests' container that has the project's files."""

_SKIPPED: Final = frozenset({"node_modules", "site-packages", "__pycache__"})
_MOST_FILES: Final = 50_000
_MOST_BYTES: Final = 1 << 20
_MOST_NOTES: Final = 8
_TEST: Final = re.compile(r"(test_.*|.*_test)\.py")


def missing_imports(config: Config) -> tuple[str, ...]:
    """Return notes on imports that cannot be found; none without certainty.

    Args:
        config: a checked configuration. Python files of its project are read.
    """
    if config.image is None or config.image.dockerfile is not None:
        return ()
    packages = packages_of(config.image)
    project = _code(config.directory)
    if project is None:
        return ()
    notes = [*_of_job(config, packages, project), *(_of_tests(config, packages, project) if config.tests else ())]
    unique = list(dict.fromkeys(notes))
    more = len(unique) - _MOST_NOTES
    return (*unique[:_MOST_NOTES], *([f"and {more} more imports like these"] if more > 0 else ()))


def _of_job(config: Config, packages: Packages, project: Code) -> Iterator[str]:
    folder = config.job.code
    if folder is None or not folder.is_dir():
        return
    code = _code(folder)
    if code is None:
        return
    variables = {**(config.image.env if config.image else {}), **_variables(config)}
    found = programs(str(config.job.document.get("command", "")), code, variables)
    lead = _lead(folder, config.directory)
    needed = needed_by(code, [(one.path, one.roots) for one in found])
    outside = {name for name in needed.modules if project.has_top(name)}
    installs = any("pip install" in one.command for one in config.setup) or "pip install" in str(
        config.job.document.get("command", "")
    )
    if not installs:
        yield from _third_party(needed, packages, lead, outside)
    if all(one.certain for one in found) and not installs and not _changes_path(code, needed):
        for name, (path, line) in needed.unfound.items():
            place = _home(code, name)
            yield (
                f"{lead}{path}:{line}: the job imports `{name}`, which is in {lead}{place}: "
                f"add that folder to PYTHONPATH in the job's `environment_variables`, or run a module from it"
            )


def _of_tests(config: Config, packages: Packages, code: Code) -> Iterator[str]:
    for needed, certain in _loaded_by_tests(config, code):
        yield from _third_party(needed, packages, "")
        for name, (path, line) in needed.unfound.items() if certain else ():
            place = _home(code, name)
            yield (
                f"{path}:{line}: the tests import `{name}`, which is in {place or 'the project folder'}: "
                f"pytest does not look there; add `tests.env: {{PYTHONPATH: {_inside(place)}}}`"
            )


def test_folders(config: Config) -> tuple[str, ...]:
    """Return the folders that the tests need in PYTHONPATH, in the container."""
    if config.image is None or config.tests is None:
        return ()
    code = _code(config.directory)
    if code is None:
        return ()
    found = [
        _inside(_home(code, name))
        for needed, certain in _loaded_by_tests(config, code)
        if certain
        for name in needed.unfound
    ]
    return tuple(dict.fromkeys(found))


def _loaded_by_tests(config: Config, code: Code) -> Iterator[tuple[Needed, bool]]:
    """Yield what the tests import, and whether ``sys.path`` is known."""
    tests = config.tests
    if tests is None or config.image is None or "pip install" in tests.command:
        return
    root = f"{WORKSPACE}/{tests.workdir}".rstrip("/.") if tests.workdir else WORKSPACE
    variables = {**config.image.env, **tests.env}
    for one in programs(tests.command, code, variables, root):
        if one.tests is not None:
            needed = needed_by(code, list(_starts(one, code, config.directory)))
            yield needed, one.certain and not _changes_path(code, needed)


def _inside(folder: str) -> str:
    return posixpath.normpath(f"{WORKSPACE}/{folder}")


def _third_party(needed: Needed, packages: Packages, lead: str, outside: Collection[str] = ()) -> Iterator[str]:
    if not packages.complete:
        return
    for module, (path, line) in needed.modules.items():
        if any(may_provide(name, module) for name in packages.names):
            continue
        where = f"{lead}{path}:{line}"
        if module in outside:
            yield f"{where}: imports `{module}`, which is in the project but not in the job's code folder: see `code`"
        elif packages.unknown:
            names = ", ".join(packages.unknown[:3]) + (" or another package" if len(packages.unknown) > 3 else "")
            yield f"{where}: cannot be checked: `{module}` is no package of the image's list; {names} may bring it"
        else:
            yield f"{where}: imports `{module}`, which no package of the image has: add {package_for(module) or 'the one that has it'} to `image.pip`"


def _starts(program: Program, code: Code, directory: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the test files of a program, each with the folders of ``sys.path``."""
    configured = _pytest_roots(directory)
    conftests = [one for one in code.paths if posixpath.basename(one) == "conftest.py"]
    for path in sorted(code.paths):
        name, folder = posixpath.basename(path), posixpath.dirname(path)
        tests = program.tests or ()
        inside = any(not test or path == test or path.startswith(f"{test}/") for test in tests)
        above = any(not folder or f"{test}/".startswith(f"{folder}/") for test in tests)
        if not (inside and _TEST.fullmatch(name)) and not ((inside or above) and name == "conftest.py"):
            continue
        folders = [folder, *(posixpath.dirname(one) for one in conftests if path.startswith(posixpath.dirname(one)))]
        yield path, (*(_above_package(one, code) for one in folders), *program.roots, *configured)


def _above_package(folder: str, code: Code) -> str:
    """Return the folder that pytest puts into ``sys.path``: no package, and nearest.

    Source: https://docs.pytest.org/en/stable/explanation/pythonpath.html
    """
    while folder and f"{folder}/__init__.py" in code.paths:
        folder = posixpath.dirname(folder)
    return folder


def _pytest_roots(directory: Path) -> tuple[str, ...]:
    """Return the folders of pytest's option ``pythonpath``."""
    try:
        text = (directory / "pyproject.toml").read_text(encoding="utf-8")
        options = tomllib.loads(text).get("tool", {}).get("pytest", {}).get("ini_options", {})
        value = options.get("pythonpath", ())
    except (OSError, ValueError, AttributeError):
        value = ()
    found = value.split() if isinstance(value, str) else [str(one) for one in value]
    for name in ("pytest.ini", "tox.ini", "setup.cfg"):
        try:
            text = (directory / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if match := re.search(r"^pythonpath\s*=\s*(.*(?:\n[ \t]+\S.*)*)", text, re.MULTILINE):
            found += match[1].split()
    return tuple("" if one == "." else posixpath.normpath(one) for one in found)


def _changes_path(code: Code, needed: Needed) -> bool:
    """Return whether a file that is loaded changes ``sys.path`` itself."""
    return any("sys.path" in code.read(path) or "importlib" in code.read(path) for path in needed.read)


def _home(code: Code, name: str) -> str:
    """Return the outermost folder that has a module of this name."""
    found = [posixpath.dirname(path) for path in code.paths if path.endswith(f"/{name}.py") or path == f"{name}.py"]
    found += [posixpath.dirname(folder) for folder in code.folders if f"/{folder}".endswith(f"/{name}")]
    return min(found, key=lambda folder: (folder.count("/"), folder), default="")


def _variables(config: Config) -> dict[str, str]:
    given = config.job.document.get("environment_variables") or {}
    return {str(name): str(value) for name, value in given.items()}


def _lead(folder: Path, project: Path) -> str:
    path = os.path.relpath(folder, project)
    return "" if path == "." else f"{path}/"


def _code(folder: Path) -> Code | None:
    """Return the Python files of a folder, tools left out; None for too many."""
    paths: set[str] = set()
    looked = 0
    for here, folders, files in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and name not in _SKIPPED and not Path(here, name, "pyvenv.cfg").exists()
        ]
        looked += len(files) + len(folders)
        if looked > _MOST_FILES:
            return None
        lead = Path(here).relative_to(folder).as_posix()
        paths |= {name if lead == "." else f"{lead}/{name}" for name in files if name.endswith(".py")}

    def read(path: str) -> str:
        file = folder / path
        try:
            return file.read_text(encoding="utf-8", errors="replace") if file.stat().st_size <= _MOST_BYTES else ""
        except OSError:
            # Selecting the snapshot reports a file that cannot be read.
            return ""

    return Code(paths=paths, read=read)
