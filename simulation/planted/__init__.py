"""Planted bugs: patches of the product, each of which the simulation has to find.

A patch begins with ``Scenario:``, where it is looked for, and ``Planted:``, what it breaks. It is applied to a copy of the
product, which the simulation runs in a separate process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simulation.kernel import SimulationError

#: The checkout, and the folder of the product's packages in it.
_ROOT: Final = Path(__file__).resolve().parents[2]
_PACKAGES: Final = "runner"
_PATCHES: Final = Path(__file__).resolve().parent / "patches"
#: Within so many minutes each bug has to be found.
MINUTES: Final = 10.0
#: Seconds that the search may take to end after its minutes.
_SPARE: Final = 600.0


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A planted bug.

    Attributes:
        name: of its patch.
        scenario: in which it is looked for.
        planted: what it breaks, a sentence.
        patch: the file.
    """

    name: str
    scenario: str
    planted: str
    patch: Path

    def plant(self, folder: Path) -> Path:
        """Copy the product into *folder*, patched; return the folder of its packages.

        Raises:
            SimulationError: the patch does not apply.
        """
        packages = folder / _PACKAGES
        shutil.copytree(_ROOT / _PACKAGES, packages, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        command = ["git", "apply", "--whitespace=nowarn", str(self.patch)]
        # In the copy, also where the folder is inside another repository.
        environ = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SimulationError(f"the planted bug {self.name} does not apply: {done.stderr.strip()}")
        return packages


@dataclass(frozen=True, kw_only=True)
class Found:
    """The end of a search.

    Attributes:
        invariant: that was violated; empty if none was.
        seed: of that run.
        seconds: of the search.
    """

    bug: Bug
    invariant: str
    seed: int
    seconds: float

    @property
    def line(self) -> str:
        """A sentence."""
        if not self.invariant:
            return f"{self.bug.name}: not found in {self.seconds:.0f} s"
        return f"{self.bug.name}: {self.invariant} by seed {self.seed} of {self.bug.scenario}, after {self.seconds:.0f} s"


def read_bugs(name: str | None = None) -> list[Bug]:
    """Return all planted bugs, or the one of a name.

    Raises:
        SimulationError: there is none of that name, or a patch lacks its head.
    """
    bugs = []
    for path in sorted(_PATCHES.glob("*.patch")):
        head = dict(line.split(": ", 1) for line in path.read_text(encoding="utf-8").split("\n\n")[0].splitlines())
        if head.keys() != {"Scenario", "Planted"}:
            raise SimulationError(f"{path}: begins with lines other than `Scenario: …` and `Planted: …`")
        bugs.append(Bug(name=path.stem, scenario=head["Scenario"], planted=head["Planted"], patch=path))
    if name is None:
        return bugs
    found = [bug for bug in bugs if bug.name == name]
    if not found:
        raise SimulationError(f"no planted bug is called {name}; there are {', '.join(bug.name for bug in bugs)}")
    return found


def search(bug: Bug, *, minutes: float = MINUTES, workers: int = 1) -> Found:
    """Look for a planted bug, seed by seed, until it is found or the time is over.

    Raises:
        SimulationError: the patch does not apply, or the simulation does not run.
    """
    with tempfile.TemporaryDirectory(prefix="aml-train-planted-") as place:
        packages, out = bug.plant(Path(place)), Path(place) / "failures"
        command = [sys.executable, "-m", "simulation", "--scenario", bug.scenario, "--minutes", str(minutes)]
        command += ["--workers", str(workers), "--first", "--no-shrink", "--out", str(out)]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(_ROOT)])}
        began = time.monotonic()
        done = subprocess.run(
            command,
            cwd=_ROOT,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=minutes * 60 + _SPARE,
        )
        seconds = time.monotonic() - began
        if done.returncode not in (0, 1) or (done.returncode == 1 and not out.is_dir()):
            raise SimulationError(
                f"the simulation of {bug.name} ended with {done.returncode}:\n{done.stderr[-2000:]}"
            )
        document: dict[str, Any] = {"invariant": "", "seed": 0}
        for path in out.glob("*.json") if done.returncode else ():
            document = json.loads(path.read_text(encoding="utf-8"))
    return Found(bug=bug, invariant=str(document["invariant"]), seed=int(document["seed"]), seconds=seconds)


def table(found: Sequence[Found]) -> str:
    """Return the searches as a table in Markdown."""
    lines = ["| planted bug | scenario | found by | seed | seconds |", "|---|---|---|---:|---:|"]
    for one in found:
        by = f"`{one.invariant}`" if one.invariant else "not found"
        lines.append(
            f"| {one.bug.planted} (`{one.bug.name}`) | `{one.bug.scenario}` | {by} | {one.seed} | {one.seconds:.0f} |"
        )
    return "\n".join(lines)
