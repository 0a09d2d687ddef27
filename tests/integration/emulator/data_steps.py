"""What a user's scripts do with datastores and data assets, with the real SDKs. See client_steps.py."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.integration.emulator.client_steps import client, wait


def datastores(given: dict[str, str]) -> dict[str, Any]:
    """Register datastores of each kind over one container, and upload, list and run through each."""
    from azure.ai.ml import Input, command
    from azure.ai.ml.entities import (
        AccountKeyConfiguration,
        AzureBlobDatastore,
        AzureDataLakeGen2Datastore,
        AzureFileDatastore,
        Data,
        Environment,
        SasTokenConfiguration,
    )
    from azure.storage.blob import BlobServiceClient, generate_container_sas

    ml = client(given)
    own = ml.datastores.get_default(include_secrets=True)
    url = f"https://{own.account_name}.blob.{own.endpoint}"
    BlobServiceClient(url, credential=own.credentials.account_key).create_container("images")
    sas = generate_container_sas(
        own.account_name,
        "images",
        account_key=own.credentials.account_key,
        permission="racwdl",
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    kinds: dict[str, Any] = {
        "bykey": AccountKeyConfiguration(account_key=own.credentials.account_key),
        "bysas": SasTokenConfiguration(sas_token=sas),
        "byidentity": None,
    }
    local = Path(given["folder"], "pictures")
    local.mkdir()
    seen: dict[str, Any] = {"uploaded": {}, "secrets": {}}
    for name, credentials in kinds.items():
        ml.datastores.create_or_update(
            AzureBlobDatastore(
                name=name, account_name=own.account_name, container_name="images", credentials=credentials
            )
        )
        (local / "one.txt").write_text(name)
        # azure-ai-ml uploads with the datastore's own credentials, or with the caller's where it has none.
        data = ml.data.create_or_update(Data(name=name, path=str(local), type="uri_folder", datastore=name))
        seen["uploaded"][name] = data.path
        found = ml.datastores.get(name, include_secrets=True)
        seen["secrets"][name] = type(found.credentials).__name__
    ml.environments.create_or_update(Environment(name="data", image=given["image"], version="1"))
    submitted = ml.jobs.create_or_update(
        command(
            command="cat ${{inputs.bykey}}/one.txt ${{inputs.bysas}}/one.txt ${{inputs.path}}/one.txt",
            environment="data:1",
            compute=given["compute"],
            inputs={
                "bykey": Input(type="uri_folder", path=ml.data.get("bykey", label="latest").id),
                "bysas": Input(type="uri_folder", path="azureml:bysas:1", mode="download"),
                "path": Input(type="uri_folder", path=seen["uploaded"]["byidentity"]),
            },
        )
    )
    seen["ended"] = wait(ml, submitted.name)[-1]
    ml.jobs.download(submitted.name, download_path=str(local))
    seen["log"] = next(local.rglob("std_log.txt")).read_text()
    ml.datastores.create_or_update(AzureDataLakeGen2Datastore(name="lake", account_name="x", filesystem="yyy"))
    lake = ml.datastores.get("lake", include_secrets=True)
    seen["lake"] = ["AzureDataLakeGen2", lake.account_name, lake.filesystem, type(lake.credentials).__name__]
    key = AccountKeyConfiguration(account_key="a2V5")
    ml.datastores.create_or_update(
        AzureFileDatastore(name="share", account_name="x", file_share_name="zzz", credentials=key)
    )
    share = ml.datastores.get("share", include_secrets=True)
    seen["share"] = ["AzureFile", share.account_name, share.file_share_name, type(share.credentials).__name__]
    ml.datastores.delete("bysas")
    seen["left"] = [one.name for one in ml.datastores.list()]
    ml.data.archive("bykey")
    seen["assets"] = [one.name for one in ml.data.list()]
    return seen


STEPS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {step.__name__: step for step in (datastores,)}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2]))))
