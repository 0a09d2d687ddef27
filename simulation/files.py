"""Files of failures: what ``simulation replay`` repeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from simulation.kernel import SimulationError
from simulation.kernel.decisions import Value
from simulation.runs import Job, Outcome

_FORMAT: Final = 1


def write_failure(folder: Path, outcome: Outcome) -> Path:
    """Write a failing run into *folder*; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    name = outcome.scenario.replace(":", ".").replace("/", ".")
    path = folder / f"{name}-{outcome.seed}.json"
    document = {
        "simulation": _FORMAT,
        "scenario": outcome.scenario,
        "seed": outcome.seed,
        "invariant": outcome.invariant,
        "message": outcome.message,
        "digest": outcome.digest,
        "plan": outcome.plan,
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return path


def read_failure(path: Path) -> tuple[Job, str, str]:
    """Return the run of a file, its trace's hash, and the violated invariant.

    Raises:
        SimulationError: the file cannot be read, or is none of these files.
    """
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SimulationError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict) or document.get("simulation") != _FORMAT:
        raise SimulationError(
            f'{path} is no file of a failure: it has no member "simulation" with the value {_FORMAT}'
        )
    scenario, seed, plan = document.get("scenario"), document.get("seed"), document.get("plan")
    digest, invariant = document.get("digest"), document.get("invariant")
    if not (
        isinstance(scenario, str)
        and isinstance(seed, int)
        and isinstance(plan, dict)
        and isinstance(digest, str)
        and isinstance(invariant, str)
    ):
        raise SimulationError(f"{path} needs `scenario`, `seed`, `plan`, `digest` and `invariant`")
    choices: dict[str, Value] = {}
    for key, value in plan.items():
        if not isinstance(value, (str, int, float, bool)):
            raise SimulationError(f"{path}: the choice {key} is neither text nor a number")
        choices[key] = value
    return Job(scenario=scenario, seed=seed, plan=choices), digest, invariant
