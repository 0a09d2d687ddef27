"""Two trainings compared: verdicts, and the causes that are named."""

from __future__ import annotations

import dataclasses
import math

import pytest

from aml_train.models.reproduce import CauseKind, Training, compare_trainings

FACTS = {
    "image": "env:1",
    "code.train.py": "aa",
    "code.model/net.py": "bb",
    "command": "python train.py",
    "compute": "cpu-cluster",
    "size": "Standard_D4s_v3",
    "nodes": "1",
    "processes": "1",
    "data.digits": "digits:3",
    "data.digits/train.csv": "cc",
    "data.digits/test.csv": "dd",
    "parameter.epochs": "20",
    "parameter.seed": "0",
    "variable.OMP_NUM_THREADS": "4",
    "variable.PYTHONHASHSEED": "0",
    "variable.MODE": "a",
    "package.pip:numpy": "2.1.0",
}
ORIGINAL = Training(
    job="one", files={"m/a": "00", "m/b": "11"}, metrics={"loss": 0.25, "accuracy": 0.95}, facts=FACTS
)
DIFFERENT = Training(
    job="two", files={"m/a": "00", "m/b": "22"}, metrics={"loss": 0.26, "accuracy": 0.95}, facts=FACTS
)


@pytest.mark.parametrize(
    ("fact", "value", "kind"),
    [
        ("image", "env:2", "image"),
        ("package.pip:numpy", "2.2.0", "package"),
        ("package.apt:libopenblas0", "0.3.29", "package"),
        ("code.train.py", "ab", "code"),
        ("code.new.py", "ac", "code"),
        ("command", "python train.py --fast", "command"),
        ("data.digits", "digits:4", "data"),
        ("data.digits/train.csv", "ce", "data"),
        ("parameter.epochs", "21", "parameter"),
        ("parameter.seed", "1", "seed"),
        ("variable.PYTHONHASHSEED", "1", "seed"),
        ("variable.OMP_NUM_THREADS", "8", "threads"),
        ("variable.MKL_NUM_THREADS", "2", "threads"),
        ("variable.MODE", "b", "variable"),
        ("variable.NEW", "c", "variable"),
        ("parameter.num_threads", "3", "threads"),
        ("variable.CUDA_VISIBLE_DEVICES", "0", "hardware"),
        ("size", "Standard_E4s_v5", "hardware"),
        ("nodes", "2", "hardware"),
        ("processes", "4", "hardware"),
        ("compute", "other", "hardware"),
    ],
)
def test_a_planted_cause_is_named_and_no_other(fact: str, value: str, kind: CauseKind) -> None:
    repeated = dataclasses.replace(DIFFERENT, facts={**FACTS, fact: value})
    found = compare_trainings(ORIGINAL, repeated, tolerance=1e-6)
    assert found.state == "different"
    assert [(cause.kind, cause.certain) for cause in found.causes] == [(kind, True)]
    assert value in found.causes[0].text
    assert fact.partition(".")[0] in found.causes[0].text


def test_a_byte_of_the_data_is_named() -> None:
    repeated = dataclasses.replace(DIFFERENT, changed_data=("digits:3: data/digits.csv",))
    (cause,) = compare_trainings(ORIGINAL, repeated, tolerance=1e-6).causes
    assert (cause.kind, cause.certain) == ("data", True)
    assert cause.text == "digits:3: data/digits.csv was written after the original training began"


def test_several_causes_come_in_the_order_of_their_weight() -> None:
    facts = {**FACTS, "size": "x", "parameter.seed": "1", "image": "env:2"}
    found = compare_trainings(ORIGINAL, dataclasses.replace(DIFFERENT, facts=facts), tolerance=1e-6)
    assert [cause.kind for cause in found.causes] == ["image", "seed", "hardware"]


def test_without_a_known_difference_what_is_not_fixed_is_named_as_possible() -> None:
    facts = {name: value for name, value in FACTS.items() if not name.startswith(("variable", "parameter.seed"))}
    one, two = (dataclasses.replace(side, facts=facts) for side in (ORIGINAL, DIFFERENT))
    found = compare_trainings(one, two, tolerance=1e-6)
    assert [(cause.kind, cause.certain) for cause in found.causes] == [
        ("seed", False),
        ("threads", False),
        ("hardware", False),
    ]
    kinds = [cause.kind for cause in compare_trainings(ORIGINAL, DIFFERENT, tolerance=1e-6).causes]
    assert kinds == ["seed", "hardware"]


def test_identical_bytes_count_whatever_the_metrics_say() -> None:
    repeated = dataclasses.replace(ORIGINAL, job="two", metrics={"loss": 9.0})
    found = compare_trainings(ORIGINAL, repeated, tolerance=0.0)
    assert (found.state, found.files, found.causes) == ("identical", (), ())
    assert [one.name for one in found.metrics] == ["accuracy", "loss"]


@pytest.mark.parametrize(
    ("one", "other", "tolerance", "state"),
    [
        (0.25, 0.25, 0.0, "equivalent"),
        (0.25, 0.2500001, 1e-6, "equivalent"),
        (0.25, 0.2500021, 1e-6, "different"),
        (2e9, 2e9 + 1000, 1e-6, "equivalent"),
        (math.nan, math.nan, 0.0, "equivalent"),
        (math.nan, 0.1, 1.0, "different"),
        (math.inf, math.inf, 0.0, "equivalent"),
        (math.inf, -math.inf, 1.0, "different"),
    ],
)
def test_metrics_within_a_tolerance(one: float, other: float, tolerance: float, state: str) -> None:
    left = dataclasses.replace(ORIGINAL, metrics={"loss": one})
    right = dataclasses.replace(DIFFERENT, metrics={"loss": other})
    assert compare_trainings(left, right, tolerance=tolerance).state == state


def test_missing_files_and_metrics_are_differences() -> None:
    repeated = dataclasses.replace(DIFFERENT, files={"m/a": "00"}, metrics={"accuracy": 0.95})
    found = compare_trainings(ORIGINAL, repeated, tolerance=1e-6)
    assert [(one.name, one.original, one.repeated) for one in (*found.files, *found.metrics)] == [
        ("m/b", "11", None),
        ("loss", 0.25, None),
    ]
    assert found.facts()["state"] == "different"


def test_without_metrics_other_bytes_are_a_difference() -> None:
    one, two = (dataclasses.replace(side, metrics={}) for side in (ORIGINAL, DIFFERENT))
    found = compare_trainings(one, two, tolerance=1.0)
    assert found.state == "different"
    assert [cause.kind for cause in found.causes] == ["seed", "hardware", "unknown"]
