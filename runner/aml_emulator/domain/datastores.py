"""Datastores: references to containers of the storage account, with credentials.

As with AzureML, a datastore is a reference: registering one makes no container, and deleting one deletes no blob. The
storage is checked only if the client does not skip that, and azure-ai-ml always does
(``DatastoreOperations.create_or_update``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aml_emulator.domain.errors import ConflictError, InvalidError, NotSupportedError
from aml_emulator.domain.workspace import Workspace
from aml_emulator.store.datastores import Datastore

BLOB_DATASTORE: Final = "AzureBlob"
FILE_DATASTORE: Final = "AzureFile"
LAKE_DATASTORE: Final = "AzureDataLakeGen2"
STORAGE_ENDPOINT: Final = "core.windows.net"
STORAGE_PROTOCOL: Final = "https"

DATASTORE_PLACES: Final[Mapping[str, str]] = {
    BLOB_DATASTORE: "containerName",
    FILE_DATASTORE: "fileShareName",
    LAKE_DATASTORE: "filesystem",
}
"""Kind of datastore → the field of its place in the storage account."""

DATASTORE_SECRETS: Final[Mapping[str, str]] = {
    "AccountKey": "key",
    "Sas": "sasToken",
    "ServicePrincipal": "clientSecret",
    "Certificate": "certificate",
}
"""Kind of credentials → the field of its secret. ``None`` has none: users sign in themselves."""

ALLOWED_CREDENTIALS: Final[Mapping[str, tuple[str, ...]]] = {
    BLOB_DATASTORE: ("AccountKey", "Sas", "None"),
    FILE_DATASTORE: ("AccountKey", "Sas", "None"),
    LAKE_DATASTORE: ("ServicePrincipal", "Certificate", "None"),
}

CREDENTIALS: Final = (*DATASTORE_SECRETS, "None")
_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,254}")
_CONTAINER: Final = re.compile(r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")


@dataclass(frozen=True, kw_only=True)
class DatastoreSpec:
    """A datastore to register, in the values of a request.

    Attributes:
        credentials: the kind of credentials, None if the request has none.
        signs_in_as: the fields of the credentials that are no secret.
        secret: the key or the SAS of that kind.
        access_identity: the identity by which data is read in the service.
    """

    kind: str
    account: Any = None
    container: Any = None
    endpoint: Any = None
    protocol: Any = None
    credentials: Any = None
    signs_in_as: Mapping[str, Any] = field(default_factory=dict)
    secret: Any = field(default=None, repr=False)
    access_identity: str | None = None
    description: str | None = None
    tags: Mapping[str, Any] | None = None
    properties: Mapping[str, Any] | None = None


def register_datastore(
    workspace: Workspace,
    name: str,
    spec: DatastoreSpec,
    *,
    validate: bool,
    create_container: bool = False,
    change: bool = True,
) -> tuple[Datastore, bool]:
    """Register or change a datastore; return it and whether it is new.

    Args:
        name: its name, in any case of letters.
        validate: whether its container must exist.
        create_container: whether to create its container.
        change: whether there may be a datastore of that name.

    Raises:
        DomainError: the values do not fit, or contradict the datastore of that name.
    """
    if not _NAME.fullmatch(name):
        raise InvalidError(f"The datastore name '{name}' is invalid: letters, digits, '_' and '-', at most 255.")
    container = _container(workspace, spec, _known(workspace, name, change=change))
    secret = _secret(spec)
    if create_container and spec.account == workspace.identity.storage_account:
        workspace.blobs.create_container(container)
    local = spec.account == workspace.identity.storage_account
    if validate and local and container not in workspace.blobs.containers():
        raise InvalidError(
            f"The container '{container}' was not found in the storage account"
            f" '{workspace.identity.storage_account}'. Create it, or register with skipValidation=true."
        )
    properties = {
        **({} if local and spec.kind == BLOB_DATASTORE else _place(spec)),
        "description": spec.description,
        "tags": spec.tags,
        "properties": spec.properties,
        "serviceDataAccessAuthIdentity": spec.access_identity or "None",
        "credentials": {"credentialsType": spec.credentials, **spec.signs_in_as},
    }
    with workspace.store.transaction():
        # Again: the requests to storage took their time.
        known = _known(workspace, name, change=change)
        container = _container(workspace, spec, known)
        stored = workspace.store.datastores.put(
            known.name if known else name, container=container, properties=properties, secret=secret
        )
    return stored, known is None


def delete_datastore(workspace: Workspace, name: str) -> bool:
    """Delete a datastore, and none of its blobs; return whether it existed.

    Raises:
        InvalidError: it belongs to the workspace.
    """
    if name.lower() in (one.lower() for one in workspace.own_containers):
        raise InvalidError(f"The datastore '{name}' belongs to the workspace and cannot be deleted.")
    return workspace.store.datastores.delete(name)


def credentials_of(datastore: Datastore) -> str:
    """Return the kind of a datastore's credentials."""
    return str(datastore.properties["credentials"]["credentialsType"])


