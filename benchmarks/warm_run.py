"""The cost of a run beyond the user's own commands.

Usage: ``python -m benchmarks.warm_run [--rounds N]``.

The baseline is the training command of examples/digits run by bare ``docker run`` in the same image, its code and
model folder in the container, metrics logged to its own files; and the test command likewise, where the run had to
test. Goals: the warm run with ``--fresh`` at most 5 s more than its baseline; with nothing changed at all and
a job that ended half a minute ago, the verdict within 0.9 s, and within 1.2 s if the job has ten inputs of a hundred blobs.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aml_train.local.settings import EmulatorSettings
from benchmarks.measuring import AML_TRAIN, ROOT, make_row, print_table, time_command

_PROJECT = "examples/digits"
_TRAIN = "cd /project/src && python train.py --epochs 20 --learning-rate 0.01 --seed 0"
_TEST = "cd /project && pytest -q tests"
#: More seconds than a run takes a job to have just ended.
_SETTLED_AFTER = 35.0
_LOCAL_MLFLOW = ("MLFLOW_TRACKING_URI=/tmp/mlruns", "MLFLOW_ALLOW_FILE_STORE=true", "GIT_PYTHON_REFRESH=quiet")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One timed run.

    Attributes:
        seconds: from start to exit.
        tested: whether the tests ran, or their record was found.
        image: the image as the engine can name it.
    """

    seconds: float
    tested: bool
    image: str


def _run(registry: str, *options: str, project: str = _PROJECT) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "events.jsonl"
        seconds = time_command([AML_TRAIN, "run", "-C", project, *options, "--events", str(record)])
        events = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    image = _last(events, "image-ready")
    tests = _last(events, "tests-finished")
    repository = image["reference"].partition("@")[0].partition("/")[2]
    return Ran(seconds=seconds, tested=not tests["cached"], image=f"{registry}/{repository}@{image['digest']}")


def _last(events: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(event for event in reversed(events) if event["event"] == name)


def _docker_run(image: str, command: str) -> float:
    variables = [word for variable in _LOCAL_MLFLOW for word in ("--env", variable)]
    mount = f"{ROOT / _PROJECT}:/mounted:ro"
    script = f"cp -r /mounted /project && {command}"
    return time_command(["docker", "run", "--rm", "--volume", mount, *variables, image, "sh", "-c", script])


def _nothing_changed(registry: str, project: Path, rounds: int, *, inputs: int = 0) -> list[float]:
    """Return the seconds of runs that find a job with one attempt, as most jobs have.

    Args:
        inputs: how many folders of a hundred blobs the job has as further inputs.
    """
    shutil.copytree(ROOT / _PROJECT, project, ignore=shutil.ignore_patterns("__pycache__", "outputs"))
    job, mark = project / "job.yml", f"warm-{secrets.token_hex(3)}"
    text = job.read_text(encoding="utf-8").replace("experiment_name: ", f"experiment_name: {mark}-")
    if inputs:
        address = f"azureml://datastores/workspaceblobstore/paths/{mark}"
        with tempfile.TemporaryDirectory() as folder:
            for number in range(inputs * 100):
                file = Path(folder) / str(number // 100) / f"{number % 100}.csv"
                file.parent.mkdir(exist_ok=True)
                file.write_text(f"{number}\n", encoding="utf-8")
            time_command([AML_TRAIN, "data", "upload", folder, address])
        folders = "".join(
            f"  part{number}: {{type: uri_folder, path: {address}/{number}}}\n" for number in range(inputs)
        )
        text = text.replace("inputs:\n", f"inputs:\n{folders}")
    job.write_text(text, encoding="utf-8")
    _run(registry, project=str(project))
    # Metrics of a job that has just ended may still arrive, and are read with a pause.
    time.sleep(_SETTLED_AFTER)
    return [_run(registry, project=str(project)).seconds for _ in range(rounds)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="runs of each kind  [default: 5]")
    rounds = parser.parse_args().rounds
    registry = f"localhost:{EmulatorSettings.from_environment(os.environ).registry_port}"

    print("Warming up: the image is built and tested where that was not done before …", flush=True)
    image = _run(registry).image
    _docker_run(image, _TRAIN)

    fresh, train, test, beyond = [], [], [], []
    for _ in range(rounds):
        train.append(_docker_run(image, _TRAIN))
        test.append(_docker_run(image, _TEST))
        ran = _run(registry, "--fresh")
        fresh.append(ran.seconds)
        beyond.append(ran.seconds - train[-1] - (test[-1] if ran.tested else 0.0))

    with tempfile.TemporaryDirectory() as folder:
        same = _nothing_changed(registry, Path(folder) / "digits", rounds)
        with_data = _nothing_changed(registry, Path(folder) / "data" / "digits", rounds, inputs=10)

    baseline = make_row("docker run: training", train)
    bare = statistics.median(fresh) - statistics.median(beyond)
    rows = (
        baseline,
        make_row("docker run: tests", test),
        make_row("aml-train run --fresh", fresh, baseline=bare, more=5.0),
        make_row("aml-train run, nothing changed", same, more=0.9),
        make_row("the same, ten inputs of a hundred blobs", with_data, more=1.2),
    )
    print_table(f"Warm runs: medians of {rounds}, against docker run of the training", rows, baseline=baseline)


if __name__ == "__main__":
    main()
