"""The folders that the project's tests need in PYTHONPATH, judged by their imports."""

from __future__ import annotations

import os
import posixpath
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from aml_train.cli.scaffold.imports import Code, Needed, needed_by
from aml_train.cli.scaffold.programs import Program, programs
from aml_train.config import Config

WORKSPACE: Final = "/workspace"
"""The folder of the tests' container that has the project's files."""

_SKIPPED: Final = frozenset({"node_modules", "site-packages", "__pycache__"})
_MOST_FILES: Final = 50_000
_MOST_BYTES: Final = 1 << 20
_TEST: Final = re.compile(r"(test_.*|.*_test)\.py")


def folders_for_tests(config: Config) -> tuple[str, ...]:
    """Return the folders of the tests' container that have modules which pytest would not find."""
    code = _code(config.directory) if config.image is not None and config.tests is not None else None
    if code is None:
        return ()
    found = [
        posixpath.normpath(f"{WORKSPACE}/{_home(code, name)}")
        for needed in _loaded_by_tests(config, code)
        for name in needed.unfound
    ]
    return tuple(dict.fromkeys(found))


def _loaded_by_tests(config: Config, code: Code) -> Iterator[Needed]:
    """Yield what the tests import, where ``sys.path`` is known."""
    tests = config.tests
    if tests is None or config.image is None or "pip install" in tests.command:
        return
    root = f"{WORKSPACE}/{tests.workdir}".rstrip("/.") if tests.workdir else WORKSPACE
    for one in programs(tests.command, code, {**config.image.env, **tests.env}, root):
        if one.tests is not None and one.certain:
            needed = needed_by(code, list(_starts(one, code, config.directory)))
            texts = (code.read(path) for path in needed.read)
            if not any("sys.path" in text or "importlib" in text for text in texts):
                yield needed


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


def _home(code: Code, name: str) -> str:
    """Return the outermost folder that has a module of this name."""
    found = [posixpath.dirname(path) for path in code.paths if path.endswith(f"/{name}.py") or path == f"{name}.py"]
    found += [posixpath.dirname(folder) for folder in code.folders if f"/{folder}".endswith(f"/{name}")]
    return min(found, key=lambda folder: (folder.count("/"), folder), default="")


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
            return ""

    return Code(paths=paths, read=read)
