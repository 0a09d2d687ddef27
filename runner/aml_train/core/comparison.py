"""Compare two sides, such as a candidate and its baseline. Pure.

The rows of the table that shows them are made here, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal

from aml_train.core.text import duration

_DIGEST: Final = len("sha256:") + 12
#: What facts of a side are called, if not as in Python.
_FACTS: Final = {"version": "model_version", "logged": "logged_parameters", "variables": "environment_variables"}


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two.

    Attributes:
        title: what it is, for people.
        job: the job's name; None where there is none, as of a file.
        status: the job's, in the service's word; None where there is no job.
        seconds: how long it ran, so far as it is known.
        model, version: the registered model that it is.
        metrics: name → last value.
        data: input → ``NAME:VERSION`` or place; None where it is not known.
        contents: input → what its data were, as far as they were identified.
        digest: of the image; None where the environment was given, or nothing is known.
        commit: with ``-dirty`` behind it where files differed.
        parameters: the inputs that are literals.
        logged: the parameters that the job logged; None where they are not known.
        variables: the job's environment variables, without the values of secrets; None where they are not known.
    """

    title: str
    job: str | None = None
    status: str | None = None
    seconds: float | None = None
    model: str | None = None
    version: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    data: Mapping[str, str] | None = None
    contents: Mapping[str, str] = field(default_factory=dict)
    digest: str | None = None
    commit: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    logged: Mapping[str, str] | None = None
    variables: Mapping[str, str] | None = None

    def facts(self) -> dict[str, object]:
        """Return what is known, as plain values for JSON; unknown names are left out."""
        known = {name: value for name, value in vars(self).items() if value is not None and name != "contents"}
        return {
            _FACTS.get(name, name): dict(value) if isinstance(value, Mapping) else value
            for name, value in known.items()
        }


