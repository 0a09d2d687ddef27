"""Recordings are reduced to facts that no user can be recognized by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.recordings.__main__ import main
from scripts.recordings.facts import Exchange, merge, read_facts
from scripts.recordings.read import Entry, read_recording
from scripts.recordings.shapes import reduce_exchange, shape

WS = "/subscriptions/s-1/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"


def entry(path: str = f"{WS}/jobs/mine", **changes: Any) -> Entry:
    values: dict[str, Any] = {
        "method": "GET",
        "url": f"https://management.azure.com{path}?api-version=2024-01-01&$top=5&secret=x",
        "status": 200,
        "headers": {"Date": "today", "x-ms-response-type": "standard"},
        "sent": None,
        "answer": {"id": f"{WS}/jobs/mine", "properties": {"status": "Completed", "tags": {"owner": "other"}}},
    }
    return Entry(**{**values, **changes})


def test_an_exchange_becomes_facts() -> None:
    facts = reduce_exchange(entry(), source="one")
    assert facts == Exchange(
        source="one",
        method="GET",
        path="{WS}/jobs/{name}",
        status=200,
        version="2024-01-01",
        query={"$top": "5", "secret": ""},
        headers=("date", "x-ms-response-type=standard"),
        answer={"id": "arm:jobs", "properties": {"status": "=Completed", "tags": {"aa": "text"}}},
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (True, "flag"),
        (1.5, "number"),
        ("2026-01-01T00:00:00.5+00:00", "time"),
        ("PT1H", "duration"),
        ("00:02:04.75", "duration"),
        ("11111111-2222-3333-4444-555555555555", "guid"),
        ("https://account.blob.core.windows.net/c?sig=secret", "url"),
        ("azureml://datastores/d/paths/p", "azureml"),
        (f"{WS}/environments/e/versions/1", "arm:environments/versions"),
        ("/subscriptions/s/resourceGroups/g", "arm:other"),
        ("12", "number-text"),
        ("", "empty"),
        ("a name", "text"),
        ([1, 2, "x"], ["number", "text"]),
        ({"jobs": {"a": 1}}, {"jobs": "object"}),
        ({"inputs": {"mine": {"jobInputType": "literal"}}}, {"inputs": {"aa": {"jobInputType": "=literal"}}}),
        ({"error": {"code": "UserError", "message": "m"}}, {"error": {"code": "=UserError", "message": "text"}}),
        ({"code": "abc"}, {"code": "text"}),
        ({"status": "a sentence, with more than words."}, {"status": "text"}),
        ({"tags": {"_aml_system_x": "1", "b": "2"}}, {"tags": {"_aml_system_x": "number-text", "aa": "number-text"}}),
    ],
)
def test_values_become_shapes(value: Any, expected: Any) -> None:
    assert shape(value, "{WS}/jobs/{name}") == expected


@pytest.mark.parametrize(
    ("url", "path"),
    [
        (f"https://management.azure.com{WS}", "{WS}"),
        (f"https://management.azure.com{WS}/data/d/versions/1", "{WS}/data/{name}/versions/{version}"),
        (f"https://management.azure.com{WS}/jobs/j/cancel", "{WS}/jobs/{name}/cancel"),
        (f"https://eastus.api.azureml.ms/history/v1.0{WS}/runs/r/details", "/history/v1.0{WS}/runs/{run}/details"),
        (
            f"https://eastus.api.azureml.ms/mlflow/v2.0{WS}/api/2.0/mlflow/runs/log-batch",
            "/mlflow/v2.0{WS}/api/2.0/mlflow/runs/log-batch",
        ),
        ("https://login.microsoftonline.com/t/oauth2/v2.0/token", None),
        ("https://account.blob.core.windows.net/c/b", None),
        ("https://management.azure.com/subscriptions", None),
    ],
)
def test_paths_become_templates(url: str, path: str | None) -> None:
    facts = reduce_exchange(entry(url=url), source="one")
    assert (None if facts is None else facts.path) == path


def test_equal_exchanges_are_one_with_the_headers_of_both() -> None:
    one, other = (
        reduce_exchange(entry(headers=headers), source=name)
        for name, headers in (("a", {"Vary": "", "Date": ""}), ("b", {"Date": ""}))
    )
    assert one is not None
    assert other is not None
    (merged,) = merge([one, other])
    assert (merged.source, merged.seen, merged.headers) == ("a", 2, ("date",))


def test_recordings_of_both_forms_are_read(tmp_path: Path) -> None:
    proxy = tmp_path / "proxy.json"
    proxy.write_text(
        json.dumps(
            {
                "Entries": [
                    {
                        "RequestUri": f"https://management.azure.com{WS}/jobs/j",
                        "RequestMethod": "PUT",
                        "RequestBody": {"properties": {"jobType": "Pipeline", "inputs": {"a": 1}}},
                        "StatusCode": 201,
                        "ResponseHeaders": {"Location": "x"},
                        "ResponseBody": None,
                    }
                ]
            }
        )
    )
    vcr = tmp_path / "vcr.yaml"
    vcr.write_text(
        "interactions:\n"
        f"- request: {{method: GET, uri: 'https://management.azure.com{WS}/jobs/j', body: null}}\n"
        '  response: {status: {code: 404}, headers: {Date: [x]}, body: {string: \'{"error": {"code": "UserError"}}\'}}\n'
    )
    into = tmp_path / "facts.json"
    assert main(["--into", str(into), "--root", str(tmp_path), str(proxy), str(vcr)]) == 0
    got, put = read_facts(into)
    assert (put.source, put.sent) == ("proxy", {"properties": {"jobType": "=Pipeline"}})
    assert (got.status, got.answer) == (404, {"error": {"code": "=UserError"}})
    assert main(["--into", str(into), "--only", "^GET", str(proxy)]) == 0
    assert len(read_facts(into)) == 2


def test_another_file_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(ValueError, match="neither 'Entries' nor 'interactions'"):
        read_recording(other)
    assert main(["--into", str(tmp_path / "facts.json"), str(other)]) == 0
    assert "other.json: left out" in capsys.readouterr().err
