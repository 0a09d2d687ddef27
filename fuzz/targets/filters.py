"""Queries of the local AzureML: of MLflow and run history."""

from __future__ import annotations

from collections.abc import Sequence

from aml_emulator.api.errors import ServiceError
from aml_emulator.api.mlflow.search import (
    EXPERIMENTS,
    MODEL_VERSIONS,
    REGISTERED_MODELS,
    RUNS,
    Searchable,
    parse_filter,
    parse_order,
)
from aml_emulator.api.v1.run_filter import predicate
from aml_emulator.api.versions import check as check_version
from aml_emulator.domain import DomainError
from fuzz.target import Target, require

_ITEM = Searchable(
    attributes={"run_id": "r", "status": "FINISHED", "start_time": 5.0, "name": "n", "creation_time": 1.0},
    tags={"a": "b", "x y": "c"},
    metrics={"loss": 0.5, "val/acc": 0.9},
    params={"lr": "0.1"},
)  # fmt: skip


def seeds() -> Sequence[str]:
    """Return queries of each grammar."""
    return [
        *(
            "metrics.loss > 0.1",
            "tags.a = 'b' AND params.lr != '1'",
            "attributes.status IN ('FINISHED', \"RUNNING\")",
            "metrics.`val/acc` >= 0.9",
        ),
        *(
            "tags.\"x y\" LIKE '%c'",
            "run_id = 'r' and start_time < 10",
            "name ILIKE 'N%'",
            "metrics.loss DESC",
            "attributes.start_time ASC",
            "params.x",
        ),
        *(
            "Status eq 'Running' and (tags/a eq 'b' or not (CreatedUtc gt 2026-01-01T00:00:00Z))",
            "ParentRunId eq null",
            "RunType ne 'x'",
        ),
        "2024-01-01-preview",
        "created > '2026-01-01'",
    ]


def check(text: str) -> None:
    """Read a text by each grammar, and use the result."""
    for grammar in (RUNS, EXPERIMENTS, REGISTERED_MODELS, MODEL_VERSIONS):
        try:
            found = parse_filter(text, grammar)
            require(parse_filter(f" {text} ", grammar) == found, "spaces around a filter change it")
            results = [one.holds(_ITEM) for one in found]
            require(all(isinstance(one, bool) for one in results), "no decision")
        except ServiceError as error:
            require(400 <= error.status < 500, f"a filter is answered {error.status}")
        try:
            parse_order([text, "metrics.loss DESC"], grammar)
        except ServiceError as error:
            require(400 <= error.status < 500, f"an order is answered {error.status}")
    try:
        decide = predicate(text)
        for values in ({}, {"Status": "Running", "CreatedUtc": "2026-01-02T00:00:00Z"}):
            require(
                isinstance(decide(lambda *names, values=values: values.get("/".join(map(str, names)))), bool),
                "no decision",
            )
    except DomainError as error:
        require(str(error), "a refusal says nothing")
    try:
        check_version(f"/subscriptions/s/providers/Microsoft.MachineLearningServices/{text}", text)
    except (ServiceError, DomainError) as error:
        require(str(error), "a refusal says nothing")


TARGET = Target(
    kind="text",
    reads=(
        "aml_emulator.api.mlflow.search",
        "aml_emulator.api.v1.run_filter",
        "aml_emulator.api.versions",
    ),
    seeds=seeds,
    check=check,
    words=(
        *(
            "metrics.",
            "tags.",
            "params.",
            "attributes.",
            " AND ",
            " IN (",
            ")",
            " LIKE ",
            " ILIKE ",
            "'",
            '"',
            "`",
            "%",
            "_",
            " = ",
            " != ",
            ">=",
        ),
        *(
            " eq ",
            " ne ",
            " gt ",
            " and ",
            " or ",
            "not ",
            "(",
            "null",
            "true",
            "2026-01-01T00:00:00Z",
            "9999-12-31",
            "/",
            ",",
        ),
        *("NaN", "inf", "1e400", "-", "\\'", "''", " DESC", "*"),
    ),
)
