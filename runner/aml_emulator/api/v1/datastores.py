"""The datastore service of azureml-core, ``/datastore/v1.0``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aml_emulator.api.routing import Answers, Call, Reply, Route
from aml_emulator.api.shapes import cut, listed
from aml_emulator.context import Context
from aml_emulator.domain.datastores import (
    BLOB_DATASTORE,
    FILE_DATASTORE,
    STORAGE_ENDPOINT,
    STORAGE_PROTOCOL,
    DatastoreSpec,
    credentials_of,
    delete_datastore,
    is_default_datastore,
    register_datastore,
)
from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.schema import TEXT, WORD, WORDS, Fields
from aml_emulator.store.datastores import Datastore

PAGE = 100


SECTION = dict.fromkeys(
    ("accountName", "containerName", "endpoint", "protocol", "credentialType", "credential"), WORD
) | {"serviceDataAccessAuthIdentity": TEXT}
DATASTORE = Fields({"name": WORD, "dataStoreType": WORD, "tags": WORDS, "azureStorageSection": Fields(SECTION)})


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of datastores."""
    datastores = V1Datastores(context)
    base = "/datastore/v1.0{WS}"
    return (
        Route("GET", f"{base}/default", datastores.default),
        Route("PUT", f"{base}/default/{{name}}", datastores.set_default),
        Route("GET", f"{base}/datastores", datastores.list),
        Route("POST", f"{base}/datastores", datastores.create),
        Route("GET", f"{base}/datastores/{{name}}", datastores.get),
        Route("PUT", f"{base}/datastores/{{name}}", datastores.update),
        Route("DELETE", f"{base}/datastores/{{name}}", datastores.delete),
    )


class V1Datastores(Answers):
    """Answers for datastores."""

    def default(self, _call: Call) -> dict[str, Any]:
        """Return the default datastore."""
        return self._view(self._context.all_datastores()[0])

    def set_default(self, call: Call) -> Reply:
        """Leave the default as it is: there is one, which stays."""
        if call.params["name"].lower() != self._context.all_datastores()[0].name.lower():
            raise NotSupportedError(f"another default datastore ('{call.params['name']}')")
        return Reply(status=200)

    def list(self, call: Call) -> dict[str, Any]:
        """Return datastores, in pages."""
        found = self._context.all_datastores()
        names = {name.lower() for name in call.query.get("dataStoreNames", "").split(",") if name}
        shown: Sequence[Datastore] = [one for one in found if not names or one.name.lower() in names]
        skip, size = call.integer("continuationToken", 0), call.integer("count", PAGE, low=1, high=PAGE)
        shown, following = cut(shown, skip, size)
        return listed([self._view(one) for one in shown], following)

    def get(self, call: Call) -> dict[str, Any]:
        """Return one datastore with its secret: azureml-core accesses blobs itself."""
        return self._view(self._context.datastore(call.params["name"]))

    def create(self, call: Call) -> Reply:
        """Register a datastore."""
        return self._register(call, str(call.json(DATASTORE).get("name") or ""), change=False)

    def update(self, call: Call) -> Reply:
        """Change the credentials of a datastore."""
        return self._register(call, self._context.datastore(call.params["name"]).name, change=True)

    def delete(self, call: Call) -> Reply:
        """Delete a datastore; its blobs stay."""
        delete_datastore(self._context, call.params["name"])
        return Reply(status=200)

    def _register(self, call: Call, name: str, *, change: bool) -> Reply:
        register_datastore(
            self._context,
            name,
            _spec(call.json(DATASTORE)),
            validate=call.query.get("skipValidation", "false").lower() != "true",
            create_container=call.query.get("createIfNotExists", "").lower() == "true",
            change=change,
        )
        return Reply(status=200)

    def _view(self, datastore: Datastore) -> dict[str, Any]:
        identity = self._context.identity
        kind = credentials_of(datastore)
        key, sas = datastore.secret.get("key"), datastore.secret.get("sasToken")
        return {
            "name": datastore.name,
            "dataStoreType": datastore.kind,
            "isDefault": is_default_datastore(self._context, datastore),
            "hasBeenValidated": True,
            "tags": dict(datastore.properties.get("tags") or {}),
            "azureStorageSection": {
                "accountName": datastore.account or identity.storage_account,
                "containerName": datastore.container,
                "endpoint": STORAGE_ENDPOINT,
                "protocol": STORAGE_PROTOCOL,
                "credentialType": kind,
                "credential": key or sas,
                "clientCredentials": _client_credentials(datastore),
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


def _client_credentials(datastore: Datastore) -> dict[str, Any] | None:
    """Return the service principal of a datastore, None without one."""
    credentials = datastore.properties["credentials"]
    if credentials_of(datastore) != "ServicePrincipal":
        return None
    return {
        "clientId": credentials.get("clientId"),
        "clientSecret": datastore.secret.get("clientSecret"),
        "tenantId": credentials.get("tenantId"),
        "resourceUri": credentials.get("resourceUrl"),
        "authorityUrl": credentials.get("authorityUrl"),
    }


def _spec(given: Mapping[str, Any]) -> DatastoreSpec:
    """Return the values of a datastore in a body."""
    kind, section = str(given.get("dataStoreType") or ""), given.get("azureStorageSection")
    if kind not in (BLOB_DATASTORE, FILE_DATASTORE) or not isinstance(section, dict):
        raise NotSupportedError(f"datastores of type {kind}; only {BLOB_DATASTORE} and {FILE_DATASTORE}")
    credentials = str(section.get("credentialType") or "None")
    if credentials not in ("AccountKey", "Sas", "None"):
        raise InvalidError(f"Unknown credentials of a datastore: '{credentials}'")
    return DatastoreSpec(
        kind=kind,
        account=section.get("accountName"),
        container=section.get("containerName"),
        endpoint=section.get("endpoint"),
        protocol=section.get("protocol"),
        credentials=credentials,
        secret=section.get("credential"),
        access_identity=section.get("serviceDataAccessAuthIdentity"),
        tags=given.get("tags"),
    )
