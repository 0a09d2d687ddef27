"""Datastores: references to containers of the one storage account, with a key, a SAS, or the caller's own identity.

As with AzureML, a datastore is a reference: registering one makes no container, and deleting one deletes no blob. What is
checked of the storage is checked only where the client does not ask to skip it, and azure-ai-ml always does
(``DatastoreOperations.create_or_update``). Shapes are those of ``AzureBlobDatastore`` in its generated client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aml_emulator.api.bodies import OBJECT, TEXT, WORD, WORDS, Fields
from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.shapes import page, resource
from aml_emulator.context import Services
from aml_emulator.errors import NotSupportedError, ServiceError, bad_request
from aml_emulator.store.datastores import Datastore

MAX_PAGE: Final = 30
"""How many a page has where the client does not say; azure-ai-ml's default of ``count``."""

OTHER_KINDS: Final = ("AzureDataLakeGen1", "AzureDataLakeGen2", "AzureFile", "OneLake")
SECRETS: Final[Mapping[str, str]] = {"AccountKey": "key", "Sas": "sasToken"}
"""Kind of credentials → the field of its secret. ``None`` has none: whoever uses the datastore signs in."""

CREDENTIALS: Final = (*SECRETS, "None", "ServicePrincipal", "Certificate")
_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,254}")
_CONTAINER: Final = re.compile(r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")


DATASTORE = Fields(
    {
        "datastoreType": WORD,
        "accountName": WORD,
        "containerName": WORD,
        "endpoint": WORD,
        "protocol": WORD,
        "description": TEXT,
        "tags": WORDS,
        "properties": WORDS,
        "serviceDataAccessAuthIdentity": TEXT,
        "credentials": Fields({"credentialsType": TEXT, "secrets": OBJECT}),
    }
)


def routes(services: Services) -> Sequence[Route]:
    """Return the routes of datastores."""
    datastores = Datastores(services)
    return (
        Route(method="GET", path="{WS}/datastores", handler=datastores.list),
        Route(method="GET", path="{WS}/datastores/{name}", handler=datastores.get),
        Route(method="PUT", path="{WS}/datastores/{name}", handler=datastores.put),
        Route(method="DELETE", path="{WS}/datastores/{name}", handler=datastores.delete),
        Route(method="POST", path="{WS}/datastores/{name}/listSecrets", handler=datastores.secrets),
    )


class Datastores:
    """Answers for the workspace's datastores."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def list(self, call: Call) -> dict[str, Any]:
        """Return the datastores, in pages: all, the default one, or those that ``names`` or ``searchText`` say."""
        query = {key.lower(): value for key, value in call.query.items()}
        names = {name.lower() for name in call.query.getlist("names")}
        text = query.get("searchtext", "").lower()
        found = [one for one in self._services.all_datastores() if text in one.name.lower()]
        if query.get("isdefault", "").lower() == "true":
            found = found[:1]
        elif names:
            found = [one for one in found if one.name.lower() in names]
        skip, size = call.integer("$skip", 0), call.integer("count", MAX_PAGE, low=1)
        shown = [self._view(one) for one in found[skip : skip + size]]
        return page(call, shown, offset=skip + size, more=len(found) > skip + size)

    def get(self, call: Call) -> dict[str, Any]:
        """Return one datastore."""
        return self._view(self._services.datastore(call.params["name"]))

    def put(self, call: Call) -> Reply:
        """Register a datastore, or change its credentials, description and tags."""
        name = call.params["name"]
        if not _NAME.fullmatch(name):
            raise bad_request(f"The datastore name '{name}' is invalid: letters, digits, '_' and '-', at most 255.")
        given = call.json(Fields({"properties": DATASTORE})).get("properties")
        if not isinstance(given, dict):
            raise bad_request("A datastore's body has 'properties'.")
        known = next((one for one in self._services.all_datastores() if one.name.lower() == name.lower()), None)
        container = self._container(given, known)
        kind, secret = _credentials(given.get("credentials"))
        if call.query.get("skipValidation", "false").lower() != "true":
            self._validate(container)
        stored = self._services.store.datastores.put(
            known.name if known else name,
            container=container,
            properties={
                "description": given.get("description"),
                "tags": given.get("tags") or {},
                "properties": given.get("properties") or {},
                "serviceDataAccessAuthIdentity": given.get("serviceDataAccessAuthIdentity") or "None",
                "credentials": {"credentialsType": kind},
            },
            secret=secret,
        )
        return Reply(status=200 if known else 201, value=self._view(stored))

    def delete(self, call: Call) -> Reply:
        """Forget a datastore; its blobs stay."""
        name = call.params["name"]
        if name.lower() in (one.lower() for one in self._services.own_containers):
            raise bad_request(f"The datastore '{name}' belongs to the workspace and cannot be deleted.")
        return Reply(status=200 if self._services.store.datastores.delete(name) else 204)

    def secrets(self, call: Call) -> dict[str, Any]:
        """Return the key or the SAS; 400 for a datastore that has none."""
        datastore = self._services.datastore(call.params["name"])
        kind = str(datastore.properties["credentials"]["credentialsType"])
        if kind not in SECRETS:
            raise bad_request(f"No secrets for credentials of type {kind}.")
        return {**datastore.secret, "secretsType": kind}

    def _container(self, given: Mapping[str, Any], known: Datastore | None) -> str:
        """Return the container that is meant, after everything that says where it is was looked at."""
        identity = self._services.identity
        kind = str(given.get("datastoreType") or "")
        if kind in OTHER_KINDS:
            raise NotSupportedError(f"datastores of type {kind}; only AzureBlob")
        if kind != "AzureBlob":
            raise bad_request(f"The datastoreType '{kind}' is unknown.")
        account, container = given.get("accountName"), str(given.get("containerName") or "")
        if account != identity.storage_account:
            raise NotSupportedError(
                f"datastores over the storage account '{account}': '{identity.storage_account}' is the only one here"
            )
        for key, only in (("endpoint", "core.windows.net"), ("protocol", "https")):
            if str(given.get(key) or only) != only:
                raise NotSupportedError(f"datastores with the {key} '{given[key]}'; only '{only}'")
        if not _CONTAINER.fullmatch(container):
            raise bad_request(f"The containerName '{container}' is not the name of a container.")
        if known is not None and known.container != container:
            raise ServiceError(
                409,
                "UserError",
                f"The datastore '{known.name}' stands for the container '{known.container}', which cannot be changed."
                " Use another name, or delete it first.",
                inner=("Conflict",),
            )
        return container

    def _validate(self, container: str) -> None:
        if container not in self._services.blobs.containers():
            raise bad_request(
                f"The container '{container}' was not found in the storage account"
                f" '{self._services.identity.storage_account}'. Create it, or register with skipValidation=true."
            )

    def _view(self, datastore: Datastore) -> dict[str, Any]:
        identity = self._services.identity
        return resource(
            f"{identity.workspace_arm_id}/datastores/{datastore.name}",
            "workspaces/datastores",
            {
                "datastoreType": "AzureBlob",
                "accountName": identity.storage_account,
                "containerName": datastore.container,
                "endpoint": "core.windows.net",
                "protocol": "https",
                "isDefault": datastore.name == next(iter(self._services.own_containers)),
                "subscriptionId": identity.subscription_id,
                "resourceGroup": identity.resource_group,
                **datastore.properties,
            },
            created=datastore.created,
            modified=datastore.modified,
        )


def _credentials(given: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of credentials and their secret."""
    if not isinstance(given, dict) or given.get("credentialsType") not in CREDENTIALS:
        raise bad_request(f"A datastore's credentials have a credentialsType: {', '.join(CREDENTIALS)}.")
    kind = str(given["credentialsType"])
    if kind == "None":
        return kind, {}
    if kind not in SECRETS:
        raise NotSupportedError(f"datastores with credentials of type {kind}; only {', '.join(SECRETS)} and None")
    secrets = given.get("secrets")
    value = secrets.get(SECRETS[kind]) if isinstance(secrets, dict) else None
    if not isinstance(value, str) or not value:
        raise bad_request(f"Credentials of type {kind} need secrets.{SECRETS[kind]}.")
    return kind, {SECRETS[kind]: value.removeprefix("?") if kind == "Sas" else value}
