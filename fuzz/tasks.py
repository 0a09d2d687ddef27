"""One process's part of a run."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from fuzz.loop import Failure, Result, run


@dataclass(frozen=True, kw_only=True)
class Task:
    """A target, and how much of it.

    Attributes:
        inputs: how many inputs all parts have together; None for as many as the time allows.
        seconds: when to end; None for no limit.
        part: which of *parts* equal shares this is.
        guided: by coverage.
        examples: where failing inputs are written.
    """

    name: str
    seed: int
    inputs: int | None
    seconds: float | None
    part: int
    parts: int
    guided: bool
    examples: Path


def carry_out(task: Task) -> Result:
    """Run it in this process, or guided in another."""
    if not task.guided:
        return run(
            task.name,
            seed=task.seed,
            inputs=task.inputs,
            seconds=task.seconds,
            first=task.part,
            step=task.parts,
            examples=task.examples,
        )
    seed = task.seed * task.parts + task.part
    command = [sys.executable, "-m", "fuzz.guided", task.name, f"--seed={seed}", f"--examples={task.examples}"]
    command += [f"--inputs={max(1, task.inputs // task.parts)}"] if task.inputs is not None else []
    command += [f"--seconds={task.seconds}"] if task.seconds is not None else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if not last.startswith("{"):
        raise RuntimeError(f"{task.name}: the guided run ended by itself:\n{done.stderr[-3000:]}")
    found = json.loads(last)
    failures = {key: Failure(key=key, text=text, file=Path(file)) for key, text, file in found["failures"]}
    return Result(name=task.name, inputs=found["inputs"], seconds=found["seconds"], failures=failures)
