"""Rows and tables that azureml-core logs: read, made into series for rules, and shown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from aml_train.azure import run_metrics as azure_logged
from aml_train.azure.clouds import AZURE_PUBLIC
from aml_train.azure.http import read_answer
from aml_train.azure.names import WorkspaceId
from aml_train.azure.run_metrics import read_logged
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import Answer
from aml_train.core.errors import ServiceError
from aml_train.core.masked_events import masked
from aml_train.core.tables import MOST_CHARACTERS, Table
from aml_train.gate.history import MetricPoint
from aml_train.gate.logged import (
    LIST,
    MOST_BYTES,
    SCALAR,
    TABLE,
    Logged,
    LoggedRow,
    LoggedSet,
    columns_of,
    file_of,
    in_order,
    problem_of,
    tables_of,
)
from aml_train.jobs.metrics import read_tables
from tests.support.fake_workspace import FakeService


def logged(
    name: str, kind: str, *rows: Any, whole: bool = True, types: Mapping[str, str] | None = None, **columns: str
) -> Logged:
    """Return what was logged as *name*; rows are dicts, or the one value under the name."""
    data = [row if isinstance(row, dict) else {name: row} for row in rows]
    columns = columns or dict(types or {name: "Double"})
    return Logged(name=name, kind=kind, columns=columns, rows=[LoggedRow(data=one) for one in data], whole=whole)


def artifact(name: str, word: str, path: str | None = None) -> Logged:
    place = f"aml://artifactId/ExperimentRun/dcid.job/{path or name}"
    return logged(name, f"azureml.v2.{word}", place, types={name: "Artifact"})


def values(points: Any) -> list[tuple[int, float]]:
    return [(point.step, point.value) for point in points]


def test_columns_and_lists_are_series_by_their_names() -> None:
    found = LoggedSet(
        metrics=(
            logged("row", TABLE, {"x": 1, "loss": 2.5, "who": "a"}, {"x": 2, "loss": "NaN", "who": "b"}, x="Int", loss="Double", who="String"),
            logged("list", LIST, 1.5, 2),
            Logged(name="late", kind=SCALAR, columns={"late": "Double"}, rows=[LoggedRow(data={"late": 1.0}, step=10, created="2026-11-21T10:00:00.1234567Z")]),
        )
    )  # fmt: skip
    columns = columns_of(found)
    assert values(columns.series["row.x"]) == [(0, 1.0), (1, 2.0)]
    assert math.isnan(columns.series["row.loss"][1].value)
    assert values(columns.series["list"]) == [(0, 1.5), (1, 2.0)]
    assert columns.series["late"] == [MetricPoint(step=10, value=1.0, timestamp=1795255200123)]
    assert "row.who" not in columns.series
    assert problem_of("row.who", columns) == "its value 1 of 2 is no number"
    assert problem_of("row", columns) == "it is a table, whose columns are row.x, row.loss, row.who"
    assert problem_of("row.none", columns) == "of row: it is a table, whose columns are row.x, row.loss, row.who"
    assert problem_of("other", columns) is None


@pytest.mark.parametrize(
    ("metric", "name", "why"),
    [
        (logged("t", TABLE, {"a": 1}, {"b": 1}, a="Int", b="Int"), "t.a", "its value 2 of 2 is missing"),
        (logged("t", TABLE, {"a": 1}, {"a": "1"}, a="Int"), "t.a", "its value 2 of 2 is no number"),
        (logged("t", TABLE, {"a": True}, a="Bool"), "t.a", "its value 1 of 1 is no number"),
        (logged("t", TABLE, {"a": "NaN"}, a="String"), "t.a", "its value 1 of 1 is no number"),
        (logged("t", TABLE, {"a": 2**53 + 1}, a="Int"), "t.a", f"as a float is {2**53}"),
        (logged("t", TABLE, {"a": 1}, whole=False, a="Int"), "t.a", "more than the 1 values that are read"),
        (artifact("cm", "confusion_matrix"), "cm", "it is in a file of the job"),
    ],
)
def test_what_is_no_series(metric: Logged, name: str, why: str) -> None:
    columns = columns_of(LoggedSet(metrics=(metric,)))
    assert name not in columns.series
    assert why in (problem_of(name, columns) or "")


def test_rows_are_in_the_order_of_their_times() -> None:
    times = ["2026-11-21T10:00:00.2Z", "2026-11-21T10:00:00.1Z", "2026-11-21T10:00:00.2Z", "no time"]
    rows = [LoggedRow(data={"n": number}, created=time) for number, time in enumerate(times)]
    assert [row.data["n"] for row in in_order(rows)] == [3, 1, 0, 2]


def shown(metric: Logged, content: Any = None) -> Table:
    contents = (
        {}
        if content is None
        else {metric.name: content if isinstance(content, bytes) else json.dumps(content).encode()}
    )
    ((table,), more) = tables_of(LoggedSet(metrics=(metric,)), "job", contents)
    assert more == 0
    return table


def test_tables_texts_and_lists() -> None:
    table = shown(
        logged("t", TABLE, {"a": 1, "b": 0.123456789}, {"a": None, "b": "x\ny" + "z" * 100}, a="Int", b="String")
    )
    assert (table.kind, table.head, table.total) == ("table", ("a", "b"), 2)
    assert table.rows == (("1", "0.123457"), ("", "x y" + "z" * 76 + "…"))
    assert shown(logged("note", SCALAR, True, note="Bool")).value == "true"
    assert shown(logged("big", SCALAR, 2**53 + 1, big="Int")).value == str(2**53 + 1)
    assert shown(logged("words", LIST, "a", "b", words="String")).rows == (("a",), ("b",))
    summary = shown(logged("list", LIST, 3, 1, "NaN", 2))
    assert (summary.rows, summary.note) == ((("4", "1", "3", "2"),), "1 of them NaN")


def test_files_of_known_shapes_are_tables() -> None:
    data = {"class_labels": ["cat", "dog"], "matrix": [[3, 1], [0, 2]]}
    matrix = shown(artifact("cm", "confusion_matrix"), {"schema_type": "confusion_matrix", "data": data})
    assert (matrix.kind, matrix.head) == ("matrix", ("actual ╲ predicted", "cat", "dog"))
    assert matrix.rows == (("cat", "3", "1"), ("dog", "0", "2"))
    accuracy = {"class_labels": ["0"], "probability_tables": [[[1, 2, 3, 4], [5, 6, 7, 8]]], "probability_thresholds": [0.0, 1.0]}  # fmt: skip
    table = shown(artifact("acc", "accuracy_table"), {"data": accuracy})
    assert table.rows == (("0", "0", "1", "2", "3", "4"), ("0", "1", "5", "6", "7", "8"))
    residuals = shown(artifact("r", "residuals"), {"data": {"bin_edges": [0, 1, 2], "bin_counts": [5, 6.5]}})
    assert residuals.rows == (("0", "1", "5"), ("1", "2", "6.5"))
    bins = {"bin_averages": [0.25], "bin_errors": [0.01], "bin_counts": [56], "bin_edges": [0.0, 0.5]}
    assert shown(artifact("p", "predictions"), {"data": bins}).rows == (("0", "0.5", "0.25", "0.01", "56"),)


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (b"no JSON", "the file is no confusion matrix"),
        ({"data": {"class_labels": ["a"], "matrix": [[1, 2]]}}, "the file is no confusion matrix"),
        ({"data": [1]}, "the file is no confusion matrix"),
        ({}, "the file is no confusion matrix"),
        (b" " * (MOST_BYTES + 1), "the file has more than 1 MiB"),
    ],
)
def test_other_files_are_shown_as_files(content: Any, note: str) -> None:
    table = shown(artifact("cm", "confusion_matrix"), content)
    assert (table.kind, table.value, table.note) == ("file", "cm", note)


def test_where_a_metric_s_file_is() -> None:
    assert file_of(artifact("img", "image", "plots/a.png"), "job") == "plots/a.png"
    assert file_of(artifact("img", "image"), "another-job") is None
    old = logged("img", "azureml.v1.image", "aml://artifactId/a.png", img="Artifact")
    assert file_of(old, "job") == "a.png"
    older = logged(
        "cm", "azureml.v1.confusion_matrix", "aml://artifactId/ExperimentRun/dcid.job/outputs/cm", cm="Artifact"
    )
    assert file_of(older, "job") == "cm"
    other = shown(logged("x", "azureml.v9.unknown", "aml://artifactId/else/where", x="Artifact"))
    assert (other.kind, other.value) == ("file", "aml://artifactId/else/where")


def test_secrets_are_masked_everywhere() -> None:
    table = Table(name="s1", kind="table", head=("s1 h",), rows=(("a s1",),), note="s1!")

    def mask(text: str) -> str:
        return text.replace("s1", "***")

    changed = masked(table, mask, mask)
    assert "s1" not in repr(changed)


class Rest(AzureRest):
    """Run history's metrics with given answers: (verb, name, token) → pages."""

    def __init__(self, answers: Mapping[tuple[str, str | None, str | None], Any]) -> None:
        super().__init__(WorkspaceId(subscription_id="s", resource_group="g", name="w"), None, AZURE_PUBLIC)  # type: ignore[arg-type]
        self.answers = answers
        self.asked: list[str] = []

    def metrics(self, path: str) -> str:
        return path

    def answer(self, method: str, url: str, body: Any) -> requests.Response:
        verb = url.rpartition("/")[2]
        self.asked.append(f"{method} {url} {body.get('metricName')}")
        answer = self.answers.get((verb, body.get("metricName"), body.get("continuationToken")))
        response = requests.Response()
        response.status_code = 404 if answer is None else answer if isinstance(answer, int) else 200
        response._content = json.dumps(answer).encode()
        response.url, response.request = "https://h/x", requests.Request(method, "https://h/x").prepare()
        return response

    def ask(self, method: str, url: str, what: str, **more: Any) -> Answer | None:
        response = self.answer(method, url, more.get("body"))
        return None if response.status_code == 404 else read_answer(response, what)


