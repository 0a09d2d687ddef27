"""Datastores as resources: what is registered, what is shown of it, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from aml_emulator.domain.errors import InvalidError
from tests.unit.emulator.parts import IDENTITY, WS, Service

KEY = {"credentialsType": "AccountKey", "secrets": {"secretsType": "AccountKey", "key": "a2V5"}}
SAS = {"credentialsType": "Sas", "secrets": {"secretsType": "Sas", "sasToken": "?sv=1&sig=x"}}
NONE = {"credentialsType": "None"}
OWN = ["workspaceblobstore", "workspaceartifactstore", "workspacefilestore", "workspaceworkingdirectory"]


def put(service: Service, name: str, *, skip: bool = True, **properties: Any) -> Any:
    body = {
        "datastoreType": "AzureBlob",
        "accountName": IDENTITY.storage_account,
        "containerName": "images",
        "endpoint": "core.windows.net",
        "protocol": "https",
        "credentials": NONE,
        **properties,
    }
    query = "?skipValidation=true" if skip else ""
    return service.call("PUT", f"{WS}/datastores/{name}{query}", {"properties": body})


def test_what_may_change_and_what_not(service: Service) -> None:
    put(service, "images", credentials=KEY)
    again = put(service, "IMAGES", credentials=SAS)
    assert (again.status, again.json["name"]) == (200, "images")
    moved = put(service, "images", containerName="elsewhere")
    assert moved.status == 409
    assert "stands for the container 'images', which cannot be changed" in moved.json["error"]["message"]
    own = put(service, "workspaceblobstore", containerName=IDENTITY.blob_container)
    assert (own.status, own.json["properties"]["credentials"]) == (200, NONE)
    assert own.json["properties"]["isDefault"] is True
    assert len(service.call("GET", f"{WS}/datastores").json["value"]) == len(OWN) + 1


def test_blobs_of_another_account_are_a_reference(service: Service) -> None:
    put(service, "elsewhere", accountName="other", endpoint="core.chinacloudapi.cn")
    found = service.call("GET", f"{WS}/datastores/elsewhere").json["properties"]
    assert (found["accountName"], found["endpoint"]) == ("other", "core.chinacloudapi.cn")
    with pytest.raises(InvalidError, match="which the local AzureML does not have"):
        service.services.folder("azureml://datastores/elsewhere/paths/x")
    moved = put(service, "elsewhere")
    assert (moved.status, "of type AzureBlob in 'other'" in moved.json["error"]["message"]) == (409, True)


@pytest.mark.parametrize(
    ("properties", "status", "words"),
    [
        ({"datastoreType": "AzureDataLakeGen1"}, 501, "AzureDataLakeGen1: register AzureDataLakeGen2 or"),
        ({"datastoreType": "AzureFile"}, 400, "The fileShareName ''"),
        ({"datastoreType": "AzureDataLakeGen2", "filesystem": "x--"}, 400, "The filesystem 'x--'"),
        ({"datastoreType": "AzureFile", "fileShareName": "abc", "accountName": ""}, 400, "has an accountName"),
        ({"datastoreType": "OneLake"}, 501, "datastores of type OneLake"),
        ({"datastoreType": "Tape"}, 400, "The datastoreType 'Tape' is unknown"),
        ({"accountName": ""}, 400, "has an accountName"),
        ({"endpoint": "core.chinacloudapi.cn"}, 501, "the endpoint 'core.chinacloudapi.cn'"),
        ({"containerName": "Upper"}, 400, "The containerName 'Upper'"),
        ({"credentials": {"credentialsType": "ServicePrincipal"}}, 501, "credentials of type ServicePrincipal"),
        (
            {"datastoreType": "AzureFile", "fileShareName": "abc", "credentials": {"credentialsType": "Certificate"}},
            501,
            "credentials of type Certificate",
        ),
        ({"credentials": {"credentialsType": "Sas", "secrets": {}}}, 400, "need secrets.sasToken"),
        ({"credentials": {}}, 400, "have a credentialsType"),
    ],
)
def test_what_is_refused(service: Service, properties: dict[str, Any], status: int, words: str) -> None:
    answer = put(service, "images", **properties)
    assert answer.status == status
    assert words in answer.json["error"]["message"]


def test_data_in_another_account_are_refused(service: Service) -> None:
    put(service, "lake", datastoreType="AzureDataLakeGen2", accountName="elsewhere", filesystem="things")
    uri = "azureml://datastores/lake/paths/a/b.csv"
    job = {"inputs": {"d": {"jobInputType": "uri_file", "uri": uri}}}
    refused = service.submit("run1", **job)
    assert refused.status == 400
    message = refused.json["error"]["message"]
    assert message.startswith(
        "The input 'd' cannot be read: The datastore 'lake' is in the storage account 'elsewhere'"
    )
    assert "Upload a copy with aml-train data upload" in message
