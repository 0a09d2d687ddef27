"""Write the lock files in requirements/, or ``--check`` them with pyproject.toml.

Versions that are locked already stay, unless ``--upgrade`` asks for the newest. Needs the uv of ``.venv``.
"""

from __future__ import annotations

import argparse
import difflib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_FLAGS: Final = (
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-header",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-annotate",
    "--quiet",
)


@dataclass(frozen=True, kw_only=True)
class Lock:
    """One lock file.

    Attributes:
        name: the file in requirements/.
        wants: uv's options for what is locked.
        agrees_with: the file in requirements/ whose versions it must share, or None.
        but: packages whose versions it need not share.
    """

    name: str
    wants: tuple[str, ...]
    agrees_with: str | None = None
    but: tuple[str, ...] = ()


# Order matters: the first is what the others agree with.
LOCKS: Final = (
    Lock(
        name="dev.txt",
        wants=("pyproject.toml", "--group=emulator", "--group=dev"),
    ),
    Lock(
        name="client.txt",
        wants=("pyproject.toml", "--extra=azure-v1"),
        agrees_with="dev.txt",
        # azureml-core 1.61 wants older ones than the newest, with which everything else is tried (pyopenssl bounds cryptography).
        but=("cryptography", "packaging", "pathspec"),
    ),
    # Newer ones of what these hold back are in dev.txt: both majors are tried as their users have them.
    Lock(name="mlflow-2.txt", wants=("requirements/mlflow-2.in",)),
    Lock(name="mlflow-3.txt", wants=("requirements/mlflow-3.in",)),
    Lock(name="emulator.txt", wants=("--group=emulator",), agrees_with="dev.txt"),
    Lock(name="docs.txt", wants=("--group=docs",), agrees_with="dev.txt"),
    Lock(name="tools.txt", wants=("--group=tools",), agrees_with="dev.txt"),
    Lock(name="node.txt", wants=("--group=node",)),
)


def compile_argv(lock: Lock, output: Path, *, constraints: Path | None, upgrade: bool) -> list[str]:
    """Return uv's command line that locks *lock* into *output*, within *constraints*.

    Present versions in *output* are kept.
    """
    return [
        "uv",
        "pip",
        "compile",
        *_FLAGS,
        *lock.wants,
        *((f"--constraints={constraints}",) if constraints else ()),
        *(("--upgrade",) if upgrade else ()),
        f"--output-file={output}",
    ]


def compile_locks(folder: Path, *, upgrade: bool) -> None:
    """Lock all into *folder*, which has the present lock files."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    for lock in LOCKS:
        with tempfile.TemporaryDirectory() as name:
            constraints = None
            if lock.agrees_with is not None:
                constraints = Path(name, lock.agrees_with)
                text = (folder / lock.agrees_with).read_text(encoding="utf-8")
                constraints.write_text(without(text, lock.but), encoding="utf-8")
            argv = compile_argv(lock, folder / lock.name, constraints=constraints, upgrade=upgrade)
            subprocess.run([uv, *argv[1:]], cwd=ROOT, check=True)


def without(text: str, names: Sequence[str]) -> str:
    """Return the *text* of a lock file without the packages *names* and their hashes."""
    kept, skipped = [], False
    for line in text.splitlines(keepends=True):
        if not line[:1].isspace():
            skipped = line.partition("==")[0] in names
        if not skipped:
            kept.append(line)
    return "".join(kept)


def main(arguments: Sequence[str] | None = None) -> int:
    """Lock or check; return 1 if a check finds a difference or uv fails."""
    parser = argparse.ArgumentParser(prog="scripts.lock", description="Write or check the lock files.")
    parser.add_argument("--check", action="store_true", help="only report whether they agree with pyproject.toml")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    options = parser.parse_args(arguments)
    requirements = ROOT / "requirements"
    try:
        if not options.check:
            compile_locks(requirements, upgrade=options.upgrade)
            return 0
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file in requirements.glob("*.txt"):
                shutil.copyfile(file, folder / file.name)
            compile_locks(folder, upgrade=False)
            return max(_compare(requirements / lock.name, folder / lock.name) for lock in LOCKS)
    except subprocess.CalledProcessError as error:
        print(f"lock: uv failed with exit code {error.returncode}", file=sys.stderr)
        return 1


def _compare(present: Path, wanted: Path) -> int:
    before = present.read_text(encoding="utf-8").splitlines() if present.exists() else []
    changes = [
        line
        for line in difflib.unified_diff(before, wanted.read_text(encoding="utf-8").splitlines(), n=0, lineterm="")
        if line[:1] in "+-" and "==" in line
    ]
    if present.exists() and before == wanted.read_text(encoding="utf-8").splitlines():
        print(f"requirements/{present.name}: agrees with pyproject.toml")
        return 0
    print(f"requirements/{present.name}: does not agree with pyproject.toml; run `make lock`", file=sys.stderr)
    print("\n".join(f"  {line}" for line in changes), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
