"""The program cosign: that of this machine, or of Debian 13's package, which is unpacked and not installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from scripts.bootstrap.stand_in import find_mirror, read_sources

KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SECONDS: Final = 300


class NoCosignError(Exception):
    """There is none, and none can be fetched; the message says why."""


def find_cosign(folder: Path) -> str:
    """Return the program; fetch it into *folder* if this machine has none.

    Raises:
        NoCosignError: neither is possible.
    """
    if (found := shutil.which("cosign")) is not None:
        return found
    program = folder / "cosign/usr/bin/cosign"
    if not program.is_file():
        if shutil.which("apt-get") is None or not KEYRING.is_file():
            raise NoCosignError("neither cosign nor an archive of Debian is here")
        with tempfile.TemporaryDirectory(prefix="cosign-") as temporary:
            _fetch(Path(temporary), program.parents[2])
    return str(program)


def _fetch(temporary: Path, target: Path) -> None:
    """Download the package, which apt checks by its signed list, and unpack it."""
    lists = temporary / "sources.list"
    lists.write_text(f"deb [signed-by={KEYRING}] {find_mirror(read_sources(Path('/etc/apt')))} trixie main\n")
    for name in ("state", "cache/archives/partial", "lists/partial"):
        (temporary / name).mkdir(parents=True)
    (temporary / "state/status").touch()
    options = {
        "Dir::Etc::sourcelist": lists,
        "Dir::Etc::sourceparts": "-",
        "Dir::State": temporary / "state",
        "Dir::State::lists": temporary / "lists",
        "Dir::State::status": temporary / "state/status",
        "Dir::Cache": temporary / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "--quiet", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    _run([*apt, "update"], temporary)
    _run([*apt, "download", "cosign"], temporary)
    (package,) = temporary.glob("cosign_*.deb")
    target.mkdir(parents=True, exist_ok=True)
    _run(["dpkg-deb", "--extract", str(package), str(target)], temporary)


def _run(argv: list[str], folder: Path) -> None:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise NoCosignError(f"{' '.join(argv[:1] + argv[-1:])} failed: {done.stderr.strip()[-300:]}")
