"""Remove what this project made on this machine, and nothing else.

Containers, networks, volumes and images go by our labels alone. The official base image stays; a stand-in for it
goes, as it carries a label of ours. In the checkout go ``.venv``, ``.aml-train`` and the tools' caches.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
# Any of these keys on an object says that it is ours.
LABELS: Final = (
    "org.aml-train.owner",
    "org.aml-train.emulator",
    "org.aml-train.emulator.instance",
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


def find_argv(listing: Sequence[str], label: str) -> list[str]:
    """Return the command that lists the ids of the objects with *label*."""
    return ["docker", *listing, "--filter", f"label={label}"]


def _remove_from_engine() -> bool:
    if shutil.which("docker") is None:
        return True
    complete = True
    for listing, removal in _KINDS:
        ids = sorted({identity for label in LABELS for identity in _ask(find_argv(listing, label)).split()})
        if ids:
            print(f"removing {len(ids)} x {listing[0]}")
            complete &= (
                subprocess.run(["docker", *removal, *ids], stdout=subprocess.DEVNULL, check=False).returncode == 0
            )
    return complete


def _ask(argv: list[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Remove everything; return 0, or 1 where something could not be removed."""
    try:
        complete = _remove_from_engine()
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
