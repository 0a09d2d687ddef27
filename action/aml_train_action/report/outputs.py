"""The outputs of the step, from what the run has come to. Pure."""

from __future__ import annotations

import json
from typing import Final

from aml_train.core.answers import Number, json_number
from aml_train.report.record import RunRecord
from aml_train.report.values import Report

#: Every output of action.yml; one that is not known is empty.
OUTPUTS: Final = (
    "status",
    "job-name",
    "run-url",
    "experiment-name",
    "image",
    "digest",
    "run-metrics",
    "gate",
    "gate-report",
    "baseline",
    "model-name",
    "model-version",
    "model-id",
    "stage",
    "promoted-version",
    "previous-version",
    "attempts",
    "node-hours",
    "gpu-hours",
    "cost",
    "report-file",
)
#: Outputs that are words of this product, numbers, computed names, or names of the configuration: a short secret occurs in them only
#: by chance, and a part of a name would be useless.
COMPUTED: Final = frozenset(OUTPUTS) - {"run-url", "run-metrics", "gate-report", "baseline"}
_OF_RULE: Final = ("metric", "rule", "verdict", "value", "limit", "reason", "where")
#: GitHub takes 1 MB of outputs from a whole job, counted in UTF-16.
_MOST_CHARACTERS: Final = 100_000


def outputs_of(record: RunRecord, report_file: str = "") -> dict[str, str]:
    """Return every output, in the order of :data:`OUTPUTS`.

    Args:
        record: what the run has come to.
        report_file: the file of the report, relative to the workspace.
    """
    report = record.report
    values = dict.fromkeys(OUTPUTS, "")
    values |= {"status": report.status, "report-file": report_file, "gate": report.gate}
    if job := report.job:
        values |= {"job-name": job.name, "run-url": job.url, "experiment-name": job.experiment}
    for image in report.images:
        if not image.image_name:
            values |= {"image": image.reference, "digest": image.digest}
    if report.attempts:
        values["attempts"] = str(len(report.attempts))
    if cost := report.cost:
        known = {"node-hours": cost.node_hours, "gpu-hours": cost.gpu_hours, "cost": cost.cost}
        values |= {name: f"{value:.6f}" for name, value in known.items() if value is not None}
    if record.settled:
        values["run-metrics"] = json.dumps(choose_metrics(report))
    if report.rules:
        values["gate-report"] = gate_report(report)
    if report.baseline:
        values["baseline"] = report.baseline.title
    if model := report.model:
        values |= _of_model(model.name, model.version)
    if "promotion" in record.facts:
        name, version = str(record.facts["model"]), str(record.facts["promoted_version"])
        values |= _of_model(name, version) | {"stage": str(record.facts["stage"]), "promoted-version": version}
        values["previous-version"] = str(record.facts.get("previous_version") or "")
    return values


def _of_model(name: str, version: str) -> dict[str, str]:
    return {"model-name": name, "model-version": version, "model-id": f"{name}:{version}"}


def gate_report(report: Report, most: int = _MOST_CHARACTERS) -> str:
    """Return the gate's decision as JSON of at most *most* characters, missed first.

    ``left_out`` counts the others. Numbers that are not finite are text.
    """
    rules: list[dict[str, object]] = []
    room = most
    for rule in sorted(report.rules, key=lambda one: one.verdict != "missed"):
        found = {name: getattr(rule, name) for name in _OF_RULE}
        found |= {"value": json_number(rule.value), "limit": json_number(rule.limit)}
        room -= len(json.dumps(found)) + 2
        if room < 0:
            break
        rules.append(found)
    return json.dumps({"gate": report.gate, "rules": rules, "left_out": len(report.rules) - len(rules)})


def choose_metrics(report: Report, most: int = _MOST_CHARACTERS) -> dict[str, Number]:
    """Return metrics by name, those with rules first, in *most* characters."""
    gated = {rule.metric for rule in report.rules}
    ordered = sorted(report.metrics.items(), key=lambda item: (item[0] not in gated, item[0]))
    chosen: dict[str, Number] = {}
    room = most
    for name, value in ordered:
        room -= len(json.dumps(name)) + 30
        if room < 0:
            break
        chosen[name] = json_number(value)
    return chosen
