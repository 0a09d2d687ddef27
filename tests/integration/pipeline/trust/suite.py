"""Many runs of the pipeline at once while a tenth of all answers fails, and what the database says of them afterwards."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.integration.pipeline.trust.cases import Case, write_project
from tests.support.emulator_process import ROOT, Emulator

#: Of all requests, how many in a thousand get which fault; a hundred in all.
FAULTS: Sequence[tuple[int, dict[str, str]]] = (
    (20, {"kind": "status", "status": "429", "retry_after": "1"}),
    (10, {"kind": "status", "status": "500"}),
    (10, {"kind": "status", "status": "500", "after": "1"}),
    (15, {"kind": "reset"}),
    (15, {"kind": "reset", "after": "1"}),
    (15, {"kind": "truncate"}),
    (15, {"kind": "delay", "delay": "0.5", "after": "1"}),
)
HANGING_SECONDS = 900.0
"""Only where a run hangs nothing ends for so long, even on a machine under load."""


def add_faults(emulator: Emulator, seed: int) -> None:
    """Have a tenth of all requests, whatever they are for, go wrong.

    The first rule that hits is taken: each one's probability is of what the rules before it have let through.
    """
    left = 1000
    for number, (share, fault) in enumerate(FAULTS):
        query = {**fault, "probability": f"{share / left:.6f}", "seed": str(seed * 100 + number)}
        emulator.admin("POST", f"faults?{urlencode(query)}").raise_for_status()
        left -= share


def count_faults(emulator: Emulator) -> tuple[int, int]:
    """Return how many requests there were since the faults were added, and how many of them failed."""
    listed = emulator.admin("GET", "faults").json()["faults"]
    return listed[0]["fitting"], sum(rule["injected"] for rule in listed)


def execute(
    emulator: Emulator, folder: Path, cases: Sequence[Case], *, workers: int, containers: bool = False
) -> dict[str, dict[str, Any]]:
    """Run all *cases*, several at once, and return how each one ended, by its name.

    Args:
        emulator: executes the jobs.
        folder: where the projects are written; a new one.
        cases: the runs.
        workers: how many processes there are.
        containers: whether the jobs run in containers, of an image that is built and tested.
    """
    info = emulator.info
    folder.mkdir(exist_ok=True)
    push = f"localhost:{emulator.registry_tls_port}" if containers else None
    for one in cases:
        write_project(folder / one.name, one, info, push_registry=push)
    outer = {name: os.environ[name] for name in ("DOCKER_HOST", "DOCKER_CONFIG") if name in os.environ}
    environment = {**emulator.environment(), **outer, "AML_TRAIN_SIGN_IN": "secret"}
    # Under faults each request has a connection of its own, and each connection reads the bundle: all of a system's
    # authorities would be most of a run's time.
    Path(environment["REQUESTS_CA_BUNDLE"]).write_text(info["ca_pem"])
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "runner")))
    script = str(Path(__file__).with_name("worker.py"))
    processes: list[subprocess.Popen[bytes]] = []
    results = [folder / f"results-{number}.jsonl" for number in range(workers)]
    try:
        for number, result in enumerate(results):
            folders = [str(folder / one.name) for one in cases[number::workers]]
            with (folder / f"worker-{number}.log").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        [sys.executable, script, str(result), *folders], env=environment, stdout=log, stderr=log
                    )
                )
        _await(processes, results)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    lines = [line for result in results if result.exists() for line in result.read_text().splitlines()]
    return {ended["folder"]: ended for ended in map(json.loads, lines)}


def _await(processes: Sequence[subprocess.Popen[bytes]], results: Sequence[Path]) -> None:
    """Return when all workers have ended, or when none has told of a run's end for too long."""
    told, since = 0, time.monotonic()
    while any(process.poll() is None for process in processes) and time.monotonic() - since < HANGING_SECONDS:
        time.sleep(0.2)
        size = sum(result.stat().st_size for result in results if result.exists())
        if size != told:
            told, since = size, time.monotonic()


def wrong(emulator: Emulator, cases: Sequence[Case], ended: dict[str, dict[str, Any]]) -> list[str]:
    """Return what is not as it must be: a line for each run that ended otherwise, or whose job or model is not the only one."""
    problems: list[str] = []
    database = sqlite3.connect(f"file:{emulator.folder / 'data' / 'store.db'}?mode=ro", uri=True)
    try:
        for one in cases:
            told = ended.get(one.name, {"code": None, "status": "no answer", "message": ""})
            jobs = database.execute(
                "SELECT runs.id, runs.status FROM runs JOIN experiments ON experiments.id = experiment_id"
                " WHERE name = ? AND parent_id IS NULL",
                (one.name,),
            ).fetchall()
            job = jobs[0][0] if jobs else ""
            models = database.execute(
                "SELECT name, version FROM versions WHERE kind = 'models' AND json_extract(properties, ?) = ?",
                ('$.tags."aml-train.job"', job),
            ).fetchall()
            found = (told["code"], told["status"], [status for _, status in jobs], len(models))
            if found != (one.code, one.status, [one.job], one.models):
                problems.append(f"{one.name}: {found}, wanted {one}: {told['message']}")
                continue
            if told["job"] != job:
                problems.append(f"{one.name}: told of the job {told['job']}, and there is {job}")
            if one.nodes:
                nodes = database.execute(
                    "SELECT json_extract(properties, ?), status FROM runs WHERE parent_id = ?",
                    ('$."azureml.nodeid"', job),
                ).fetchall()
                if sorted(nodes) != sorted(one.states.items()):
                    problems.append(f"{one.name}: the nodes are {nodes}, wanted {one.states}")
            said = [line.removeprefix("say ") for line in one.script if line.startswith("say ")]
            if said and told["log"] != said:
                problems.append(f"{one.name}: the log was {told['log']}")
            if models and (told["model"] != list(models[0]) or models[0][0] != one.model):
                problems.append(f"{one.name}: told of the model {told['model']}, and there is {models}")
        for model in sorted({one.model for one in cases}):
            (count,) = database.execute(
                "SELECT count(*) FROM versions WHERE kind = 'models' AND name = ?", (model,)
            ).fetchone()
            if count != sum(one.models for one in cases if one.model == model):
                problems.append(f"{model}: there are {count} versions")
    finally:
        database.close()
    return problems
