"""What another client than aml-train does with code: azure-ai-ml by itself. Run as a program, like client_steps.py."""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def register(given: dict[str, str]) -> dict[str, Any]:
    """Make a code asset of a folder; return what the client thinks of it."""
    from azure.ai.ml import MLClient
    from azure.ai.ml.entities._assets._artifacts.code import Code
    from azure.identity import EnvironmentCredential

    ml = MLClient(
        EnvironmentCredential(), given["subscription"], given["group"], given["workspace"], show_progress=False
    )
    made = ml._code.create_or_update(Code(path=given["code"]))
    return {"name": made.name, "version": made.version, "path": made.path}


def hash_of(given: dict[str, str]) -> dict[str, Any]:
    """Return azure-ai-ml's own hash of a folder, as code and as data."""
    from azure.ai.ml._utils._asset_utils import get_content_hash, get_ignore_file, get_object_hash

    ignored = get_ignore_file(given["code"])
    return {"hash": get_content_hash(given["code"], ignored), "object": get_object_hash(given["code"], ignored)}


def submit(given: dict[str, str]) -> dict[str, Any]:
    """Submit a job under a name, with marks of one's choice; wait for its end."""
    from azure.ai.ml import MLClient, command
    from azure.ai.ml.entities import Environment
    from azure.identity import EnvironmentCredential

    ml = MLClient(EnvironmentCredential(), given["subscription"], given["group"], given["workspace"])
    job = command(
        name=given["name"],
        command=given["command"],
        code=given["code"],
        environment=Environment(image=given["image"]),
        compute=given["compute"],
        experiment_name=given["experiment"],
        tags=json.loads(given["marks"]),
    )
    job.properties = json.loads(given["marks"])
    ml.jobs.create_or_update(job)
    while (found := ml.jobs.get(given["name"])).status not in ("Completed", "Failed"):
        time.sleep(0.2)
    return {"status": found.status, "code": found.code}


def forge_code(given: dict[str, str]) -> dict[str, Any]:
    """Change a file of the code asset that has the hash of a folder, where it is stored."""
    from azure.ai.ml import MLClient
    from azure.ai.ml._utils._asset_utils import get_content_hash, get_ignore_file
    from azure.identity import EnvironmentCredential
    from azure.storage.blob import BlobClient

    ml = MLClient(EnvironmentCredential(), given["subscription"], given["group"], given["workspace"])
    wanted = get_content_hash(given["code"], get_ignore_file(given["code"]))
    listed = ml._code._version_operation.list(
        given["group"], given["workspace"], "any", hash=wanted, hash_version="202208"
    )
    (asset,) = list(listed)
    store = ml.datastores.get("workspaceblobstore", include_secrets=True)
    url = f"{asset.properties.code_uri}/{given['file']}"
    with BlobClient.from_blob_url(url, credential=store.credentials.account_key) as blob:
        blob.upload_blob(given["text"], overwrite=True)
    return {"asset": asset.id}


def put_blob(given: dict[str, str]) -> dict[str, Any]:
    """Write a blob into the default datastore."""
    from azure.ai.ml import MLClient
    from azure.identity import EnvironmentCredential
    from azure.storage.blob import BlobClient

    ml = MLClient(EnvironmentCredential(), given["subscription"], given["group"], given["workspace"])
    store = ml.datastores.get("workspaceblobstore", include_secrets=True)
    account = f"https://{store.account_name}.blob.{store.endpoint}"
    blob = BlobClient(account, store.container_name, given["name"], credential=store.credentials.account_key)
    with blob:
        blob.upload_blob(given["text"], overwrite=True)
    return {"name": given["name"]}


if __name__ == "__main__":
    print(
        json.dumps(
            {"register": register, "hash": hash_of, "put_blob": put_blob, "submit": submit, "forge": forge_code}[
                sys.argv[1]
            ](json.loads(sys.argv[2]))
        )
    )
