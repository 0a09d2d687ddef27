"""Remove what this project made on this machine, and nothing else.

Containers, networks, volumes and images go by our labels alone. The official base image stays; a stand-in for it
goes, as it carries a label of ours. In the checkout go ``.venv``, ``.aml-train`` and the tools' caches.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
# Any of these keys on an object says that it is ours.
LABELS: Final = (
    "org.aml-train.owner",
    "org.aml-train.emulator",
    "org.aml-train.emulator.instance",
    "org.aml-train.emulator.name",
    "org.aml-train.source",
    "org.aml-train.stand-in",
)
_FOLDERS: Final = (
    ".venv",
    ".aml-train",
    ".nox",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".import_linter_cache",
)
# Containers first: what they use can only go after them.
_KINDS: Final = (
    (("container", "ls", "--all", "--quiet"), ("container", "rm", "--force", "--volumes")),
    (("network", "ls", "--quiet"), ("network", "rm")),
    (("volume", "ls", "--quiet"), ("volume", "rm")),
    (("image", "ls", "--all", "--quiet"), ("image", "rm", "--force")),
)


Engine = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]
"""Runs the Docker client with these arguments."""


def remove_all(engine: Engine, listing: Sequence[str], removal: Sequence[str]) -> bool:
    """Remove all objects of one kind with a label of ours.

    Returns whether none is left.

    Images are built on one another, and the engine lists them in no order: each pass removes those that no other needs.

    Raises:
        subprocess.CalledProcessError: the engine cannot list them.
    """
    found = _find(engine, listing)
    while found:
        print(f"removing {len(found)} x {listing[0]}")
        refusals = engine([*removal, *found]).stderr
        left = _find(engine, listing)
        if len(left) >= len(found):
            print(f"clean: {len(left)} x {listing[0]} cannot be removed:\n{refusals.strip()}", file=sys.stderr)
            return False
        found = left
    return True


def _find(engine: Engine, listing: Sequence[str]) -> list[str]:
    found: set[str] = set()
    for label in LABELS:
        done = engine([*listing, "--filter", f"label={label}"])
        done.check_returncode()
        found.update(done.stdout.split())
    return sorted(found)


def _docker(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)


def main() -> int:
    """Remove everything; return 0, or 1 where something could not be removed."""
    complete = True
    try:
        for listing, removal in _KINDS if shutil.which("docker") is not None else ():
            complete &= remove_all(_docker, listing, removal)
    except subprocess.CalledProcessError as error:
        print(f"clean: the Docker engine was not cleaned: {error.stderr.strip()}", file=sys.stderr)
        complete = False
    for name in _FOLDERS:
        if (ROOT / name).exists():
            print(f"removing {name}")
            shutil.rmtree(ROOT / name)
    for bytecode in (
        cache for top in ("runner", "action", "tests", "scripts") for cache in (ROOT / top).rglob("__pycache__")
    ):
        shutil.rmtree(bytecode, ignore_errors=True)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