RowKind = Literal["fact", "data", "parameter", "logged", "variable", "metric", "package"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the table.

    *left* and *right* are empty for no value; *difference* is right from left, as text.

    *same* is whether both sides are equal; a value of only one side is not.
    """

    kind: RowKind
    name: str
    left: str
    right: str
    difference: str = ""
    same: bool = False


@dataclass(frozen=True, kw_only=True)
class MetricDifference:
    """One metric of both sides; None where a side does not have it.

    Attributes:
        difference: the left value less the right one; None where it is no finite number.
        percent: that, in per cent of the right value's magnitude; None where the right value is 0.
    """

    left: float | None
    right: float | None
    difference: float | None = None
    percent: float | None = None

    @property
    def same(self) -> bool:
        """Whether both sides have the same value; NaN is the same as NaN here."""
        if self.left is None or self.right is None:
            return False
        return self.left == self.right or (math.isnan(self.left) and math.isnan(self.right))


def metric_difference(left: float | None, right: float | None) -> MetricDifference:
    """Compare two values as it is done by hand: 0.3 less 0.1 is 0.2."""
    if left is None or right is None or not (math.isfinite(left) and math.isfinite(right)):
        return MetricDifference(left=left, right=right)
    exact = Decimal(repr(left)) - Decimal(repr(right))
    difference = float(exact)
    percent = float(exact / abs(Decimal(repr(right))) * 100) if right else None
    return MetricDifference(
        left=left,
        right=right,
        difference=difference if math.isfinite(difference) else None,
        percent=percent if percent is not None and math.isfinite(percent) else None,
    )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two sides. The left one is the candidate where there is one."""

    left: Side
    right: Side

    @property
    def metrics(self) -> dict[str, MetricDifference]:
        """Every metric that one of the sides has, by name."""
        names = sorted({*self.left.metrics, *self.right.metrics})
        return {name: metric_difference(self.left.metrics.get(name), self.right.metrics.get(name)) for name in names}

    @property
    def different_data(self) -> tuple[str, ...] | None:
        """Names of the inputs whose data differ; None where a side's data are not known."""
        left, right = self.left.data, self.right.data
        if left is None or right is None:
            return None
        return tuple(
            name for name in sorted({*left, *right}) if left.get(name) != right.get(name) or self.other_contents(name)
        )

    def other_contents(self, name: str) -> bool:
        """Return whether the data of an input are known of both sides, and differ."""
        left, right = self.left.contents.get(name), self.right.contents.get(name)
        return left is not None and right is not None and left != right

    def rows(self) -> tuple[Row, ...]:
        """Return the table: facts of the sides, their data, parameters, metrics.

        Of the parameters and the environment variables, those that differ.
        """
        return tuple(self._rows())

    def _rows(self) -> Iterator[Row]:
        left, right = self.left, self.right
        yield from _fact("job", left.job, right.job)
        yield from _fact("status", left.status, right.status)
        yield from _durations(left.seconds, right.seconds)
        yield from _fact("model", _model(left), _model(right))
        yield from _fact("commit", left.commit, right.commit, lambda commit: commit[:12] + commit[40:])
        yield from _fact("image", left.digest, right.digest, lambda digest: digest[:_DIGEST])
        for name in sorted({*(left.data or {}), *(right.data or {})}):
            yield _texts("data", f"data {name}", _known(left, name), _known(right, name))
        for name in self.different_parameters:
            yield _texts("parameter", name, left.parameters.get(name, ""), right.parameters.get(name, ""))
        for name in self.different_logged or ():
            values = ((side.logged or {}).get(name, "") for side in (left, right))
            yield _texts("logged", f"logged {name}", *values)
        for name in self.different_variables or ():
            values = ((side.variables or {}).get(name, "") for side in (left, right))
            yield _texts("variable", f"env {name}", *values)
        for name, found in self.metrics.items():
            shown = ["" if one is None else f"{one:.6g}" for one in (found.left, found.right)]
            yield Row(
                kind="metric",
                name=name,
                left=shown[0],
                right=shown[1],
                difference=_in_words(found),
                same=found.same,
            )

    @property
    def different_parameters(self) -> tuple[str, ...]:
        """Names of the literal inputs whose values differ."""
        return _differing(self.left.parameters, self.right.parameters)

    @property
    def different_logged(self) -> tuple[str, ...] | None:
        """Names of the logged parameters that differ; None where a side's are not known.

        A parameter that both jobs logged as the input of its name is none of them.
        """
        left, right = self.left.logged, self.right.logged
        if left is None or right is None:
            return None
        inputs = self.left.parameters, self.right.parameters
        return tuple(
            name
            for name in _differing(left, right)
            if (left.get(name), right.get(name)) != (inputs[0].get(name), inputs[1].get(name))
        )

    @property
    def different_variables(self) -> tuple[str, ...] | None:
        """Names of the environment variables that differ; None where a side's are unknown."""
        left, right = self.left.variables, self.right.variables
        return None if left is None or right is None else _differing(left, right)

    def facts(self) -> dict[str, object]:
        """Return both sides and their differences as plain values, for JSON."""
        metrics = {name: vars(found) for name, found in self.metrics.items()}
        return {
            "left": self.left.facts(),
            "right": self.right.facts(),
            "metrics": metrics,
            "different_data": _listed(self.different_data),
            "different_parameters": list(self.different_parameters),
            "different_logged_parameters": _listed(self.different_logged),
            "different_environment_variables": _listed(self.different_variables),
        }


def _differing(left: Mapping[str, str], right: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in sorted({*left, *right}) if left.get(name) != right.get(name))


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def _fact(name: str, left: str | None, right: str | None, short: Callable[[str], str] = str) -> Iterator[Row]:
    """Yield the row of a fact; none where neither side has it."""
    if left is not None or right is not None:
        shown = ["" if one is None else short(one) for one in (left, right)]
        same = left == right
        yield Row(kind="fact", name=name, left=shown[0], right=shown[1], difference="same" * same, same=same)


def _durations(left: float | None, right: float | None) -> Iterator[Row]:
    difference = ""
    if left is not None and right is not None:
        difference = ("-" if left < right else "+") + duration(abs(left - right))
    shown = ["" if one is None else duration(one) for one in (left, right)]
    if any(shown):
        yield Row(
            kind="fact", name="ran for", left=shown[0], right=shown[1], difference=difference, same=left == right
        )


def _model(side: Side) -> str | None:
    return None if side.model is None else f"{side.model}:{side.version}"


def _known(side: Side, name: str) -> str:
    if side.data is None:
        return "not known"
    content = side.contents.get(name)
    return side.data.get(name, "") + (f" ({content})" if content else "")


def _texts(kind: RowKind, name: str, left: str, right: str) -> Row:
    same = left == right
    return Row(kind=kind, name=name, left=left, right=right, difference="same" if same else "differs", same=same)


def _in_words(found: MetricDifference) -> str:
    """Return ``+0.02 (+2.1 %)``; empty if there is no difference to show."""
    if found.difference is None:
        return ""
    if found.difference == 0:
        return "same"
    # If the values differ in digits that are not shown, the difference still is.
    percent = "" if found.percent is None else f" ({found.percent:+.3g} %)"
    return f"{found.difference:+.6g}{percent}"
