"""What another client than aml-train does with code: azure-ai-ml by itself. Run as a program, like client_steps.py."""

from __future__ import annotations

import json
import sys
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
    """Return azure-ai-ml's own hash of a folder."""
    from azure.ai.ml._utils._asset_utils import get_content_hash, get_ignore_file

    return {"hash": get_content_hash(given["code"], get_ignore_file(given["code"]))}


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
            {"register": register, "hash": hash_of, "put_blob": put_blob}[sys.argv[1]](json.loads(sys.argv[2]))
        )
    )
