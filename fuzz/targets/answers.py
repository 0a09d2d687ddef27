"""Answers of registries and workspaces, by the transport of the tests.

Every decision of `tests.support.wrong_answers` is a byte of the input, so that each input is replayed as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from aml_train.core.errors import AmlTrainError
from fuzz.mutation import Mutator
from fuzz.target import Target, require
from tests.support.wrong_answers import DECISIONS, MOST_REQUESTS, Answering, no_pauses
from tests.unit.answers import test_registry_answers as registry
from tests.unit.answers import test_workspace_answers as workspace


@cache
def operations() -> Mapping[str, tuple[Answering, Callable[[], object]]]:
    """Return the operations that services answer, by name."""
    return {
        f"{module.__name__.rpartition('.')[2]}: {name}": (module.ANSWERING, operation)
        for module in (registry, workspace)
        for name, operation in module.OPERATIONS.items()
    }


def seeds() -> Sequence[Any]:
    """Return zeros, which are valid answers, and random bytes, for each operation."""
    rng = Random(0)  # noqa: S311 - to be repeated
    return [
        {"operation": name, "decisions": data.hex()}
        for name in operations()
        for data in (bytes(DECISIONS), rng.randbytes(DECISIONS))
    ]


def check(value: Any) -> None:
    """Let an operation meet the answers that the bytes decide."""
    given = value if isinstance(value, dict) else {}
    found = operations().get(str(given.get("operation")))
    try:
        data = bytes.fromhex(str(given.get("decisions")))[:DECISIONS]
    except ValueError:
        return
    if found is None:
        return
    answering, operation = found
    answering.begin(data)
    with no_pauses():
        try:
            operation()
        except AmlTrainError as error:
            str(error).encode()
        require(answering.sent < MOST_REQUESTS, "it does not end")


def mutate(mutator: Mutator, value: Any) -> Any:
    """Change some decisions."""
    if not isinstance(value, dict):
        return value
    data = bytearray.fromhex(str(value["decisions"]))
    for _ in range(mutator.rng.randint(1, 12)):
        data[mutator.rng.randrange(len(data))] = mutator.rng.randrange(256)
    return {**value, "decisions": data.hex()}


TARGET = Target(
    kind="json",
    reads=(
        "aml_train.image.registry.http",
        "aml_train.image.registry.manifest",
        "aml_train.azure.models",
        "aml_train.azure.http",
        "aml_train.azure.workspace",
    ),
    seeds=seeds,
    check=check,
    mutate=mutate,
)