def named(name: str, kind: str, **columns: str) -> dict[str, Any]:
    return {"metricKey": {"name": name}, "columns": columns or {name: "Double"}, "properties": {"uxMetricType": kind}}


def full(*rows: Any, token: str | None = None) -> dict[str, Any]:
    found = [
        {"createdUtc": f"2026-11-21T10:00:0{9 - number}Z", "step": 0, "data": row} for number, row in enumerate(rows)
    ]
    return {"value": found, "continuationToken": token, "columns": {}}


def test_only_what_mlflow_does_not_know_is_read_page_by_page() -> None:
    rest = Rest(
        {
            ("list", None, None): {"value": [named("acc", SCALAR), named("t", TABLE, a="Int")], "continuationToken": "n"},
            ("list", None, "n"): {"value": [named("l", LIST), named("note", SCALAR, note="String"), named("gone", TABLE)]},
            ("full", "t", None): full({"a": 2}, {"a": 1}, token="m"),
            ("full", "t", "m"): full({"a": 3}),
            ("full", "l", None): full({"l": 1.0}),
            ("full", "note", None): full({"note": "x"}),
        }
    )  # fmt: skip
    found = read_logged(rest, "job 1", known={"acc": 1.0, "l": 1.0}, first=["note.x"])
    assert [metric.name for metric in found.metrics] == ["note", "t", "l"]
    table = found.metrics[1]
    assert [row.data["a"] for row in table.rows] == [1, 2, 3]
    assert (table.whole, table.columns, found.left) == (True, {"a": "Int"}, ())
    assert rest.asked[0] == "POST /runs/job%201/list None"
    assert not any(asked.endswith("full acc") for asked in rest.asked)


