"""The gate's oracle: does a rule hold for the values that a script logs?

It reads the script of the job as the cluster does, and computes the verdict without :mod:`aml_train.gate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from simulation.world.project import Rule


def logged_values(command: str) -> dict[str, list[float]]:
    """Return each metric's values by step; the last write of a step counts.

    Only lines that are executed count: nothing after ``exit``.
    """
    found: dict[str, dict[int, float]] = {}
    for line in command.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "exit":
            break
        if word == "metric":
            name, step, value = rest.split(" ")
            found.setdefault(name, {})[int(step)] = float(value)
    return {name: [values[step] for step in sorted(values)] for name, values in found.items()}


def value_of(rule: Rule, values: Mapping[str, Sequence[float]]) -> float | None:
    """Return the value that a rule compares; None if the metric was not logged."""
    series = values.get(rule.metric)
    if not series:
        return None
    return {"last": series[-1], "min": min(series), "max": max(series)}[rule.aggregate]


def holds(rule: Rule, values: Mapping[str, Sequence[float]], baseline: Mapping[str, Sequence[float]] | None) -> bool:
    """Return whether a rule holds.

    Args:
        rule: the rule.
        values: those that the candidate logged.
        baseline: those that the baseline logged; None if there is none.
    """
    value = value_of(rule, values)
    if value is None or value != value:
        return False
    if not rule.baseline:
        return value >= rule.limit if rule.operator == ">=" else value <= rule.limit
    other = None if baseline is None else value_of(rule, baseline)
    if other is None:
        return False
    # Both sides in the tenth decimal place: the product computes with decimal numbers.
    if rule.operator == ">=":
        return round(value, 10) >= round(other - rule.limit, 10)
    return round(value, 10) <= round(other + rule.limit, 10)


def missed(
    rules: Iterable[Rule], values: Mapping[str, Sequence[float]], baseline: Mapping[str, Sequence[float]] | None
) -> list[Rule]:
    """Return the rules that do not hold; bootstrap skips those without a baseline."""
    return [rule for rule in rules if not (rule.baseline and baseline is None) and not holds(rule, values, baseline)]
