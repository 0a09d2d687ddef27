"""The datastore service of azureml-core, ``/datastore/v1.0``: the same datastores that azure-ai-ml sees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from aml_emulator.api.arm.datastores import Datastores
from aml_emulator.api.bodies import TEXT, WORD, WORDS, Fields
from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.context import Services
from aml_emulator.errors import NotSupportedError, ServiceError, bad_request
from aml_emulator.store.datastores import Datastore

PAGE = 100

EXISTS = "Another datastore with the same name already exists"
"""By these words the client knows that it has to update, where it was told to overwrite."""


SECTION = dict.fromkeys(
    ("accountName", "containerName", "endpoint", "protocol", "credentialType", "credential"), WORD
) | {"serviceDataAccessAuthIdentity": TEXT}
DATASTORE = Fields({"name": WORD, "dataStoreType": WORD, "tags": WORDS, "azureStorageSection": Fields(SECTION)})


def routes(services: Services) -> Sequence[Route]:
    """Return the routes of datastores."""
    datastores = V1Datastores(services)
    base = "/datastore/v1.0{WS}"
    return (
        Route(method="GET", path=f"{base}/default", handler=datastores.default),
        Route(method="PUT", path=f"{base}/default/{{name}}", handler=datastores.set_default),
        Route(method="GET", path=f"{base}/datastores", handler=datastores.list),
        Route(method="POST", path=f"{base}/datastores", handler=datastores.create),
        Route(method="GET", path=f"{base}/datastores/{{name}}", handler=datastores.get),
        Route(method="PUT", path=f"{base}/datastores/{{name}}", handler=datastores.update),
        Route(method="DELETE", path=f"{base}/datastores/{{name}}", handler=datastores.delete),
    )


class V1Datastores:
    """Answers for datastores."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._of_v2 = Datastores(services)

    def default(self, call: Call) -> dict[str, Any]:
        """Return the default datastore."""
        del call
        return self._view(self._services.all_datastores()[0])

    def set_default(self, call: Call) -> Reply:
        """Leave the default as it is: there is one, which stays."""
        if call.params["name"].lower() != self._services.all_datastores()[0].name.lower():
            raise NotSupportedError(f"another default datastore ('{call.params['name']}')")
        return Reply(status=200)

    def list(self, call: Call) -> dict[str, Any]:
        """Return datastores, in pages."""
        found = self._services.all_datastores()
        names = {name.lower() for name in call.query.get("dataStoreNames", "").split(",") if name}
        shown = [one for one in found if not names or one.name.lower() in names]
        skip, size = call.integer("continuationToken", 0), call.integer("count", PAGE, low=1, high=PAGE)
        more = len(shown) > skip + size
        return {
            "value": [self._view(one) for one in shown[skip : skip + size]],
            "continuationToken": str(skip + size) if more else None,
        }

    def get(self, call: Call) -> dict[str, Any]:
        """Return one datastore, with what signs in to it: azureml-core reads and writes blobs itself."""
        return self._view(self._services.datastore(call.params["name"]))

    def create(self, call: Call) -> Reply:
        """Register a datastore."""
        name = str(call.json(DATASTORE).get("name") or "")
        if any(one.name.lower() == name.lower() for one in self._services.all_datastores()):
            raise ServiceError(400, "UserError", f"{EXISTS}: '{name}'.")
        self._put(call, name)
        return Reply(status=200)

    def update(self, call: Call) -> Reply:
        """Change the credentials of a datastore."""
        self._put(call, self._services.datastore(call.params["name"]).name)
        return Reply(status=200)

    def delete(self, call: Call) -> Reply:
        """Forget a datastore; its blobs stay."""
        self._of_v2.delete(call)
        return Reply(status=200)

    def _put(self, call: Call, name: str) -> None:
        given = call.json(DATASTORE)
        kind = str(given.get("dataStoreType") or "")
        section = given.get("azureStorageSection")
        if kind != "AzureBlob" or not isinstance(section, dict):
            raise NotSupportedError(f"datastores of type {kind}; only AzureBlob")
        body = {
            "properties": {
                "datastoreType": kind,
                "accountName": section.get("accountName"),
                "containerName": section.get("containerName"),
                "endpoint": section.get("endpoint"),
                "protocol": section.get("protocol"),
                "tags": given.get("tags") or {},
                "serviceDataAccessAuthIdentity": section.get("serviceDataAccessAuthIdentity"),
                "credentials": _credentials(section),
            }
        }
        if call.query.get("createIfNotExists", "").lower() == "true":
            self._services.blobs.create_container(str(section.get("containerName")))
        self._of_v2.put(replace(call, params={"name": name}, body=json.dumps(body).encode()))

    def _view(self, datastore: Datastore) -> dict[str, Any]:
        identity = self._services.identity
        kind = str(datastore.properties["credentials"]["credentialsType"])
        key, sas = datastore.secret.get("key"), datastore.secret.get("sasToken")
        return {
            "name": datastore.name,
            "dataStoreType": "AzureBlob",
            "isDefault": datastore.name == next(iter(self._services.own_containers)),
            "hasBeenValidated": True,
            "tags": dict(datastore.properties.get("tags") or {}),
            "azureStorageSection": {
                "accountName": identity.storage_account,
                "containerName": datastore.container,
                "endpoint": "core.windows.net",
                "protocol": "https",
                "credentialType": kind,
                "credential": key or sas,
                "sasToken": sas,
                "accountKey": key,
                "isSas": sas is not None,
                "blobCacheTimeout": 0,
                "subscriptionId": identity.subscription_id,
                "resourceGroup": identity.resource_group,
                "areWorkspaceManagedIdentitiesAllowed": False,
                "serviceDataAccessAuthIdentity": datastore.properties.get("serviceDataAccessAuthIdentity") or "None",
            },
        }


def _credentials(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the credentials of a storage section as azure-ai-ml says them."""
    kind, secret = str(section.get("credentialType") or "None"), section.get("credential")
    if kind == "AccountKey":
        return {"credentialsType": kind, "secrets": {"secretsType": kind, "key": secret}}
    if kind == "Sas":
        return {"credentialsType": kind, "secrets": {"secretsType": kind, "sasToken": secret}}
    if kind == "None":
        return {"credentialsType": kind}
    raise bad_request(f"Unknown credentials of a datastore: '{kind}'")
