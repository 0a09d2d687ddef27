"""The outputs of the step, from what the run has come to. Pure."""

from __future__ import annotations

import json
from typing import Final

from aml_train.core.answers import json_number
from aml_train_action.report.record import Record

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
#: GitHub takes 1 MB of outputs from a whole job, counted in UTF-16.
_MOST_CHARACTERS: Final = 100_000


def outputs_of(record: Record) -> dict[str, str]:
    """Return every output, in the order of :data:`OUTPUTS`."""
    values = dict.fromkeys(OUTPUTS, "")
    values |= {"status": record.status, "report-file": record.report_file}
    if record.job:
        values |= {"job-name": record.job.job, "run-url": record.job.studio_url or ""}
    values["experiment-name"] = record.experiment or ""
    if record.image:
        values |= {"image": record.image.reference, "digest": record.image.digest}
    if record.attempts:
        values["attempts"] = str(len(record.attempts))
    if record.cost:
        cost = record.cost
        known = {"node-hours": cost.node_hours, "gpu-hours": cost.gpu_hours, "cost": cost.cost}
        values |= {name: f"{value:.6f}" for name, value in known.items() if value is not None}
    if record.metrics is not None:
        chosen = choose_metrics(record)
        values["run-metrics"] = json.dumps({name: json_number(value) for name, value in chosen.items()})
    values |= {"gate": record.gate, "gate-report": gate_report(record) if record.rules else ""}
    if record.comparison:
        values["baseline"] = record.comparison.right.title
    if record.model:
        name, version = record.model.model, record.model.version
        values |= {"model-name": name, "model-version": version, "model-id": f"{name}:{version}"}
    if "promotion" in record.facts:
        name, version = str(record.facts["model"]), str(record.facts["promoted_version"])
        values |= {"model-name": name, "model-version": version, "model-id": f"{name}:{version}"}
        values |= {"stage": str(record.facts["stage"]), "promoted-version": version}
        values["previous-version"] = str(record.facts.get("previous_version") or "")
    return values


def gate_report(record: Record, most: int = _MOST_CHARACTERS) -> str:
    """Return the gate's decision as JSON of at most *most* characters, missed first.

    ``left_out`` counts the others. Numbers that are not finite are text.
    """
    rules: list[dict[str, object]] = []
    room = most
    for rule in sorted(record.rules, key=lambda one: one.met):
        found: dict[str, object] = {
            "metric": rule.metric,
            "rule": rule.rule,
            "verdict": rule.verdict,
            "value": json_number(rule.value),
            "limit": json_number(rule.limit),
            "reason": rule.reason,
            "where": rule.where,
        }
        room -= len(json.dumps(found)) + 2
        if room < 0:
            break
        rules.append(found)
    return json.dumps({"gate": record.gate, "rules": rules, "left_out": len(record.rules) - len(rules)})


def choose_metrics(record: Record, most: int = _MOST_CHARACTERS) -> dict[str, float]:
    """Return metrics by name, those with rules first, in *most* characters."""
    gated = {rule.metric for rule in record.rules}
    ordered = sorted((record.metrics or {}).items(), key=lambda item: (item[0] not in gated, item[0]))
    chosen: dict[str, float] = {}
    room = most
    for name, value in ordered:
        room -= len(json.dumps(name)) + 30
        if room < 0:
            break
        chosen[name] = value
    return chosen
