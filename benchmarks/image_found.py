"""The time to find an unchanged image.

Usage: ``python -m benchmarks.image_found [--rounds N] [--megabytes N]``.

An engine without any images; the image and the record of its tests are in the registry. Measured is the time from the start of the
process until the digest is known, against ``docker build --cache-from`` and ``docker push`` of the same Dockerfile, which is what people do
to have the same certainty. Goals: at least 30 times as fast, and at most 0.3 s more than importing the same modules takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aml_train.core.docker import buildkit_cli
from benchmarks.disposable import REGISTRY, Disposable, disposable, missing
from benchmarks.measuring import ROOT, Row, make_row, print_table

BASE = "python:3.11-slim-bookworm"
_GOAL_RATIO = 30.0
_CONFIG = """\
job: {{command: "true"}}
image:
  base: {registry}/base:1
  repository: ours
  azureml-mlflow: false
  run: ["head -c {bytes} /dev/urandom > /payload"]
tests:
  command: python -c "print('passed')"
  evidence: exit-code
"""


def _step(engine: Disposable, project: Path, *options: str) -> bytes:
    """Run the step with this checkout's code; return what it prints."""
    return engine.run([sys.executable, "-m", "benchmarks.ensure_step", str(project), REGISTRY, *options], cwd=ROOT)


def _baseline(engine: Disposable, docker: str, context: Path) -> None:
    reference = f"{REGISTRY}/baseline:latest"
    build = [
        docker,
        "build",
        f"--cache-from={reference}",
        "--build-arg=BUILDKIT_INLINE_CACHE=1",
        f"--tag={reference}",
    ]
    engine.run([*build, str(context)])
    engine.run([docker, "push", "--quiet", reference])


def _timed(work: object) -> float:
    if not callable(work):
        raise TypeError("only what can be called can be timed")
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _prepare(engine: Disposable, docker: str, project: Path, context: Path, megabytes: int) -> None:
    """Have base, image, record and the baseline's image in the registry."""
    saved = subprocess.run([docker, "save", BASE], capture_output=True, check=True).stdout
    engine.run([docker, "load"], data=saved)
    engine.run([docker, "tag", BASE, f"{REGISTRY}/base:1"])
    engine.run([docker, "push", "--quiet", f"{REGISTRY}/base:1"])
    (project / "aml-train.yml").write_text(_CONFIG.format(registry=REGISTRY, bytes=megabytes * 1_000_000))
    (project / "test_it.py").write_text("")
    said = json.loads(_step(engine, project))
    if said["how"] != "built" or not said["tested"]:
        raise SystemExit(f"the image was not built and tested: {said}")
    _step(engine, project, "--context", str(context))
    _baseline(engine, docker, context)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="runs of each kind  [default: 5]")
    parser.add_argument(
        "--megabytes", type=int, default=700, help="size of the image beyond its base  [default: 700]"
    )
    given = parser.parse_args()
    if (reason := missing()) is not None:
        print(f"image_found is left out: {reason}.")
        return
    with disposable() as engine, tempfile.TemporaryDirectory() as folder:
        docker = buildkit_cli(engine.environment).path
        project, context = Path(folder, "project"), Path(folder, "context")
        project.mkdir()
        context.mkdir()
        print("Preparing: the image is built, tested and pushed …", flush=True)
        _prepare(engine, docker, project, context, given.megabytes)
        floor, ours, baseline = [], [], []
        for _ in range(given.rounds):
            engine.empty()
            baseline.append(_timed(lambda: _baseline(engine, docker, context)))
            engine.empty()
            floor.append(_timed(lambda: _step(engine, project, "--floor")))
            ours.append(_timed(lambda: _check_found(_step(engine, project))))
    base = make_row("docker build --cache-from, docker push", baseline)
    imports = make_row("importing the same modules", floor)
    ratio = statistics.median(baseline) / statistics.median(ours)
    found = Row(
        name="aml-train, until the digest is known",
        seconds=statistics.median(ours),
        spread=(min(ours), max(ours)),
        goal=f"{ratio:.0f} times as fast, goal {_GOAL_RATIO:.0f}",
        met=ratio >= _GOAL_RATIO,
    )
    beyond = make_row("… beyond the imports", ours, baseline=statistics.median(floor), more=0.3)
    title = f"Nothing changed, an engine without images, {given.megabytes} MB: medians of {given.rounds}"
    print_table(title, [base, imports, found, beyond], baseline=base)


def _check_found(said: bytes) -> None:
    if json.loads(said)["how"] != "found":
        raise SystemExit(f"the image was not found: {said.decode()}")


if __name__ == "__main__":
    main()
