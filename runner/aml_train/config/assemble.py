"""Checked values → the parts of :class:`~aml_train.config.model.Config`, and what concerns several keys at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aml_train.config.model import (
    CommandJob,
    ContainerLimits,
    CostConfig,
    ImageConfig,
    ModelConfig,
    Price,
    RetryConfig,
    TargetConfig,
    TestsConfig,
    WaitConfig,
)
from aml_train.config.sections.compute import compute_of
from aml_train.config.yaml.nodes import Faults, MapNode, Mark, find, place, shown
from aml_train.config.yaml.shapes import nearest

LOCAL: Final = "local"
AZURE: Final = "azure"


def check_together(tree: MapNode, values: Mapping[str, Any], job: CommandJob | None, faults: Faults) -> None:
    """Check what concerns several parts."""
    if "tests" in tree.entries and "image" not in tree.entries:
        faults.add(
            place(tree, "tests"),
            "`tests` needs `image`",
            why="tests run in the image that is built; a job's own environment is taken as it is",
            remedy="add `image: {base: …}`, or delete `tests`",
        )
    if values.get("sdk") == "v1" and "data" in tree.entries:
        where, key = (
            ("the run configuration", "dataReferences") if "runconfig" in tree.entries else ("the job", "inputs")
        )
        why, remedy = f"the SDK v1 takes data from {where}", f"write `{key}` there, or `sdk: v2`"
        faults.add(place(tree, "data"), "`data` and `sdk: v1` exclude each other", why=why, remedy=remedy)
    output = (values.get("model") or {}).get("output")
    if values.get("sdk") == "v1" and output is not None:
        why = "runs of the SDK v1 have no outputs with names"
        remedy = "write it into `./outputs` and name it by `model.path`, or write `sdk: v2`"
        faults.add(
            place(tree, "model", "output"), "`model.output` and `sdk: v1` exclude each other", why=why, remedy=remedy
        )
    if output is not None and job is not None:
        declared = tuple(job.document.get("outputs") or ())
        if output not in declared:
            near = nearest(output, declared)
            remedy = f"did you mean `{near}`?" if near else "declare it under `outputs` of the job"
            node = find(tree, "model", "output")
            mark = node.mark if node is not None else place(tree, "model")
            faults.add(
                mark, f"`model.output` names `{shown(output)}`", why="the job has no such output", remedy=remedy
            )


def choose_target(
    tree: MapNode, values: Mapping[str, Any], given: str | None, *, directory: Path, faults: Faults
) -> TargetConfig | None:
    """Choose the target: the one given, else that of the file, else the local AzureML.

    ``azure`` needs no entry: its workspace may be named by config.json or the environment.
    """
    named = find(tree, "target")
    mark = Mark(file="--target") if given is not None else (named.mark if named is not None else tree.mark)
    name = given if given is not None else values.get("target", LOCAL)
    settings = values.get("targets") or {}
    if name == LOCAL:
        found = settings.get(LOCAL) or {}
        compute, cluster = compute_of(tree, LOCAL, found.get("compute"), directory=directory, faults=faults)
        images = found.get("environments", {})
        return TargetConfig(name=LOCAL, kind="local", compute=compute, cluster=cluster, environments=images)
    written = find(tree, "targets")
    names = tuple(dict.fromkeys([LOCAL, *(written.entries if isinstance(written, MapNode) else ())]))
    if name == AZURE and name not in names:
        return TargetConfig(name=AZURE, kind="azure")
    names = tuple(dict.fromkeys([*names, AZURE]))
    if name not in names:
        near = nearest(name, names)
        known = ", ".join(f"`{shown(one)}`" for one in names)
        remedy = f"did you mean `{near}`?" if near else f"known are {known}"
        faults.add(mark, f"the target `{shown(name)}` is not configured", remedy=remedy)
        return None
    found = settings.get(name)
    if not isinstance(found, dict):
        return None
    compute, cluster = compute_of(tree, name, found.get("compute"), directory=directory, faults=faults)
    return TargetConfig(
        name=name,
        kind="azure",
        subscription_id=found.get("subscription-id"),
        resource_group=found.get("resource-group"),
        workspace=found.get("workspace"),
        registry=found.get("registry"),
        push_registry=found.get("push-registry"),
        registry_user=found.get("registry-user"),
        registry_password_variable=found.get("registry-password-variable", TargetConfig.registry_password_variable),
        compute=compute,
        cluster=cluster,
    )


def tests_config(found: Any) -> TestsConfig | None:
    """Make ``tests``; None where there is none."""
    if not isinstance(found, dict):
        return None
    files = found.get("files", ())
    return TestsConfig(
        command=found["command"],
        files=(files,) if isinstance(files, str) else tuple(files),
        env=found.get("env", {}),
        timeout=found.get("timeout", TestsConfig.timeout),
        network=found.get("network", False),
        workdir=found.get("workdir", "").strip("/"),
        limits=ContainerLimits(
            **{key: found[key] for key in ("cpus", "memory", "shm", "memlock", "gpus") if key in found}
        ),
        junit=found.get("junit"),
        allow_empty=found.get("allow-empty", False),
    )


def model_config(found: Any) -> ModelConfig | None:
    """Make ``model``; None where there is none."""
    if not isinstance(found, dict):
        return None
    return ModelConfig(
        name=found["name"],
        path=found.get("path"),
        output=found.get("output"),
        type=found.get("type", "custom_model"),
        stage=found.get("stage"),
        description=found.get("description"),
        tags=found.get("tags", {}),
    )


def wait_config(found: Mapping[str, Any]) -> WaitConfig:
    """Make ``watch``."""
    return WaitConfig(
        timeout=found.get("timeout"),
        queue_timeout=found.get("queue-timeout"),
        run_timeout=found.get("run-timeout"),
        logs=found.get("logs", WaitConfig.logs),
        on_cancel=found.get("on-cancel", WaitConfig.on_cancel),
    )


def retry_config(found: Mapping[str, Any]) -> RetryConfig:
    """Make ``retry``."""
    return RetryConfig(preempted=found.get("preempted", RetryConfig.preempted))


def cost_config(tree: MapNode, found: Mapping[str, Any]) -> CostConfig:
    """Make ``cost``."""
    prices = {
        size.lower(): Price(dedicated=price.get("dedicated"), low_priority=price.get("low-priority"))
        if isinstance(price, dict)
        else Price(dedicated=float(price))
        for size, price in (found.get("prices") or {}).items()
    }
    return CostConfig(
        currency=found.get("currency", CostConfig.currency),
        prices=prices,
        max_node_hours=found.get("max-node-hours"),
        max_cost=found.get("max-cost"),
        where=place(tree, "cost").where if "cost" in tree.entries else "cost",
    )


def notices(job: CommandJob, image: ImageConfig | None) -> tuple[str, ...]:
    """Say what is no fault and yet worth knowing."""
    if image is not None and "environment" in job.document:
        return ("The image replaces the job's `environment`.",)
    return ()
