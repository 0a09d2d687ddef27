from __future__ import annotations

import pytest

from aml_train.azure.blob.address import Address, Asset, DatastorePath, JobOutput, LocalPath, Scope, parse_address
from aml_train.core.errors import InvalidError

SCOPE = Scope(subscription_id="s", resource_group="g", workspace="w")
LONG = "azureml://subscriptions/s/resourcegroups/g/workspaces/w"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("azureml://datastores/d/paths/a/b", DatastorePath(datastore="d", path="a/b")),
        ("azureml://datastores/d/paths/a/b/", DatastorePath(datastore="d", path="a/b/")),
        ("azureml://datastores/d/paths/", DatastorePath(datastore="d", path="")),
        ("azureml://datastores/d/paths", DatastorePath(datastore="d", path="")),
        ("azureml://datastores/d", DatastorePath(datastore="d", path="")),
        ("azureml://datastores/d/ExperimentRun/dcid.j", DatastorePath(datastore="d", path="ExperimentRun/dcid.j")),
        ("azureml://datastores/d/paths/a:b::c*.txt", DatastorePath(datastore="d", path="a:b::c*.txt")),
        (f"{LONG}/datastores/d/paths/a", DatastorePath(datastore="d", path="a", scope=SCOPE)),
        ("azureml:digits:3", Asset(name="digits", version="3")),
        ("azureml:digits@latest", Asset(name="digits")),
        ("azureml:digits", Asset(name="digits")),
        (
            "azureml:/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w/data/x/versions/1",
            Asset(name="x", version="1", scope=SCOPE),
        ),
        ("azureml://jobs/j/outputs/model", JobOutput(job="j", output="model", path="")),
        ("azureml://jobs/j/outputs/model/paths/a/b", JobOutput(job="j", output="model", path="a/b")),
        ("azureml://jobs/j/outputs/artifacts/paths/logs/", JobOutput(job="j", output="artifacts", path="logs/")),
        ("data/digits.csv", LocalPath(path="data/digits.csv")),
        ("./a:b", LocalPath(path="./a:b")),
    ],
)
def test_each_form(text: str, expected: Address) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "An empty address"),
        ("azureml:digits@newest", "the label 'newest' is unknown"),
        ("azureml://models/m", "is not an address of data"),
        ("https://a.blob.core.windows.net/c/x?sig=secret", "https://a.blob.core.windows.net/c/x' is not an address"),
    ],
)
def test_what_is_none(text: str, words: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse_address(text)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)
