"""Datastores with their credentials, data assets, and outputs of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote

from aml_train.azure.blob.address import Asset, DatastorePath, JobOutput, Remote, Scope, parse_address
from aml_train.azure.blob.storage import Access, AzureBlobs
from aml_train.azure.workspace import AzureRest
from aml_train.config.yaml.shapes import nearest
from aml_train.core.answers import Answer, split
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.jobs.workspace import no_job

_API: Final = {"api-version": "2024-10-01-preview"}
_ARTIFACTS: Final = frozenset({"default", "artifacts"})
_TYPES: Final = ("uri_folder", "uri_file", "mltable")


@dataclass(frozen=True, kw_only=True)
class DatastoreView:
    """A datastore, for a list."""

    name: str
    kind: str
    place: str
    credentials: str
    default: bool


@dataclass(frozen=True, kw_only=True)
class AssetView:
    """One version of a data asset."""

    name: str
    version: str
    type: str
    uri: str


class DataWorkspace:
    """The data of a workspace.

    Args:
        rest: the workspace, whose sign-in and connections are used.
    """

    def __init__(self, rest: AzureRest) -> None:
        self._rest = rest
        self._opened: dict[str, AzureBlobs] = {}

    def datastores(self) -> Iterator[DatastoreView]:
        """Yield the workspace's datastores."""
        for item in self._rest.items(self._rest.arm("/datastores"), "Listing the datastores", params=_API):
            properties = item.at("properties")
            keys = ("containerName", "filesystem", "fileShareName")
            inner = next((found for key in keys if (found := properties.optional_text(key))), None)
            yield DatastoreView(
                name=item.text("name"),
                kind=properties.text("datastoreType"),
                place="/".join(part for part in (properties.optional_text("accountName"), inner) if part),
                credentials=properties.optional_text("credentials.credentialsType") or "None",
                default=properties.flag("isDefault"),
            )

    def default_datastore(self) -> str:
        """Return the name of the workspace's default datastore."""
        params = {**_API, "isDefault": "true", "count": "1"}
        for item in self._rest.items(
            self._rest.arm("/datastores"), "Looking for the default datastore", params=params
        ):
            return item.text("name")
        raise ServiceError(f"The workspace {self._rest.workspace.name} has no default datastore.")

    def address(self, datastore: str, path: str) -> str:
        """Return the long address of a path in a datastore."""
        place = self._rest.workspace
        return (
            f"azureml://subscriptions/{place.subscription_id}/resourcegroups/{place.resource_group}"
            f"/workspaces/{place.name}/datastores/{datastore}/paths/{path}"
        )

    def locate(self, address: Remote) -> DatastorePath:
        """Return where in a datastore the address leads.

        Raises:
            InvalidError: it is another workspace's.
            ServiceError: the asset or job does not exist, or is elsewhere than in a datastore.
        """
        self._check_scope(address.scope)
        match address:
            case DatastorePath():
                return address
            case Asset():
                return self.follow(self.asset(address).uri, f"The data asset {address.name}")
            case JobOutput():
                return self._job_output(address)

    def storage(self, datastore: str) -> AzureBlobs:
        """Return the container of a datastore, signed in to.

        Raises:
            ServiceError: its credentials may not be read.
            InvalidError: there is no such datastore, or it is no Blob storage.
        """
        if datastore not in self._opened:
            self._opened[datastore] = self._open(self.access(datastore))
        return self._opened[datastore]

    def _open(self, access: Access) -> AzureBlobs:
        return AzureBlobs(access, self._rest.credential, self._rest.session)

    def asset(self, address: Asset) -> AssetView:
        """Return the version of a data asset that is meant.

        Raises:
            InvalidError: it is not there.
        """
        version = address.version or self._latest(address.name)
        what = f"Looking for the data asset {address.name}:{version}"
        url = self._rest.arm(f"/data/{quote(address.name)}/versions/{quote(version)}")
        found = self._rest.read(url, what, params=_API)
        if found is None:
            raise InvalidError(
                f"There is no data asset {address.name}:{version} in the workspace {self._rest.workspace.name}.",
                hint=f"Versions: aml-train data ls azureml:{address.name}; or register it: aml-train data upload … --name {address.name}",
            )
        uri = found.optional_text("properties.dataUri") or ""
        return AssetView(name=address.name, version=version, type=found.text("properties.dataType"), uri=uri)

    def has_asset(self, name: str, version: str) -> bool:
        """Return whether that version is registered."""
        url = self._rest.arm(f"/data/{quote(name)}/versions/{quote(version)}")
        return self._rest.read(url, f"Looking for the data asset {name}:{version}", params=_API) is not None

    def next_version(self, name: str) -> str:
        """Return the version that the next registration takes, as azure-ai-ml chooses it."""
        found = self._container(name)
        return (None if found is None else found.literal("nextVersion")) or "1"

    def register(self, name: str, version: str, *, type_: str, where: DatastorePath) -> AssetView:
        """Register the data at *where* as a data asset; repeating that is no error.

        Raises:
            ServiceError: that version holds something else, or the service refuses.
        """
        uri = self.address(where.datastore, where.path)
        body = {"properties": {"dataType": type_, "dataUri": uri, "isAnonymous": False, "isArchived": False}}
        what = f"Registering the data asset {name}:{version}"
        url = self._rest.arm(f"/data/{quote(name)}/versions/{quote(version)}")
        self._rest.need("PUT", url, what, params=_API, body=body)
        return AssetView(name=name, version=version, type=type_, uri=uri)

    def _latest(self, name: str) -> str:
        found = self._container(name)
        latest = None if found is None else found.literal("latestVersion")
        if not latest:
            raise InvalidError(
                f"There is no data asset {name} in the workspace {self._rest.workspace.name}.",
                hint=f"Register it: aml-train data upload … --name {name}",
            )
        return latest

    def _container(self, name: str) -> Answer | None:
        found = self._rest.read(
            self._rest.arm(f"/data/{quote(name)}"), f"Looking for the data asset {name}", params=_API
        )
        return None if found is None else found.at("properties")

    def _job_output(self, address: JobOutput) -> DatastorePath:
        found = self._rest.find_job(address.job)
        if found is None:
            raise no_job(self._rest.tagged_jobs, address.job)
        if not found.has("properties"):
            return self._node_output(address)
        outputs = dict(found.members("properties.outputs"))
        name = "default" if address.output in _ARTIFACTS else address.output
        if name not in outputs:
            known = ", ".join(sorted(outputs)) or "none"
            raise ServiceError(
                f"The job {address.job} has no output {address.output!r}.", hint=f"Its outputs are: {known}."
            )
        uri = outputs[name].optional_text("uri") or (
            # The place of an output whose job does not name one.
            f"azureml://datastores/{self.default_datastore()}/paths/azureml/{address.job}/{name}/"
        )
        base = self.follow(uri, f"The output {address.output} of the job {address.job}")
        path = f"{base.path.rstrip('/')}/{address.path}" if address.path or base.path else ""
        return DatastorePath(datastore=base.datastore, path=path.lstrip("/"))

    def _node_output(self, address: JobOutput) -> DatastorePath:
        """Return the place of an output of a pipeline's node.

        Azure Resource Manager does not show it. It is a data asset that run history names, and that azure-ai-ml resolves in the same way (1.35.1,
        ``operations/_job_ops_helper.py``, ``get_job_output_uris_from_dataplane``).
        """
        what = f"Looking for the output {address.output} of {address.job}"
        run = self._rest.read(self._rest.history(f"/runs/{quote(address.job)}"), what)
        outputs = {} if run is None else dict(run.members("outputs"))
        if address.output not in outputs:
            known = ", ".join(sorted(outputs)) or "none"
            raise ServiceError(
                f"The node {address.job} has no output {address.output!r}.", hint=f"Its outputs are: {known}."
            )
        asset = outputs[address.output].text("assetId")
        url = self._rest.data_assets("/dataversion/batchGetResolvedUris")
        answer = self._rest.ask("POST", url, what, body={"values": [asset]})
        uris = {} if answer is None else {key: value.text("uri") for key, value in answer.members("values")}
        if asset not in uris:
            raise ServiceError(f"{what}: AzureML does not say where {asset} is.")
        base = self.follow(uris[asset], f"The output {address.output} of {address.job}")
        return DatastorePath(datastore=base.datastore, path=f"{base.path.rstrip('/')}/{address.path}".strip("/"))

    def follow(self, uri: str, what: str) -> DatastorePath:
        """Return where in a datastore *uri* leads, which *what* names.

        Raises:
            InvalidError: it is another workspace's.
            ServiceError: it is elsewhere than in a datastore.
        """
        if uri.startswith("https://"):
            return self._by_url(uri, what)
        try:
            found = parse_address(uri)
        except InvalidError as error:
            raise ServiceError(f"{what} is at an address that is not a datastore's: {error.message}") from error
        if not isinstance(found, DatastorePath):
            raise ServiceError(f"{what} is at {uri}, which is no path in a datastore.")
        self._check_scope(found.scope)
        return found

    def _by_url(self, uri: str, what: str) -> DatastorePath:
        """Return the datastore path for an address in Blob storage."""
        parts = split(uri)
        if parts is None:
            raise ServiceError(f"{what} has an address that is none.")
        account = (parts.hostname or "").partition(".")[0]
        container, _, path = parts.path.lstrip("/").partition("/")
        for one in self.datastores():
            if one.kind == "AzureBlob" and one.place == f"{account}/{container}":
                return DatastorePath(datastore=one.name, path=path)
        raise ServiceError(
            f"{what} is at {parts.scheme}://{parts.netloc}{parts.path}, and no datastore stands for that container.",
            hint="Register the container as a datastore.",
        )

    def storage_of(self, uri: str, what: str) -> tuple[AzureBlobs, str]:
        """Return the container of an address in Blob storage, and the path in it.

        Code snapshots have separate containers, for which no datastore is registered; they are in the account of the default
        datastore, whose credentials are used.

        Raises:
            ServiceError: *what* is elsewhere, or the credentials may not be read.
        """
        parts = split(uri)
        default = self.default_datastore()
        access = self.access(default)
        if parts is None or f"{parts.scheme}://{parts.netloc}" != access.account_url.rstrip("/"):
            where = self.follow(uri, what)
            return self.storage(where.datastore), where.path
        container, _, path = parts.path.lstrip("/").partition("/")
        if container == access.container:
            return self.storage(default), path
        return self._open(replace(access, container=container)), path

    def access(self, datastore: str) -> Access:
        """Return the credentials of a datastore's container; raises as :meth:`storage`."""
        url = self._rest.arm(f"/datastores/{quote(datastore)}")
        found = self._rest.read(url, f"Looking for the datastore {datastore}", params=_API)
        if found is None:
            known = tuple(one.name for one in self.datastores())
            near = nearest(datastore, known)
            raise InvalidError(
                f"There is no datastore {datastore!r} in the workspace {self._rest.workspace.name}.",
                hint=f"Did you mean {near}?" if near else f"There are: {', '.join(known)}.",
            )
        properties = found.at("properties")
        if (type_ := properties.text("datastoreType")) != "AzureBlob":
            raise InvalidError(
                f"The datastore {datastore!r} is of type {type_}: only AzureBlob is supported.",
                hint="A Data Lake Gen2 account answers as Blob storage, too: register its file system as an azure_blob datastore.",
            )
        kind = properties.optional_text("credentials.credentialsType") or "None"
        secrets = self._secrets(datastore) if kind != "None" else None
        account_url = (
            f"{properties.optional_text('protocol') or 'https'}://{properties.text('accountName')}.blob."
            f"{properties.optional_text('endpoint') or 'core.windows.net'}"
        )
        if split(account_url) is None:
            raise found.fail("names an account whose address is none")
        return Access(
            account_url=account_url,
            container=properties.text("containerName"),
            key=secrets.optional_text("key") if secrets is not None else None,
            sas=(secrets.optional_text("sasToken") or "").lstrip("?") or None if secrets is not None else None,
        )

    def _secrets(self, datastore: str) -> Answer:
        what = f"Asking for the credentials of the datastore {datastore}"
        url = self._rest.arm(f"/datastores/{quote(datastore)}/listSecrets")
        return self._rest.need("POST", url, what, params=_API, body={})

    def _check_scope(self, scope: Scope | None) -> None:
        here = self._rest.workspace
        if scope is None:
            return
        meant = (scope.subscription_id, scope.resource_group, scope.workspace)
        own = (here.subscription_id, here.resource_group, here.name)
        if [part.lower() for part in meant] != [part.lower() for part in own]:
            raise InvalidError(
                f"The address is in the workspace {scope.workspace} (resource group {scope.resource_group}), and the target"
                f" is the workspace {here.name} (resource group {here.resource_group}).",
                hint="Name that workspace's target with --target.",
            )


