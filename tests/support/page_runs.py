"""Runs for the pictures of the page: the same ones each time, written into a store."""

from __future__ import annotations

import math
import random
from typing import Final

from aml_emulator.store.metrics import Metric
from aml_emulator.store.store import Store

BEGIN: Final = 1_793_000_000.0
"""The time of the first run, seconds since the epoch."""

APART: Final = 1_800.0
STEPS: Final = 60
_EXPERIMENTS: Final = ("digits", "digits", "digits", "forecast", "segments")
_BRANCHES: Final = ("main", "main", "feature/augment", "feature/wider", "fix/scheduler")
_OPTIMIZERS: Final = ("adam", "adamw", "sgd")


class SteppingClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> float:
        return self.now


def fill(
    store: Store, clock: SteppingClock, count: int, *, steps: int = STEPS, compute: str = "local-cluster"
) -> None:
    """Store *count* runs that have ended, with parameters, tags, curves of *steps* values and models.

    Args:
        clock: the store's.
    """
    chance = random.Random(20261120)  # noqa: S311 - the same runs each time
    names = {name: store.runs.ensure_experiment(name).id for name in dict.fromkeys(_EXPERIMENTS)}
    version = 0
    for number in range(count):
        clock.now = BEGIN + number * APART
        with store.transaction():
            model = _run(store, clock, chance, names, number, steps, compute)
            if model:
                version += 1
                stage = {0: "production", 1: "staging"}.get(version % 5, "")
                tags = {"aml-train.job": model, "aml-train.gate": "passed", "aml-train.stage": stage}
                store.assets.put("models", "digits", str(version), {"jobName": model, "tags": tags})


def _run(
    store: Store,
    clock: SteppingClock,
    chance: random.Random,
    experiments: dict[str, str],
    number: int,
    steps: int,
    compute: str,
) -> str:
    """Store one run; return its name if a model is to be registered from it."""
    experiment, branch = chance.choice(_EXPERIMENTS), chance.choice(_BRANCHES)
    rate = 10 ** chance.uniform(-4, -1.5)
    depth, optimizer = chance.choice((2, 3, 4, 6)), chance.choice(_OPTIMIZERS)
    reached = 0.99 - 0.05 * abs(math.log10(rate) + 2.7) - 0.01 * abs(depth - 4) - chance.uniform(0, 0.02)
    status = chance.choices(("Completed", "Failed", "Canceled"), (88, 8, 4))[0]
    gate = "" if status != "Completed" else "passed" if reached > 0.93 else "failed"
    commit = f"{chance.getrandbits(160):040x}"
    run_id = f"{experiment}-{commit[:12]}"
    tags = {
        "aml-train.branch": branch,
        "aml-train.commit": commit,
        "aml-train.image": "amllocal.azurecr.io/digits",
        "aml-train.image-digest": f"sha256:{chance.getrandbits(256):064x}",
        "aml-train.tested": "yes",
        "aml-train.version": "0.1.0",
        **({"aml-train.gate": gate} if gate else {}),
    }
    store.runs.create(
        run_id=run_id,
        experiment_id=experiments[experiment],
        display_name=f"{experiment} {number + 1}",
        status="Running",
        tags=tags,
        properties={"azureml.git.branch": branch, "azureml.git.commit": commit},
        job={
            "jobType": "Command",
            "command": f"python train.py --rate {rate:.6f} --optimizer {optimizer} --depth {depth}",
            "computeId": f"/computes/{compute}",
            "environmentId": f"{experiment}:3",
            "experimentName": experiment,
            "inputs": {
                "images": {
                    "jobInputType": "uri_folder",
                    "uri": f"azureml:{experiment}:{1 + number % 3}",
                    "mode": "ReadOnlyMount",
                }
            },
        },
        started=clock.now + 20,
    )
    params = {
        "batch_size": str(chance.choice((32, 64, 128))),
        "depth": str(depth),
        "learning_rate": f"{rate:.6f}",
        "optimizer": optimizer,
        "seed": "7",
    }
    store.metrics.set_params(run_id, list(params.items()))
    speed = chance.uniform(6, 14)
    for key, at in (("train/loss", 0.4), ("val/accuracy", reached), ("val/loss", 0.5)):
        values = [_value(key, at, step / max(1, steps - 1) * 60, speed, chance) for step in range(steps)]
        store.metrics.log(
            run_id,
            [
                Metric(key=key, value=value, timestamp=int(1000 * (clock.now + 25 + step * 5)), step=step)
                for step, value in enumerate(values)
            ],
        )
    store.metrics.log(run_id, [Metric(key="parameters", value=1000.0 * depth**2, timestamp=0, step=0)])
    spent = 40 + steps * 5 + chance.uniform(0, 200)
    clock.now += spent
    store.runs.finish(
        run_id, status, code=None if status != "Failed" else "UserError", exit_code=int(status == "Failed")
    )
    return run_id if gate == "passed" and branch == "main" and experiment == "digits" else ""


def _value(key: str, at: float, step: float, speed: float, chance: random.Random) -> float:
    noise = chance.gauss(0, 0.01)
    if key == "val/accuracy":
        return at * (1 - 0.85 * math.exp(-step / speed)) + noise * 0.6
    return 2.3 * math.exp(-step / speed) + at * 0.1 * (1 + abs(noise) * 4)
