"""Programs of another Debian release, unpacked into a folder: nothing is installed.

apt fetches and verifies them, with lists and caches of its own, so that the machine's stay as they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.scheduling import one_at_a_time

KEYS: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ARCHIVE: Final = "http://deb.debian.org/debian"
_KEPT: Final = Path(__file__).parents[2] / ".aml-train" / "debian"
_SECONDS: Final = 300
_NEEDED: Final = ("apt-get", "dpkg-deb")


class UnavailableError(Exception):
    """The packages cannot be had here; the message says why."""


def unpacked(release: str, packages: Sequence[str]) -> Path:
    """Return a folder that holds the files of *packages*; it is kept for the next call.

    Args:
        release: such as ``trixie``.
        packages: names, without their dependencies.

    Raises:
        UnavailableError: this machine has no apt or no keys of Debian, or the archive does not answer.
    """
    if lacking := [name for name in _NEEDED if shutil.which(name) is None]:
        raise UnavailableError(f"{', '.join(lacking)} is not here")
    if not KEYS.exists():
        raise UnavailableError(f"Debian's keys are not here: {KEYS}, of the package debian-archive-keyring")
    folder = _KEPT / "-".join((release, *sorted(packages)))
    with one_at_a_time(f"debian-{folder.name}"):
        if not (folder / "root").is_dir():
            _fetch(folder, release, packages)
    return folder / "root"


def _fetch(folder: Path, release: str, packages: Sequence[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial", "new"):
        (folder / name).mkdir(parents=True)
    (folder / "sources.list").write_text(f"deb [signed-by={KEYS}] {ARCHIVE} {release} main\n")
    settings = {
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::status": "/dev/null",
        "APT::Architecture": "amd64",
        "Acquire::Retries": 3,
    }
    options = [f"--option={key}={value}" for key, value in settings.items()]
    _run(["apt-get", *options, "update", "--error-on=any"], folder)
    _run(["apt-get", *options, "download", *packages], folder)
    for file in sorted(folder.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(file), str(folder / "new")], folder)
        file.unlink()
    shutil.rmtree(folder / "lists")
    (folder / "new").rename(folder / "root")


def _run(command: Sequence[str], folder: Path) -> None:
    environ = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{command[0]} took longer than {_SECONDS} seconds") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no reason is given"]
        raise UnavailableError(f"{command[0]} failed: {lines[-1]}")
