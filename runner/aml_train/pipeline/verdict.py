"""The result of a run as a sheet: verdict, gate, baseline, curves. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from aml_train.core.comparison import Comparison
from aml_train.core.notebook import Curve, Grid, Sheet, number
from aml_train.gate import GateResult, series_of

SIGNS: Final = {"met": "✓", "missed": "✗", "warned": "!", "skipped": "·"}
_MOST_CURVES: Final = 12


def verdict_sheet(status: str, exit_code: int, text: str, facts: Mapping[str, str], gate: GateResult | None) -> Sheet:
    """Return the verdict on a run, with the evidence of its gate."""
    return Sheet(
        title=f"{status} (exit code {exit_code})",
        sign="✓" if exit_code == 0 else "✗",
        text=text,
        facts=facts,
        grids=tuple(_grids(gate)) if gate is not None else (),
        curves=tuple(_curves(gate)) if gate is not None else (),
    )


def comparison_grid(found: Comparison, head: tuple[str, str, str, str], title: str = "") -> Grid:
    """Return a comparison as a table."""
    rows = [(row.name, row.left, row.right, row.difference) for row in found.rows()]
    return Grid(title=title, head=head, rows=rows)


def _grids(gate: GateResult) -> Iterator[Grid]:
    if gate.decision.rules:
        rows = [
            (
                f"{SIGNS[one.verdict]} {one.verdict}",
                one.metric,
                one.rule.text,
                number(one.value),
                number(one.limit),
                one.reason,
            )
            for one in gate.decision.rules
        ]
        yield Grid(title="Gate", head=("", "metric", "rule", "value", "limit", "reason"), rows=rows)
    if gate.comparison is not None:
        head = ("", "this job", "baseline", "difference")
        yield comparison_grid(gate.comparison, head, f"Baseline: {gate.comparison.right.title}")
    elif gate.metrics:
        values = [(name, number(value)) for name, value in sorted(gate.metrics.items())]
        yield Grid(title="Metrics", head=("metric", "last value"), rows=values)


def _curves(gate: GateResult) -> Iterator[Curve]:
    mine, other = series_of(gate.histories), series_of(gate.baseline_histories)
    for name in sorted(mine)[:_MOST_CURVES]:
        yield Curve(name=name, points=mine[name], other=other.get(name, ()))