def test_there_is_a_bound_to_names_and_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_logged, "_MOST_NAMES", 2)
    monkeypatch.setattr(azure_logged, "_MOST_ROWS", 3)
    rest = Rest(
        {
            ("list", None, None): {"value": [named(name, TABLE, a="Int") for name in ("one", "two", "three")]},
            ("full", "two", None): full({"a": 1}, {"a": 2}),
            ("full", "one", None): full({"a": 1}, {"a": 2}, token="more"),
        }
    )
    found = read_logged(rest, "j", known=(), first=["two.a"])
    assert [(metric.name, len(metric.rows), metric.whole) for metric in found.metrics] == [
        ("two", 2, True),
        ("one", 1, False),
    ]
    assert found.left == ("three",)


def test_a_file_that_cannot_be_read_is_told() -> None:
    class Broken(FakeService):
        def read_artifact(self, name: str, path: str, *, most: int) -> bytes | None:
            raise ServiceError("storage answered 503")

    ((table,), _, remark) = read_tables(Broken(), "job", LoggedSet(metrics=(artifact("cm", "confusion_matrix"),)))
    assert (table.kind, table.value) == ("file", "cm")
    assert remark == "The file cm that the job logged is not shown: storage answered 503"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
SHAPED = st.fixed_dictionaries({"data": JSON | st.fixed_dictionaries({"class_labels": JSON, "matrix": JSON, "bin_edges": JSON, "bin_counts": JSON, "probability_tables": JSON, "probability_thresholds": JSON})})  # fmt: skip
KINDS = st.sampled_from([SCALAR, LIST, TABLE, "", "azureml.v2.confusion_matrix", "azureml.v2.accuracy_table", "azureml.v2.residuals"])  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "a.b", ""]), KINDS, st.lists(JSON, max_size=3)), max_size=3),
    SHAPED | JSON,
)
def test_whatever_is_logged_is_shown_or_told(found: list[tuple[str, str, list[Any]]], content: Any) -> None:
    metrics = []
    for name, kind, rows in found:
        place = {name: f"aml://artifactId/ExperimentRun/dcid.job/{name}"}
        data = (
            [place]
            if kind.startswith("azureml.v2.")
            else [row if isinstance(row, dict) else {name: row} for row in rows]
        )
        columns = {column: "Double" for row in data for column in row}
        metrics.append(Logged(name=name, kind=kind, columns=columns, rows=[LoggedRow(data=row) for row in data]))
    logged_set = LoggedSet(metrics=tuple(metrics))
    columns_found = columns_of(logged_set)
    assert not columns_found.series.keys() & columns_found.problems.keys()
    contents = dict.fromkeys(("a", "a.b", ""), json.dumps(content).encode())
    for table in tables_of(logged_set, "job", contents)[0]:
        cells = [cell for row in (table.head, *table.rows) for cell in row]
        assert all(len(cell) <= MOST_CHARACTERS for cell in cells)
        assert all(len(row) == len(table.head) for row in table.rows if table.head)