def is_default_datastore(workspace: Workspace, datastore: Datastore) -> bool:
    """Return whether this is the workspace's default datastore."""
    return datastore.name == next(iter(workspace.own_containers))


def _known(workspace: Workspace, name: str, *, change: bool) -> Datastore | None:
    """Return the datastore of a name or None; refuse one that must not exist."""
    known = workspace.find_datastore(name)
    if known is not None and not change:
        # azureml-core recognises by these words that it has to update, if it may overwrite.
        raise InvalidError(f"Another datastore with the same name already exists: '{name}'.", reasons=())
    return known


def _place(spec: DatastoreSpec) -> dict[str, Any]:
    """Return the fields of a place that may be in any account.

    Such datastores are references that are read back, as sdk/ml/azure-ai-ml/tests/recordings/datastore/e2etests of
    azure-sdk-for-python has them.
    """
    return {
        "datastoreType": spec.kind,
        "accountName": spec.account,
        "endpoint": spec.endpoint or STORAGE_ENDPOINT,
        "protocol": spec.protocol or STORAGE_PROTOCOL,
    }


def _container(workspace: Workspace, spec: DatastoreSpec, known: Datastore | None) -> str:
    """Return the container of a datastore, after its place was checked."""
    if spec.kind in ("AzureDataLakeGen1", "OneLake"):
        raise NotSupportedError(
            f"datastores of type {spec.kind}: register {LAKE_DATASTORE} or {BLOB_DATASTORE} over a copy of the data"
        )
    if spec.kind not in DATASTORE_PLACES:
        raise InvalidError(f"The datastoreType '{spec.kind}' is unknown.")
    if not spec.account:
        raise InvalidError("A datastore has an accountName.")
    own = workspace.identity.storage_account
    if spec.kind == BLOB_DATASTORE and spec.account == own:
        _check_own_place(spec)
    container, place = str(spec.container or ""), DATASTORE_PLACES[spec.kind]
    if not _CONTAINER.fullmatch(container):
        raise InvalidError(f"The {place} '{container}' is not the name of a container.")
    if known is not None and (known.kind, known.account or own) != (spec.kind, spec.account):
        raise ConflictError(
            f"The datastore '{known.name}' is of type {known.kind} in '{known.account or own}', which cannot be"
            " changed. Use another name, or delete it first."
        )
    if known is not None and known.container != container:
        raise ConflictError(
            f"The datastore '{known.name}' stands for the container '{known.container}', which cannot be changed."
            " Use another name, or delete it first."
        )
    return container


def _check_own_place(spec: DatastoreSpec) -> None:
    """Refuse another address of the workspace's own account than the one that it has."""
    for key, given, only in (
        ("endpoint", spec.endpoint, STORAGE_ENDPOINT),
        ("protocol", spec.protocol, STORAGE_PROTOCOL),
    ):
        if str(given or only) != only:
            raise NotSupportedError(f"datastores with the {key} '{given}'; only '{only}'")


def _secret(spec: DatastoreSpec) -> dict[str, Any]:
    """Return the secret of a datastore's credentials."""
    kind = spec.credentials
    if kind not in CREDENTIALS:
        raise InvalidError(f"A datastore's credentials have a credentialsType: {', '.join(CREDENTIALS)}.")
    if kind == "None":
        return {}
    if kind not in ALLOWED_CREDENTIALS[spec.kind]:
        allowed = ", ".join(ALLOWED_CREDENTIALS[spec.kind])
        raise NotSupportedError(f"datastores of type {spec.kind} with credentials of type {kind}; only {allowed}")
    secret = spec.secret
    if not isinstance(secret, str) or not secret:
        raise InvalidError(f"Credentials of type {kind} need secrets.{DATASTORE_SECRETS[kind]}.")
    return {DATASTORE_SECRETS[kind]: secret.removeprefix("?") if kind == "Sas" else secret}
