"""The plan of a run as plain values: as JSON, and as YAML for people. Pure."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from aml_train.config.job.model import mapping_at
from aml_train.config.sections.stop import StopConfig
from aml_train.core.text import readable_yaml
from aml_train.image.spec import TestSpec
from aml_train.pipeline.graph import graph_nodes
from aml_train.pipeline.plan import Plan, PlannedImage


def plan_facts(plan: Plan) -> dict[str, Any]:
    """Return what a run will do as plain values; None for a part that the run lacks.

    The job's name lacks its attempt, and the hash if an image is built first or data are not identified. The digest of such an image is not known yet.
    """
    return {
        "target": {"name": plan.names.target, "description": plan.names.description},
        "commit": None if plan.commit is None else str(plan.commit),
        "project": None if plan.project is None else {"name": str(plan.project), "source": plan.project.source},
        "trust": {"protected": plan.trust.protected, "group": plan.trust.group},
        "image": _image(plan, plan.images[0]) if plan.images else None,
        "tests": _tests(plan.tests),
        "images": {
            one.spec.name: {
                **_image(plan, one),
                "tests": _tests(one.tests),
                "nodes": [node.name for node in one.nodes],
            }
            for one in plan.images[1:]
        },
        "compute": None if plan.config.target.cluster is None else asdict(plan.config.target.cluster),
        "job": _job(plan),
        "resume": None if plan.config.resume is None else asdict(plan.config.resume),
        "gate": [{"metric": rule.metric, "rule": rule.rule.text, "where": rule.where} for rule in plan.config.gate],
        "stop": _stop(plan.config.watch.stop),
        "baseline": None if plan.config.baseline is None else asdict(plan.config.baseline),
        "replicates": None if plan.config.replicates is None else asdict(plan.config.replicates),
        "model": None if plan.config.model is None else asdict(plan.config.model),
        "notes": list(plan.notices),
    }


def render_plan(plan: Plan) -> str:
    """Return the plan as YAML, with the Dockerfile and the job that it makes."""
    given = plan.environment if isinstance(plan.environment, str) else "(inline)"
    shown = {
        **plan_facts(plan),
        "trust": str(plan.trust),
        "gate": [f"{rule.metric} {rule.rule.text}  ({rule.where})" for rule in plan.config.gate]
        or "none: the job only has to complete",
    }
    shown["image"] = shown["image"] or f"given by the job, not tested: {given}"
    shown["tests"] = shown["tests"] or "none"
    shown["model"] = shown["model"] or "none is registered"
    facts = _known(shown)
    facts["job"]["document"] = _plain(shown["job"]["document"])
    return readable_yaml(facts).rstrip("\n")


def _stop(stop: StopConfig | None) -> dict[str, Any] | None:
    if stop is None:
        return None
    rules = [{"metric": metric, "rule": rule, "where": where} for metric, rule, where in stop.rules]
    return {"mode": stop.mode, "gate": stop.gate, "rules": rules}


def _known(value: Any) -> Any:
    """Return *value* as YAML has it, without what is empty."""
    return _plain(value, without=(None, "", (), [], {}))


def _plain(value: Any, *, without: Collection[object] = ()) -> Any:
    match value:
        case Mapping():
            return {str(key): _plain(one, without=without) for key, one in value.items() if one not in without}
        case list() | tuple():
            return [_plain(one, without=without) for one in value]
        case bool() | int() | float():
            return value
        case _:
            return str(value)


def _image(plan: Plan, image: PlannedImage) -> dict[str, Any]:
    """Return an image that is built."""
    spec = image.spec
    return {
        "reference": f"{plan.names.registry_for_jobs}/{spec.repository}:{spec.address_tag}",
        "platform": spec.platform,
        "base": spec.base.reference.familiar,
        "base_identity": str(spec.base.identity),
        "dockerfile": spec.dockerfile,
        "packages": dict(image.packages),
    }


def _tests(tests: TestSpec | None) -> dict[str, Any] | None:
    if tests is None:
        return None
    return {"command": tests.command, "files": len(tests.files.entries), "timeout_seconds": tests.timeout}


def _job(plan: Plan) -> dict[str, Any]:
    code, document = plan.job.code, copy.deepcopy(dict(plan.job.document))
    for one in plan.images:
        image = f"{plan.names.registry_for_jobs}/{one.spec.repository}@sha256:(known when the image is built)"
        for place in [node.place for node in one.nodes] if one.spec.name else plan.job.places:
            mapping_at(document, place)["environment"] = {"image": image}
    return {
        "name": plan.name or plan.job.stem,
        "data": plan.shown_data,
        "sdk": "v2" if plan.job.runconfig is None else "v1",
        "document": document,
        "code": None if code is None else {"files": len(code.entries), "bytes": code.size},
        **({"nodes": _nodes(plan)} if plan.job.nodes else {}),
    }


def _nodes(plan: Plan) -> list[dict[str, Any]]:
    """Return the nodes of a pipeline with needs, environments and code."""
    codes = {node.name: plan.job.folders.get(node.place) for node in plan.job.nodes}
    return [
        {
            "name": node.name,
            "needs": list(node.needs),
            "environment": node.environment,
            "code": None if (code := codes[node.name]) is None else {"files": len(code.entries), "bytes": code.size},
        }
        for node in graph_nodes(plan.job.nodes, plan.image_of_nodes)
    ]
