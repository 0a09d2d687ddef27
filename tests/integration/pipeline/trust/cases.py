"""What the runs are: each one's project, and how it must end. Both follow from the run's number, and the end from nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BASE = "python:3.11-slim-bookworm"
LIMIT = 0.8
GRAPH_GATE = f"gate: {{evaluate/accuracy: ['>= {LIMIT}', finite]}}\n"
GATE = f"gate: {{accuracy: ['>= {LIMIT}', finite]}}\n"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run.

    Attributes:
        script: what its job does; see `instant_emulator`.
        code, status: the exit code and status word that the run must end with.
        job: the status that its one job must end with.
        models: how many versions of its model must be its own.
        nodes: what the nodes of a pipeline do, each after the one before; none for a command job.
        states: the status that each node's one run must end with.
    """

    number: int
    script: tuple[str, ...]
    code: int
    status: str
    job: str
    models: int
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its experiment."""
        return f"trust-{self.number}"

    @property
    def model(self) -> str:
        """The name of its model: five runs in a row, which go on at the same time, register versions of one model."""
        return f"model-{self.number // 5}"


def case(number: int) -> Case:
    """Return the run of that number: of ten runs, five pass."""
    good = LIMIT + (number % 20) / 100
    bad = LIMIT - (1 + number % 70) / 100
    value = f"metric accuracy {{}} {good:.2f}"
    model = f"write outputs/model weights-{number}"
    passes = (f"say run {number}", "metric accuracy 1 0.1", value.format(2), model, "say done")
    ends: Mapping[int, tuple[tuple[str, ...], int, str, str]] = {
        5: (("metric accuracy 1 0.99", f"metric accuracy 2 {bad:.2f}", model), 6, "gate-failed", "Completed"),
        6: ((value.format(1), model, "say Traceback", f"exit {1 + number % 100}"), 5, "job-failed", "Failed"),
        7: ((value.format(1), model, "say no end", "cancelled"), 7, "cancelled", "Canceled"),
        8: (
            (model, f"metric loss 1 {good:.2f}")
            if number % 20 == 8
            else (value.format(1), "metric accuracy 2 nan", model),
            6,
            "gate-failed",
            "Completed",
        ),
        9: ((value.format(1), f"write outputs/other {number}"), 5, "job-failed", "Completed"),
    }
    script, code, status, job = ends.get(number % 10, (passes, 0, "passed", "Completed"))
    return Case(number=number, script=script, code=code, status=status, job=job, models=int(code == 0))


def graph_case(number: int) -> Case:
    """Return the pipeline of that number: prep → train → evaluate. Of ten, six pass."""
    good = LIMIT + (number % 20) / 100
    bad = LIMIT - (1 + number % 70) / 100
    prep = (f"say preparing {number}", f"output clean rows {number}")
    train = (f"metric loss 1 0.{1 + number % 9}", f"output model weights {number}")
    evaluate = (f"metric accuracy 1 0.1\nmetric accuracy 2 {good:.2f}",)
    completed = {"prep": "Completed", "train": "Completed", "evaluate": "Completed"}
    passes = ({"prep": prep, "train": train, "evaluate": evaluate}, 0, "passed", "Completed", completed)
    ends: Mapping[int, tuple[dict[str, tuple[str, ...]], int, str, str, dict[str, str]]] = {
        5: (
            {"prep": prep, "train": train, "evaluate": (f"metric accuracy 1 {bad:.2f}",)},
            6,
            "gate-failed",
            "Completed",
            completed,
        ),
        6: (
            {"prep": prep, "train": (*train, f"exit {1 + number % 100}"), "evaluate": evaluate},
            5,
            "job-failed",
            "Failed",
            {"prep": "Completed", "train": "Failed"},
        ),
        7: (
            {"prep": prep, "train": train, "evaluate": (f"metric accuracy 1 {good:.2f}", "cancelled")},
            5,
            "job-failed",
            "Failed",
            {**completed, "evaluate": "Canceled"},
        ),
        8: (
            {"prep": prep, "train": (*train, f"metric accuracy 1 {good:.2f}"), "evaluate": ("say nothing",)},
            6,
            "gate-failed",
            "Completed",
            completed,
        ),
    }
    nodes, code, status, job, states = ends.get(number % 10, passes)
    return Case(
        number=number,
        script=(),
        code=code,
        status=status,
        job=job,
        models=int(code == 0),
        nodes=nodes,
        states=states,
    )


def _graph(one: Case) -> dict[str, Any]:
    """Return the pipeline job of a case: each node reads what the one before has written."""
    reads = {"train": "${{parent.jobs.prep.outputs.clean}}", "evaluate": "${{parent.jobs.train.outputs.model}}"}
    writes = {"prep": {"clean": {"type": "uri_folder"}}, "train": {"model": {"type": "uri_folder"}}}
    return {
        "type": "pipeline",
        "experiment_name": one.name,
        "jobs": {
            name: {
                "code": "./src",
                "command": "\n".join(script),
                "environment": {"image": BASE},
                "inputs": {"data": reads[name]} if name in reads else {},
                "outputs": writes.get(name, {}),
            }
            for name, script in one.nodes.items()
        },
    }


def write_project(folder: Path, one: Case, info: Mapping[str, Any], *, push_registry: str | None = None) -> None:
    """Write the project of a run whose target is the emulator's workspace.

    Args:
        folder: is made.
        one: the run. On the instant executor, ten runs in a row have the same code.
        info: what a client of the emulator must know.
        push_registry: where the engine pushes to; None for jobs on the instant executor, which need no image.
    """
    code = folder / "src"
    code.mkdir(parents=True)
    job: dict[str, Any] = {"code": "./src", "experiment_name": one.name}
    names = {"subscription-id": "subscription_id", "resource-group": "resource_group"}
    target = {key: info[known] for key, known in names.items()} | {
        name: info[name] for name in ("workspace", "compute")
    }
    extra = ""
    if push_registry is None:
        (code / "train.py").write_text(f"BATCH = {one.number // 10}\n")
        job |= {"command": "\n".join(one.script), "environment": {"image": BASE}}
        if one.nodes:
            job = _graph(one)
    else:
        (code / "script.txt").write_text("\n".join(one.script))
        shutil.copy(Path(__file__).with_name("container_job.py"), code / "train.py")
        (folder / "tests").mkdir()
        (folder / "tests" / "check.py").write_text("import json\n")
        job |= {"command": "python train.py"}
        target["push-registry"] = push_registry
        image = {"base": BASE, "repository": "trust", "azureml-mlflow": False, "run": ["echo trust > /made"]}
        tests = {"command": "test -e /made && python tests/check.py", "files": ["tests/"], "evidence": "exit-code"}
        extra = f"image: {json.dumps(image)}\ntests: {json.dumps(tests)}\n"
    (folder / "job.yml").write_text(json.dumps(job))
    (folder / "aml-train.yml").write_text(
        f"job: job.yml\ntarget: azure\ntargets: {json.dumps({'azure': target})}\n{extra}"
        f"{GRAPH_GATE if one.nodes else GATE}"
        f"model: {{name: {one.model}, {'node: train, output: model' if one.nodes else 'path: outputs/model'}}}\n"
    )
