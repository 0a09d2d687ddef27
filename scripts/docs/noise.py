"""The tables of docs/noise.md: how often a test over replicates is wrong, and how often it passes an equal model.

Each figure is the share of greens among experiments with random numbers from one seed, decided by the gate's own function.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aml_train.config.sections.gate import GateRule
from aml_train.gate.baseline import RunBaseline
from aml_train.gate.decide import Baseline, Evidence
from aml_train.gate.history import MetricPoint
from aml_train.gate.replicates import decide_replicates
from aml_train.gate.rules import Sampling, parse_rule
from scripts.docs.markdown import table

PAGE: Final = Path("docs/noise.md")
_BEGIN, _END = "<!-- figures -->\n", "<!-- /figures -->\n"
EXPERIMENTS: Final = 2000
#: Replicates of both models, and whether the end may be early.
DESIGNS: Final = ((3, False), (3, True), (5, False), (5, True), (10, False))
#: How much better than its limit the candidate is, in standard deviations of one replicate.
_DISTANCES: Final = (0.0, 2.0, 3.0)


def _histories(value: float) -> dict[str, Sequence[MetricPoint]]:
    return {"acc": [MetricPoint(step=0, value=value, timestamp=0)]}


def share(replicates: int, distance: float, *, early: bool) -> tuple[float, float]:
    """Return which share of the experiments passes, and how many replicates were judged in the mean."""
    rng = random.Random(f"{replicates} {distance} {early}")  # noqa: S311 - an experiment
    rule = GateRule(metric="acc", rule=parse_rule(">= baseline"), where="")
    sampling = Sampling(planned=replicates, alpha=0.05, early=early)
    greens = used = 0
    for _ in range(EXPERIMENTS):
        known: list[Baseline] = [
            RunBaseline(title="", histories=_histories(rng.gauss(0.0, 1.0))) for _ in range(replicates)
        ]
        candidate = [Evidence(histories=_histories(rng.gauss(distance, 1.0))) for _ in range(replicates)]
        for count in range(1 if early else replicates, replicates + 1):
            found = decide_replicates([rule], candidate[:count], known, sampling)
            if found.final:
                greens, used = greens + found.met, used + count
                break
    return greens / EXPERIMENTS, used / EXPERIMENTS


def row(replicates: int, *, early: bool) -> tuple[list[float], str]:
    """Return the shares of one design, and its line of the table."""
    shares = [share(replicates, one, early=early) for one in _DISTANCES]
    judged = " / ".join(f"{used:.1f}" for _, used in shares) if early else f"{replicates}"
    found = (f"{100 * green:.1f} %" for green, _ in shares)
    cells = (f"{replicates}", "early" if early else "end", *found, judged)
    return [green for green, _ in shares], table((), [cells]).splitlines()[-1]


def write(root: Path) -> None:
    """Write the figures into the page; the rest of it is written by hand."""
    head = (
        "replicates of each",
        "`stop`",
        *(f"{one:g} better" if one else "at the limit" for one in _DISTANCES),
        "judged in the mean",
    )
    lines = [*table(head, []).splitlines(), *(row(count, early=early)[1] for count, early in DESIGNS)]
    before, _, rest = (root / PAGE).read_text(encoding="utf-8").partition(_BEGIN)
    text = f"{before}{_BEGIN}\n" + "\n".join(lines) + f"\n\n{_END}{rest.partition(_END)[2]}"
    (root / PAGE).write_text(text, encoding="utf-8")
