"""How much the metrics of a job's replicates spread, and which margin the gate needs for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_UP, Context, Decimal
from typing import Final

from aml_train.config.sections.gate import GateRule
from aml_train.core.tags import Tag
from aml_train.gate.replicates import Spread, spread_of
from aml_train.jobs.workspace import JobView, Workspace

ALPHA: Final = 0.05
"""How often a model that is worse by the margin may pass."""
POWER: Final = 0.9
"""How often one that is as good as its baseline shall pass."""
_DIGITS: Final = Context(prec=2, rounding=ROUND_UP)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The spread of each metric that all replicates logged as a finite number, and lines of aml-train.yml that allow for it."""

    spreads: dict[str, Spread]
    proposal: list[str]


def measure_noise(service: Workspace, found: Sequence[JobView], rules: Sequence[GateRule]) -> Noise:
    """Return the spread of the metrics of at least two replicates; *rules* say which values of a metric are better.

    Raises:
        ServiceError: the service does not answer.
    """
    logged = [service.last_metrics(one.name) for one in found]
    names = sorted(
        one for one in set.intersection(*map(set, logged)) if all(math.isfinite(each[one]) for each in logged)
    )
    spreads = {metric: spread_of([one[metric] for one in logged], alpha=ALPHA, power=POWER) for metric in names}
    return Noise(spreads=spreads, proposal=_proposal(spreads, rules, found))


def _proposal(spreads: dict[str, Spread], rules: Sequence[GateRule], found: Sequence[JobView]) -> list[str]:
    """Return the lines of aml-train.yml for the metrics with *rules* in their direction; those of all metrics have none to go by."""
    better = {rule.metric: rule.rule.greater for rule in rules if rule.rule.shape is None and rule.metric in spreads}
    lines = ["gate:"] if better else []
    for metric, greater in better.items():
        margin = _DIGITS.create_decimal(Decimal(repr(spreads[metric].margin)))
        tolerance = f" {'-' if greater else '+'} {margin}" if margin else ""
        lines.append(f'  {metric}: "{">=" if greater else "<="} baseline{tolerance}"')
    name = found[0].properties.get(Tag.REPLICATES, "seed").split(" ")[0]
    values = ", ".join(one.parameters.get(name, "?") for one in found)
    return [*lines, f"replicates: {{input: {name}, values: [{values}]}}"]
