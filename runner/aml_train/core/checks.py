"""The readiness checks of an image: their names, and the value of a finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Level = Literal["error", "warning", "info"]

CHECKS: Final[Mapping[str, str]] = {
    "shell": "`bash` is there",
    "python": "a Python 3 is on PATH",
    "python-command": "the command `python`, which most jobs call, is there",
    "azureml-packages": "the AzureML packages that are wanted are there",
    "azureml-import": "the AzureML packages can be imported",
    "azureml-conflicts": "what the AzureML packages need is installed in fitting versions",
    "pip-conflicts": "what the other Python packages need is installed in fitting versions",
    "certificates": "certificate authorities are there, for https",
    "fuse": "libfuse is there, where the image's own AzureML packages mount data",
    "user": "the image's user has a name, a home and `/tmp` that can be written to",
    "libibverbs": "libibverbs loads",
    "mlx5": "the mlx5 provider is there, has libibverbs' ABI, and loads",
    "nccl": "NCCL loads, and its version",
    "nccl-plugin": "NCCL's network plugin loads, where there is one",
    "nccl-sockets": "no variable forces NCCL to use sockets",
    "cuda": "versions of CUDA and torch; nothing hides the GPU's driver",
    "mpi": "mpirun is there, where the job is started by it",
}
"""Check → what it looks at. The names are what ``image.checks.ignore`` takes, and what docs/image.md explains."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        check: its name, one of :data:`CHECKS`.
        level: an error ends the run before anything is released; a warning is to be acted on; info is good to know.
        what: what is so.
        why: why it matters; empty where there is nothing to be done.
        remedy: what to do; empty where there is nothing to be done.
        ignored: the configuration allows it: it counts as info, whatever its level.
    """

    check: str
    level: Level
    what: str
    why: str = ""
    remedy: str = ""
    ignored: bool = False

    @property
    def counts_as(self) -> Level:
        """The level after the configuration had its say."""
        return "info" if self.ignored else self.level

    def __str__(self) -> str:
        tail = "; ".join(part for part in (self.why, self.remedy) if part)
        allowed = " (ignored)" if self.ignored else ""
        return f"{self.check}: {self.what}{allowed}" + (f": {tail}" if tail else "")


def error(check: str, what: str, *, why: str, remedy: str) -> Finding:
    """Return a finding that ends the run."""
    return Finding(check=check, level="error", what=what, why=why, remedy=remedy)


def warning(check: str, what: str, *, why: str, remedy: str) -> Finding:
    """Return a finding to be acted on."""
    return Finding(check=check, level="warning", what=what, why=why, remedy=remedy)


def info(check: str, what: str) -> Finding:
    """Return a finding that is good to know."""
    return Finding(check=check, level="info", what=what)
