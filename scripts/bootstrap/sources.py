"""Hashes of sources: equal hash, nothing to do."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

SOURCE_LABEL = "org.aml-train.source"
_VALUE = r'^{name}\s*(?::[^=]+)?=\s*"([^"]*)"'
_NOT_SOURCES = {"__pycache__", "node_modules"}


def hash_files(root: Path, paths: Iterable[Path], *extra: str) -> str:
    """Return the SHA-256 of the files at and below *paths*, and of *extra* texts."""
    files = sorted({file for path in paths for file in _files(path)})
    digest = hashlib.sha256()
    for text in (*extra, *(f"{file.relative_to(root)}\n{_hash(file)}" for file in files)):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def _files(path: Path) -> Iterable[Path]:
    if path.is_dir():
        return (
            file
            for file in path.rglob("*")
            if file.is_file() and not _NOT_SOURCES.intersection(file.relative_to(path).parts)
        )
    return (path,) if path.exists() else ()


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def project_version(root: Path) -> str:
    """Return the project's version, read from its one place without importing it."""
    return _constant(root / "runner/aml_train/core/version.py", "__version__")


def emulator_reference(root: Path) -> str:
    """Return the name of the local AzureML's image, as ``core/version.py`` does."""
    file = root / "runner/aml_train/core/version.py"
    repository = _constant(file, "REPOSITORY").lower()
    place = f"{_constant(file, 'REGISTRY')}/{repository}" if repository else "aml-train"
    return f"{place}-emulator:{project_version(root)}"


def _constant(file: Path, name: str) -> str:
    """Return the text that *file* assigns to *name*."""
    match = re.search(_VALUE.format(name=name), file.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ValueError(f"{file} holds no {name}")
    return match[1]


def emulator_source(root: Path) -> str:
    """Return the hash of everything that goes into the local AzureML's image."""
    paths = (root / "runner/aml_emulator", root / "requirements/emulator.txt", root / "requirements/node.txt")
    return hash_files(root, paths, project_version(root))


def venv_source(root: Path, python: tuple[int, int]) -> str:
    """Return the hash of the sources of ``.venv``, the checkout's path included."""
    paths = (root / "requirements/dev.txt", root / "pyproject.toml", root / "runner/aml_train/core/version.py")
    return hash_files(root, paths, str(root), f"{python[0]}.{python[1]}")


def client_v1_source(root: Path, python: tuple[int, int]) -> str:
    """Return the hash of what the environment of azureml-core is made from."""
    return hash_files(root, (root / "requirements/client.txt",), str(root), f"{python[0]}.{python[1]}")


def npm_source(root: Path, folder: Path) -> str:
    """Return the hash of what the npm package of *folder* is installed from."""
    return hash_files(root, (folder / "package.json", folder / "package-lock.json"))
