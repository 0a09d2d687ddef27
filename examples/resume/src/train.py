"""Fit a line to points by gradient descent, with checkpoints that a preempted training resumes from."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import mlflow

FOLDER = Path("outputs/checkpoints")
POINTS = [(x / 10, 2 * x / 10 + 1) for x in range(10)]
EVERY = 10
PACE = 0.1
"""Seconds for a step: a real training takes its time, and can be preempted meanwhile."""


def newest() -> Path | None:
    """Return the checkpoint to resume from; None for a training that begins.

    The attempt that follows a failed one is given the folder of that one as the input ``resume``. A job that AzureML has put back
    into its queue has the same name as before, and finds what it wrote among its own artefacts.
    """
    given = os.environ.get("AZURE_ML_INPUT_resume")  # noqa: SIM112 - it ends with the name of the input
    run = os.environ.get("MLFLOW_RUN_ID")
    if given is None and run is not None:
        own = f"{mlflow.get_run(run).info.artifact_uri}/{FOLDER}"
        if mlflow.artifacts.list_artifacts(artifact_uri=own):
            given = mlflow.artifacts.download_artifacts(artifact_uri=own)
    found = [] if given is None else sorted(Path(given).glob("step-*.json"))
    return found[-1] if found else None


def save(step: int, slope: float, offset: float) -> None:
    """Write a checkpoint that is complete or not there."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    new = FOLDER / "new"
    new.write_text(json.dumps({"step": step, "slope": slope, "offset": offset}))
    new.rename(FOLDER / f"step-{step:06}.json")


def main() -> None:
    """Train, log every step, save every tenth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps
    begin, slope, offset = 0, 0.0, 0.0
    if (checkpoint := newest()) is not None:
        state = json.loads(checkpoint.read_text())
        begin, slope, offset = state["step"] + 1, state["slope"], state["offset"]
        print(f"resuming from {checkpoint.name}", flush=True)
    with mlflow.start_run():
        for step in range(begin, steps):
            errors = [(slope * x + offset - y, x) for x, y in POINTS]
            slope -= 0.6 * sum(error * x for error, x in errors) / len(errors)
            offset -= 0.6 * sum(error for error, _ in errors) / len(errors)
            loss = sum(error * error for error, _ in errors) / len(errors)
            mlflow.log_metric("loss", loss, step=step)
            print(f"step {step}  loss {loss:.6f}", flush=True)
            if step % EVERY == EVERY - 1:
                save(step, slope, offset)
            time.sleep(PACE)


if __name__ == "__main__":
    main()
