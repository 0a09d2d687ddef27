"""The figures of docs/stop.md: what the rules over curves would have stopped, in generated trainings."""

from __future__ import annotations

import functools
import math
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aml_train.gate.decide import Evidence, decide_rule
from aml_train.gate.futility import hopeless
from aml_train.gate.history import MetricPoint
from aml_train.gate.rules import StopRule, parse_rule
from scripts.docs.markdown import table

PAGE: Final = Path("docs/stop.md")
_RUNS: Final = 400
_STEPS: Final = 100
#: Steps between two looks at a job.
_EVERY: Final = 5
_GOAL: Final = parse_rule("< 0.4")
_PLACE: Final = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)

#: How many of a hundred trainings are of each kind.
KINDS: Final[Mapping[str, int]] = {
    "converges": 50,
    "diverges to NaN": 10,
    "overfits": 15,
    "falls late": 10,
    "stays high": 15,
}


def training(chance: random.Random, kind: str) -> list[MetricPoint]:
    """Return the validation loss of one training, by step."""
    floor, speed = chance.uniform(0.15, 0.4), chance.uniform(0.04, 0.12)
    turn = chance.randint(20, 70)
    values = []
    for step in range(_STEPS):
        value = floor + 2.0 * math.exp(-speed * step) + chance.gauss(0, 0.02)
        if kind == "stays high":
            value += 0.5
        elif kind == "overfits" and step > turn:
            value += 0.006 * (step - turn)
        elif kind == "falls late":
            value += 0.4 if step < turn else 0.0
        elif kind == "diverges to NaN" and step >= turn:
            value = math.nan
        values.append(value)
    return [MetricPoint(step=step, value=value, timestamp=step) for step, value in enumerate(values)]


def figures() -> str:
    """Return the table: for each rule, what it would have stopped of the same trainings."""
    chance = random.Random(46)  # noqa: S311
    baseline = {"val/loss": training(chance, "converges")}
    kinds = chance.choices(list(KINDS), weights=list(KINDS.values()), k=_RUNS)
    runs = [{"val/loss": training(chance, kind)} for kind in kinds]
    passes = [decide_rule("val/loss", _GOAL, "", Evidence(histories=run)).met for run in runs]
    rule = functools.partial(StopRule, metric="val/loss", where="", text="", goals=(_GOAL,))
    rules = {"nan": rule(kind="nan", goals=())}
    for steps in (10, 20, 40):
        rules[f"no-improvement: {steps} steps"] = rule(kind="no-improvement", number=steps)
    for margin in (20, 50, 100):
        name = f"below-baseline: {{at: step 30, margin: {margin} %}}"
        rules[name] = rule(kind="below-baseline", number=30, margin=margin)
    rows = [(f"`{name}`", *_row(rule, runs, passes, baseline)) for name, rule in rules.items()]
    return table(("rule on `val/loss`", "stopped rightly", "stopped wrongly", "hours of failing runs saved"), rows)


def _row(
    rule: StopRule,
    runs: Sequence[Mapping[str, Sequence[MetricPoint]]],
    passes: Sequence[bool],
    baseline: Mapping[str, Sequence[MetricPoint]],
) -> tuple[str, str, str]:
    stopped, saved = {True: 0, False: 0}, 0
    for run, good in zip(runs, passes, strict=True):
        points = run["val/loss"]
        first = next(
            (n for n in range(_EVERY, _STEPS, _EVERY) if hopeless([rule], {"val/loss": points[:n]}, baseline)), None
        )
        if first is not None:
            stopped[good] += 1
            saved += 0 if good else _STEPS - first
    bad, good_ones = passes.count(False), passes.count(True)
    return (
        f"{stopped[False]} of {bad}",
        f"{stopped[True]} of {good_ones}",
        f"{100 * saved / (bad * _STEPS):.0f} %",
    )


def stop_page(root: Path) -> str:
    """Return docs/stop.md with the figures of today's rules."""
    return _PLACE.sub(lambda _: f"{figures()}\n", (root / PAGE).read_text(encoding="utf-8"))
