"""The plan of a pipeline's nodes or a sweep's trial: compute and image. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from aml_train.config.job.model import JobNode, inner_mappings, mapping_at
from aml_train.config.model import Config
from aml_train.jobs.setup import add_setup
from aml_train.jobs.spec import SERVERLESS, TargetNames

_NAMED = 5
"""How many nodes a remark names."""


def job_document(config: Config, names: TargetNames) -> tuple[dict[str, Any], list[str]]:
    """Return the job's document for a target, and remarks on what is replaced in it."""
    document = copy.deepcopy(dict(config.job.document))
    document.setdefault("type", "command")
    notices: list[str] = []
    kind = "job" if config.job.kind == "command" else config.job.kind
    compute = config.target.compute or names.compute
    if compute:
        replaced = sorted(
            {name for name in _set_compute(document, compute) if name.removeprefix("azureml:") != compute}
        )
        if replaced:
            notices.append(
                f"The target {names.target} runs the {kind} on {compute} instead of {', '.join(replaced)}."
            )
    if kind != "pipeline" and str(document.get("compute") or "").removeprefix("azureml:") == SERVERLESS:
        del document["compute"]  # in AzureML's form a serverless job has no compute
    if kind == "job":
        if config.image is not None and (given := document.get("environment")) is not None:
            shown = given if isinstance(given, str) else "(inline)"
            notices.append(f"The image replaces the job's own environment {shown}.")
        return dict(add_setup(document, config.setup, config.data)), notices
    inside = (*config.nodes_in_image, *(node for one in config.images for node in config.nodes_in(one)))
    ours = [node for node in inside if _drop_environment(document, node)]
    if ours:
        notices.append(f"The image replaces the environment of {_listed(ours)}.")
    names_inside = {node.name for node in inside}
    others = [node for node in config.job.nodes if node.name and node.name not in names_inside]
    if config.image is not None and others:
        notices.append(f"Not in the image, and not tested: {_listed(others)}.")
    notices += [
        f"{node.where}: the node {node.name} is passed on unchecked: its faults, its image and its cost are "
        "known to AzureML only; the local AzureML runs those of type parallel alone."
        for node in config.job.nodes
        if node.kind == "other"
    ]
    return document, notices


def _listed(nodes: Sequence[JobNode]) -> str:
    named = ", ".join(node.name or "the trial" for node in nodes[:_NAMED])
    return named + (f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else "")


def _set_compute(document: dict[str, Any], compute: str) -> Iterator[str]:
    """Let a job run on *compute*; yield what it named before."""
    reference = SERVERLESS if compute == SERVERLESS else f"azureml:{compute}"
    if document["type"].lower() != "pipeline":
        yield from _named(document.get("compute"))
        document["compute"] = reference
        return
    for mapping in (document, *(inner for _, inner in inner_mappings(document))):
        yield from _named(mapping.pop("compute", None))
        if isinstance(settings := mapping.get("settings"), dict):
            yield from _named(settings.pop("default_compute", None))
    document.setdefault("settings", {})["default_compute"] = reference


def _named(compute: object) -> Iterator[str]:
    if isinstance(compute, str) and not compute.startswith("${{"):
        yield compute


def _drop_environment(document: dict[str, Any], node: JobNode) -> bool:
    """Drop the environment of a node and its component; return if there was one."""
    found = mapping_at(document, node.place).pop("environment", None)
    around = None if node.around is None else mapping_at(document, node.around).pop("environment", None)
    return found is not None or around is not None
