"""Values of the gate from files: JSON metrics, pointers, histories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from aml_train.gate.baseline import read_value, read_values
from aml_train.gate.decide import Evidence, decide_rule
from aml_train.gate.history import MetricPoint, written_after
from aml_train.gate.rules import parse_rule
from fuzz.target import Target, as_bytes, require

_RULES = (
    "max >= 0.5",
    "best > 0.1",
    "p(99) <= 3",
    "mean(2) < 0.2",
    "increasing",
    "finite",
    "median == 1",
    "steps >= 2",
)


def seeds() -> Sequence[Any]:
    """Return documents with a pointer, and histories."""
    return [
        {"file": '{"accuracy": 0.95, "loss": NaN}', "pointer": "/accuracy", "points": [[0, 0.5, 10], [1, 0.6, 20]]},
        {
            "file": '{"metrics": {"a/b": 1, "c~d": 2.5}}',
            "pointer": "/metrics/a~1b",
            "points": [[0, 0.5, 10], [0, 0.6, 20]],
        },
        {"file": '[1, {"x": [0.5]}]', "pointer": "/1/x/0", "points": [[5, 1e308, 1], [4, -1e308, 2], [3, 0, 3]]},
        {"file": '{"metrics": {"n": 12345678901234567890}}', "pointer": "/metrics/n", "points": []},
    ]


def _points(value: object) -> list[MetricPoint]:
    found = []
    for one in value if isinstance(value, list) else ():
        if (
            isinstance(one, list)
            and len(one) == 3
            and all(isinstance(n, int | float) and not isinstance(n, bool) for n in one)
        ):
            try:
                step, number, timestamp = int(one[0]), float(one[1]), int(one[2])
            except (OverflowError, ValueError):
                continue
            if abs(step) < 2**63 and 0 <= timestamp < 10**14:
                found.append(MetricPoint(step=step, value=number, timestamp=timestamp))
    return found


def check(value: Any) -> None:
    """Read a file of metrics; decide rules over a history."""
    given = value if isinstance(value, dict) else {}
    content, pointer = given.get("file"), given.get("pointer")
    if isinstance(content, str):
        data = as_bytes(content)
        try:
            found = read_values(data)
            require(all(isinstance(one, float) for one in found.values()), "a value is no float")
        except ValueError as error:
            require(str(error), "a refusal says nothing")
        if isinstance(pointer, str):
            try:
                number = read_value(data, pointer)
                require(isinstance(number, float), "a value is no float")
                document = json.loads(data)
                require(document is not None, "a number in nothing")
            except ValueError as error:
                require(str(error), "a refusal says nothing")
    points = _points(given.get("points"))
    for text in _RULES:
        decision = decide_rule("m", parse_rule(text), "f:1", Evidence(histories={"m": points}))
        require(decision.verdict != "met" or points, "a rule is met without values")
    written_after({"m": points}, None)


TARGET = Target(
    kind="json",
    reads=("aml_train.gate.baseline", "aml_train.gate.decide", "aml_train.gate.history"),
    seeds=seeds,
    check=check,
    words=("/metrics/", "~1", "~0", "NaN", "Infinity", "-Infinity", "metrics", "1e400", "{", "}", "[", "]"),
)
