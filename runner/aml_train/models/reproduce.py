"""Compare two trainings of one lineage, and name likely causes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

State = Literal["identical", "equivalent", "different"]
"""``identical``: every byte of the model. ``equivalent``: the metrics agree within the tolerance. ``different``: neither."""

CauseKind = Literal[
    "image", "package", "code", "command", "data", "parameter", "seed", "threads", "variable", "hardware", "unknown"
]
"""``hardware`` is compute, VM size, number of nodes or processes, and the selection of devices."""

_THREADS: Final = frozenset(
    {
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "RAYON_NUM_THREADS",
        "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
    }
)
_DEVICES: Final = frozenset(
    {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE"}
)
_KINDS: Final[Mapping[str, CauseKind]] = {
    "image": "image",
    "package": "package",
    "code": "code",
    "command": "command",
    "data": "data",
    "parameter": "parameter",
    "variable": "variable",
    "compute": "hardware",
    "nodes": "hardware",
    "size": "hardware",
    "processes": "hardware",
}
#: Letters of a value that a cause shows: commands may be long.
_MOST_SHOWN: Final = 200
#: Causes in the order in which they are named: what decides most comes first.
_ORDER: Final[tuple[CauseKind, ...]] = get_args(CauseKind)


@dataclass(frozen=True, kw_only=True)
class Training:
    """The evidence of one training.

    Attributes:
        job: its name.
        files: path in the model → SHA-256 of the content.
        metrics: the last value of each.
        facts: what it ran with: ``image``, ``command``, ``compute``, ``size``, ``nodes``, ``processes``, and
            ``code.PATH``, ``data.NAME`` (the version) and ``data.NAME/PATH`` (the contents), ``parameter.NAME``,
            ``variable.NAME``, ``package.KIND:NAME``.
        changed_data: blobs of its inputs that were written after it began.
    """

    job: str
    files: Mapping[str, str]
    metrics: Mapping[str, float]
    facts: Mapping[str, str]
    changed_data: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference of a file, a metric or a fact; None for a missing side."""

    name: str
    original: str | float | None
    repeated: str | float | None


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A likely cause: ``certain`` if the two trainings are known to differ in it."""

    kind: CauseKind
    text: str
    certain: bool


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """The comparison of a training with its repetition."""

    original: str
    repeated: str
    state: State
    files: tuple[Difference, ...] = ()
    metrics: tuple[Difference, ...] = ()
    causes: tuple[Cause, ...] = field(default_factory=tuple)

    def facts(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {
            "original": self.original,
            "repeated": self.repeated,
            "state": self.state,
            "files": [vars(one) for one in self.files],
            "metrics": [vars(one) for one in self.metrics],
            "causes": [vars(one) for one in self.causes],
        }


def compare_trainings(original: Training, repeated: Training, *, tolerance: float) -> Reproduction:
    """Compare bit by bit, then metric by metric.

    Args:
        tolerance: the greatest relative difference of two metrics that count as equal; absolute below one.
    """
    files = tuple(_differences(original.files, repeated.files))
    metrics = tuple(
        one
        for one in _differences(original.metrics, repeated.metrics)
        if not _close(one.original, one.repeated, tolerance)
    )
    state: State = "different" if metrics or not original.metrics else "equivalent"
    if original.files and not files:
        state = "identical"
    causes = () if state == "identical" else tuple(_causes(original, repeated, alike=not metrics))
    return Reproduction(
        original=original.job, repeated=repeated.job, state=state, files=files, metrics=metrics, causes=causes
    )


def _differences(left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[Difference]:
    for name in sorted({*left, *right}):
        one, other = left.get(name), right.get(name)
        if one != other:
            yield Difference(name=name, original=one, repeated=other)


def _close(one: object, other: object, tolerance: float) -> bool:
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return False
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    if math.isinf(one) or math.isinf(other):
        return one == other
    return abs(one - other) <= tolerance * max(1.0, abs(one), abs(other))


def _causes(original: Training, repeated: Training, *, alike: bool) -> Iterator[Cause]:
    """Yield the known differences, or, if there are none, what was left open."""
    found = [_cause(one) for one in _differences(original.facts, repeated.facts)]
    changed = dict.fromkeys((*original.changed_data, *repeated.changed_data))
    found += [
        Cause(kind="data", text=f"{name} was written after the original training began", certain=True)
        for name in changed
    ]
    if not found:
        found = list(_open(original, alike=alike))
    yield from sorted(found, key=lambda one: _ORDER.index(one.kind))


def _cause(one: Difference) -> Cause:
    group, _, name = one.name.partition(".")
    kind = _KINDS.get(group, "unknown")
    if group in ("parameter", "variable") and "seed" in name.lower():
        kind = "seed"
    elif (group == "variable" and name in _THREADS) or (group == "parameter" and "thread" in name.lower()):
        kind = "threads"
    elif group == "variable" and name in _DEVICES:
        kind = "hardware"
    shown = [("none" if value is None else str(value)[:_MOST_SHOWN]) for value in (one.original, one.repeated)]
    return Cause(kind=kind, text=f"{f'{group} {name}'.strip()} was {shown[0]}, and is {shown[1]}", certain=True)


def _open(original: Training, *, alike: bool) -> Iterator[Cause]:
    """Yield what nothing of the job fixes; two trainings may differ in it."""
    names = [name for name in original.facts if name.startswith(("parameter.", "variable."))]
    seeded = any("seed" in name.lower() for name in names)
    drawn = "the code may draw random numbers that the seed does not fix"
    yield Cause(kind="seed", text=drawn if seeded else "no parameter and no variable sets a seed", certain=False)
    if not any(name.partition(".")[2] in _THREADS for name in names):
        text = "no variable fixes the number of threads, which changes the order of sums"
        yield Cause(kind="threads", text=text, certain=False)
    yield Cause(
        kind="hardware",
        text="the nodes may have other processors or GPUs, whose kernels add in another order",
        certain=False,
    )
    if alike:
        yield Cause(
            kind="unknown", text="the files may hold times, names of jobs or an order that varies", certain=False
        )