def signed_place(rest: AzureRest, address: str) -> tuple[AzureBlobs, str]:
    """Return the container of an address with a shared access signature, and the path in it; the address is shown nowhere.

    Raises:
        ServiceError: it is none.
    """
    parts = split(address)
    if parts is None:
        raise ServiceError("AzureML or a registry names an address to upload to that is none.")
    container, _, path = parts.path.lstrip("/").partition("/")
    access = Access(account_url=f"{parts.scheme}://{parts.netloc}", container=container, sas=parts.query)
    return AzureBlobs(access, rest.credential, rest.session), unquote(path)


def asset_type(given: str | None, *, single: bool, has_mltable: bool) -> str:
    """Return the type to register: what is given, else a file's or a folder's.

    Raises:
        InvalidError: what is given does not fit.
    """
    type_ = given or ("uri_file" if single else "uri_folder")
    if type_ not in _TYPES:
        raise InvalidError(f"--type {type_}: there is no such type.", hint=f"Known are {', '.join(_TYPES)}.")
    if single != (type_ == "uri_file"):
        what = "a single file" if single else "a folder"
        raise InvalidError(f"--type {type_} does not fit {what}.")
    if type_ == "mltable" and not has_mltable:
        raise InvalidError("--type mltable: there is no file MLTable in the folder.")
    return type_
