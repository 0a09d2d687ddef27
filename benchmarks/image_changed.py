"""The time to build, push and test a changed image.

Usage: ``python -m benchmarks.image_changed [--rounds N]``.

One requirement of examples/digits (without its drivers and azureml-mlflow) changes; the engine is warm. Measured is the time from the start of
the process until the image is released and its tests have passed, against ``docker build``, ``docker push`` and ``docker run`` of the tests in
sequence: once with a Dockerfile as it is written by hand (``COPY requirements.txt``, ``pip install``), once with the one that aml-train renders. Goal: at least
1.5 times as fast as with the one written by hand; large requirements have a separate layer here, and tests and push need not wait for one another.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from aml_train.core.docker import buildkit_cli
from benchmarks.measuring import ROOT, Row, make_row, print_table
from tests.support.registry_process import serve_registry

BASE = "python:3.11-slim-bookworm"
PROJECT = ROOT / "examples/digits"
VERSIONS = tuple(f"1.{minor}.0" for minor in range(6, 18))
"""Of the requirement that changes, ``six``: small, and without dependencies. Each is used once, so that no build finds another's layer."""

_GOAL_RATIO = 1.5
_CONFIG = """\
job: job.yml
image: {{base: "{base}", repository: ours, pip: requirements.txt, azureml-mlflow: false}}
tests: {{command: pytest -q tests}}
"""
_BY_HAND = "FROM {base}\nCOPY requirements.txt /tmp/requirements.txt\nRUN pip install --no-cache-dir -r /tmp/requirements.txt\n"
"""As Docker's own guide for Python writes it."""

_TESTS = "cp -r /mounted /project && cd /project && pytest -q tests"


def _run(argv: list[str], *, data: str | None = None) -> str:
    environment = {**os.environ, "DOCKER_BUILDKIT": "1"}
    done = subprocess.run(argv, cwd=ROOT, env=environment, input=data, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class _Bench:
    """One project, one registry, and two ways to the same end."""

    def __init__(self, folder: Path, registry: str) -> None:
        self.registry = registry
        self.docker = buildkit_cli(os.environ).path
        self.project = folder / "project"
        shutil.copytree(PROJECT, self.project, ignore=shutil.ignore_patterns("__pycache__"))
        self._folder = folder
        self._requirements = (PROJECT / "requirements.txt").read_text()
        self.base = base = f"{registry}/base:1"
        # A new base: the build cache of earlier benchmarks has no effect.
        _run(
            [self.docker, "build", f"--tag={base}", "-"],
            data=f"FROM {BASE}\nRUN echo {secrets.token_hex(8)} > /base\n",
        )
        _run([self.docker, "push", "--quiet", base])
        (self.project / "aml-train.yml").write_text(_CONFIG.format(base=base))

    def change(self, version: str) -> None:
        """Require another version of the one package."""
        (self.project / "requirements.txt").write_text(f"{self._requirements}six=={version}\n")

    def ours(self) -> tuple[float, dict[str, float]]:
        """Have the image by aml-train; return the seconds, and those of its stages."""
        began = time.perf_counter()
        said = json.loads(_run([sys.executable, "-m", "benchmarks.ensure_step", str(self.project), self.registry]))
        seconds = time.perf_counter() - began
        if said["how"] != "built" or not said["tested"]:
            raise SystemExit(f"the image was not built and tested: {said}")
        return seconds, said["seconds"]

    def by_hand(self) -> tuple[float, float, float]:
        """Make the image by three commands and a usual Dockerfile; return their seconds."""
        context = self._folder / secrets.token_hex(4)
        context.mkdir()
        (context / "Dockerfile").write_text(_BY_HAND.format(base=self.base))
        shutil.copy(self.project / "requirements.txt", context)
        return self._three_commands(context, f"{self.registry}/by-hand:latest")

    def rendered(self) -> tuple[float, float, float]:
        """Make the image by three commands and our Dockerfile; return their seconds."""
        context = self._folder / secrets.token_hex(4)
        step = [sys.executable, "-m", "benchmarks.ensure_step", str(self.project), self.registry]
        _run([*step, "--context", str(context)])
        return self._three_commands(context, f"{self.registry}/rendered:latest")

    def _three_commands(self, context: Path, image: str) -> tuple[float, float, float]:
        mount = f"--volume={self.project}:/mounted:ro"
        commands = (
            [self.docker, "build", "--build-arg=BUILDKIT_INLINE_CACHE=1", f"--tag={image}", str(context)],
            [self.docker, "push", "--quiet", image],
            [self.docker, "run", "--rm", "--network=none", mount, image, "sh", "-c", _TESTS],
        )
        times = []
        for command in commands:
            began = time.perf_counter()
            _run(command)
            times.append(time.perf_counter() - began)
        return times[0], times[1], times[2]


@contextlib.contextmanager
def _bench() -> Iterator[_Bench]:
    with tempfile.TemporaryDirectory() as folder, serve_registry(Path(folder)) as port:
        registry = f"localhost:{port}"
        bench = _Bench(Path(folder), registry)
        try:
            yield bench
        finally:
            listed = _run(
                [bench.docker, "image", "ls", "--format={{.Repository}}:{{.Tag}} {{.Repository}}@{{.Digest}}"]
            )
            names = [name for name in listed.split() if name.startswith(f"{registry}/") and "<none>" not in name]
            for name in names:
                subprocess.run([bench.docker, "image", "rm", "--force", name], capture_output=True, check=False)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, choices=(1, 2, 3), help="runs of each kind  [default: 3]")
    rounds = parser.parse_args().rounds
    versions = iter(VERSIONS)
    with _bench() as bench:
        print("Preparing: the image is built, tested and pushed once in each way …", flush=True)
        ways = (bench.by_hand, bench.rendered)
        times: list[list[tuple[float, float, float]]] = [[], []]
        ours, stages = [], []
        for number in range(rounds + 1):
            for way, found in zip(ways, times, strict=True):
                bench.change(next(versions))
                parts = way()
                if number:  # the first round warms the engine
                    found.append(parts)
            bench.change(next(versions))
            seconds, of_stages = bench.ours()
            if number:
                ours.append(seconds)
                stages.append(of_stages)
    names = ("docker build", "docker push", "docker run, the tests")
    hand, rendered = ([sum(parts) for parts in found] for found in times)
    rows = [make_row(f"  {name}", [part[place] for part in times[0]]) for place, name in enumerate(names)]
    rows.append(make_row("three docker commands, our Dockerfile", rendered))
    rows += [make_row(f"  {name}", [part[place] for part in times[1]]) for place, name in enumerate(names)]
    baseline = make_row("three docker commands, Dockerfile by hand", hand)
    ratio = statistics.median(hand) / statistics.median(ours)
    row = Row(
        name="aml-train: built, pushed, checked, tested",
        seconds=statistics.median(ours),
        spread=(min(ours), max(ours)),
        goal=f"{ratio:.2f} times as fast, goal {_GOAL_RATIO}",
        met=ratio >= _GOAL_RATIO,
    )
    title = f"One requirement changed, a warm engine: medians of {rounds}"
    titles = {"image": "build", "push": "push", "check": "checks, in parallel", "tests": "tests, in parallel"}
    own = [
        make_row(f"  {name}", [one[stage] for one in stages]) for stage, name in titles.items() if stage in stages[0]
    ]
    print_table(title, [baseline, *rows, row, *own], baseline=baseline)


if __name__ == "__main__":
    main()
