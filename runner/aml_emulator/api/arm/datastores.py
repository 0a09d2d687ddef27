"""Datastores in Azure Resource Manager's forms, such as ``AzureBlobDatastore``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aml_emulator.api.routing import Answers, Call, Reply, Route
from aml_emulator.api.shapes import created, cut, page, resource
from aml_emulator.context import Context
from aml_emulator.domain.datastores import (
    DATASTORE_PLACES,
    DATASTORE_SECRETS,
    STORAGE_ENDPOINT,
    STORAGE_PROTOCOL,
    DatastoreSpec,
    credentials_of,
    delete_datastore,
    is_default_datastore,
    register_datastore,
)
from aml_emulator.domain.errors import InvalidError
from aml_emulator.schema import OBJECT, TEXT, WORD, WORDS, Fields
from aml_emulator.store.datastores import Datastore

MAX_PAGE: Final = 30
"""How many a page has if the client does not say; azure-ai-ml's default of ``count``."""

SIGNS_IN_AS: Final = ("authorityUrl", "resourceUrl", "clientId", "tenantId", "thumbprint")
"""The fields of credentials that are no secret, of ``ServicePrincipal`` and ``Certificate``."""

DATASTORE = Fields(
    {
        "datastoreType": WORD,
        "accountName": WORD,
        **dict.fromkeys(DATASTORE_PLACES.values(), WORD),
        "endpoint": WORD,
        "protocol": WORD,
        "description": TEXT,
        "tags": WORDS,
        "properties": WORDS,
        "serviceDataAccessAuthIdentity": TEXT,
        "credentials": Fields({"credentialsType": TEXT, "secrets": OBJECT, **dict.fromkeys(SIGNS_IN_AS, TEXT)}),
    }
)


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of datastores."""
    datastores = Datastores(context)
    return (
        Route("GET", "{WS}/datastores", datastores.list),
        Route("GET", "{WS}/datastores/{name}", datastores.get),
        Route("PUT", "{WS}/datastores/{name}", datastores.put),
        Route("DELETE", "{WS}/datastores/{name}", datastores.delete),
        Route("POST", "{WS}/datastores/{name}/listSecrets", datastores.secrets),
    )


class Datastores(Answers):
    """Answers for the workspace's datastores."""

    def list(self, call: Call) -> dict[str, Any]:
        """Return the datastores, all or filtered by the query, in pages."""
        names = {name.lower() for name in call.query.getlist("names")}
        text = call.option("searchText").lower()
        found = [one for one in self._context.all_datastores() if text in one.name.lower()]
        if call.option("isDefault").lower() == "true":
            found = found[:1]
        elif names:
            found = [one for one in found if one.name.lower() in names]
        shown, following = cut(found, call.integer("$skip", 0), call.integer("count", MAX_PAGE, low=1))
        return page(call, [self._view(one) for one in shown], following)

    def get(self, call: Call) -> dict[str, Any]:
        """Return one datastore."""
        return self._view(self._context.datastore(call.params["name"]))

    def put(self, call: Call) -> Reply:
        """Register a datastore, or change its credentials, description and tags."""
        given = call.json(Fields({"properties": DATASTORE})).get("properties")
        if not isinstance(given, dict):
            raise InvalidError("A datastore's body has 'properties'.")
        validate = call.query.get("skipValidation", "false").lower() != "true"
        stored, new = register_datastore(self._context, call.params["name"], _spec(given), validate=validate)
        return created(call, self._view(stored), new=new)

    def delete(self, call: Call) -> Reply:
        """Delete a datastore; its blobs stay."""
        return Reply(status=200 if delete_datastore(self._context, call.params["name"]) else 204)

    def secrets(self, call: Call) -> dict[str, Any]:
        """Return the secret of the credentials; 400 for a datastore that has none."""
        datastore = self._context.datastore(call.params["name"])
        kind = credentials_of(datastore)
        if kind not in DATASTORE_SECRETS:
            raise InvalidError(f"No secrets for credentials of type {kind}.")
        return {**datastore.secret, "secretsType": kind}

    def _view(self, datastore: Datastore) -> dict[str, Any]:
        identity = self._context.identity
        return resource(
            f"{identity.workspace_arm_id}/datastores/{datastore.name}",
            "workspaces/datastores",
            {
                "intellectualProperty": None,
                "datastoreType": datastore.kind,
                "accountName": identity.storage_account,
                DATASTORE_PLACES[datastore.kind]: datastore.container,
                "endpoint": STORAGE_ENDPOINT,
                "protocol": STORAGE_PROTOCOL,
                "isDefault": is_default_datastore(self._context, datastore),
                "subscriptionId": identity.subscription_id,
                "resourceGroup": identity.resource_group,
                **datastore.properties,
            },
            created=datastore.created,
            modified=datastore.modified,
        )


def _spec(given: Mapping[str, Any]) -> DatastoreSpec:
    """Return the values of a datastore in a body."""
    credentials = given.get("credentials")
    credentials = credentials if isinstance(credentials, dict) else {}
    kind, secrets = credentials.get("credentialsType"), credentials.get("secrets")
    type_ = str(given.get("datastoreType") or "")
    return DatastoreSpec(
        kind=type_,
        account=given.get("accountName"),
        container=given.get(DATASTORE_PLACES.get(type_, "")),
        endpoint=given.get("endpoint"),
        protocol=given.get("protocol"),
        credentials=kind,
        signs_in_as={key: credentials[key] for key in SIGNS_IN_AS if credentials.get(key) is not None},
        secret=secrets.get(DATASTORE_SECRETS.get(str(kind), "")) if isinstance(secrets, dict) else None,
        access_identity=given.get("serviceDataAccessAuthIdentity"),
        description=given.get("description"),
        tags=given.get("tags"),
        properties=given.get("properties"),
    )
