"""Checks of the registry, the identity's and the compute's roles, and the storage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import requests

from aml_train.azure.acr import AcrLogin, find_registry, http_session, location_of, password_of, pull_doubt
from aml_train.azure.credentials import claims_of
from aml_train.azure.doctor.probe import ML, Probe
from aml_train.azure.roles import assignment, missing
from aml_train.core.answers import REACH, Answer
from aml_train.core.diagnosis import Outcome, failed, misconfigured, ok, skipped, warning
from aml_train.core.errors import ServiceError
from aml_train.core.http_client import answer_of, exchange
from aml_train.image.registry.auth import is_acr

_REGISTRIES: Final = "2023-07-01"
_TIMEOUT: Final = (10.0, 20.0)
#: What a build by ACR Tasks does, by the registry's operations
#: (https://learn.microsoft.com/azure/role-based-access-control/permissions/containers).
TASK_ACTIONS: Final = tuple(
    f"Microsoft.ContainerRegistry/registries/{one}"
    for one in (
        "read",
        "listBuildSourceUploadUrl/action",
        "scheduleRun/action",
        "runs/read",
        "runs/listLogSasUrl/action",
        "runs/cancel/action",
    )
)
_STORAGE_SCOPE: Final = "https://storage.azure.com/.default"
#: https://learn.microsoft.com/rest/api/storageservices/versioning-for-the-azure-storage-services: with tokens of Entra ID since 2017-11-09.
_STORAGE_VERSION: Final = "2021-12-02"
#: Storage's codes for a network that it does not admit:
#: https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes.
_NOT_FROM_HERE: Final = frozenset(
    {"AuthorizationFailure", "AuthorizationSourceIPMismatch", "PublicAccessNotPermitted"}
)
#: https://learn.microsoft.com/azure/storage/common/storage-account-overview#storage-account-name.
_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}")


def check_registry(probe: Probe) -> Outcome:
    """Find the registry that images are pushed to."""
    place, target = probe.wanted.workspace, probe.wanted.target
    if target.registry:
        probe.registry_host = target.registry
        probe.registry_id = _id_of(probe, target.registry)
        return ok(f"{target.registry}, of the configuration")
    resource = (
        probe.resource.optional_text("properties.containerRegistry") if probe.resource is not None else None
    ) or ""
    make = (
        f"az acr create --name REGISTRY --sku Standard {probe.at_group()}; then az ml workspace update --name {place.name} "
        f"{probe.at_group()} --container-registry REGISTRY_ID; or write {probe.key('registry')}."
    )
    if not resource:
        found = f"the workspace {place.name} has no registry"
        # AzureML makes one with the first environment that it builds.
        return failed(found, make) if probe.wanted.repository is not None else skipped(f"{found}; no image is built")
    reply = probe.get(resource, f"Looking for the registry of the workspace {place.name}", _REGISTRIES)
    if reply.status == 403:
        command = assignment("Reader", resource, probe.principal, user=probe.is_user)
        return failed(f"the identity may not see {resource}", f"{command}; or write {probe.key('registry')}.")
    if reply.answer is None:
        return failed(f"the workspace's registry is not there ({reply.code or reply.status}): {resource}", make)
    probe.registry_host = reply.answer.text("properties.loginServer")
    probe.registry_id = resource
    return ok(f"{probe.registry_host}, the workspace's")


def _id_of(probe: Probe, host: str) -> str:
    """Return the resource id of a registry; empty if it is not seen."""

    if not is_acr(host):
        return ""
    try:
        found = find_registry(probe.rest(), host)
    except ServiceError:
        return ""
    return "" if found is None else found.optional_text("id") or ""


def check_registry_role(probe: Probe) -> Outcome:
    """Get a token of the registry, which says what the identity may do there."""

    target, host = probe.wanted.target, probe.registry_host
    repository = probe.wanted.repository
    if repository is None:
        return skipped("no image is built")
    if target.registry_user is not None or not is_acr(host):
        return _other_registry(probe, host, repository)
    scope = probe.registry_id or "REGISTRY_ID"
    push = assignment("AcrPush", scope, probe.principal, user=probe.is_user)
    try:
        granted = _granted(probe, host, repository)
    except ServiceError as error:
        if error.transient:
            raise
        return failed(error.message, push)
    if not {"pull", "push"} <= granted:
        allowed = f"it may {', '.join(sorted(granted))}" if granted else "it may nothing there"
        return failed(f"the identity may not push to {host}/{repository}: {allowed}", push)
    if (doubt := _tasks_doubt(probe)) is not None:
        return doubt
    if "delete" not in granted:
        command = assignment("AcrDelete", scope, probe.principal, user=probe.is_user)
        return warning(f"push to {host}/{repository}, not delete: candidates of builds stay there", command)
    return ok(f"pull, push and delete in {host}/{repository}")


def _tasks_doubt(probe: Probe) -> Outcome | None:
    """Return what keeps ACR Tasks from building, or None if nothing does."""
    if not probe.wanted.tasks:
        return None
    scope = probe.registry_id or "REGISTRY_ID"
    command = assignment("Container Registry Tasks Contributor", scope, probe.principal, user=probe.is_user)
    what = "Reading the permissions in the registry"
    known = probe.permissions(probe.registry_id, what) if probe.registry_id else None
    if known is None:
        text = f"the identity may not read its permissions in {probe.registry_host}, where ACR Tasks are to build"
        return warning(text, f"If a build is refused: {command}")
    lacking = missing(known, TASK_ACTIONS)
    if not lacking:
        return None
    named = ", ".join(action.rpartition("registries/")[2] for action in lacking)
    return failed(f"the identity may not build by ACR Tasks of {probe.registry_host}: {named}", command)


def _granted(probe: Probe, host: str, repository: str) -> set[str]:
    """Return the actions in the registry's access token.

    Source: https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md, and the token's claim ``access``
    (https://distribution.github.io/distribution/spec/auth/jwt).
    """
    session = http_session(host, probe.environ)
    token_of = partial(probe.sign_in().token, probe.cloud.registry_scope)
    refresh = AcrLogin(host, token_of, session=session, fetched=probe.fetched)().identity_token
    form = {
        "grant_type": "refresh_token",
        "service": host,
        "scope": f"repository:{repository}:pull,push,delete",
        "refresh_token": refresh,
    }
    url = f"https://{host}/oauth2/token"
    try:
        response = exchange(session, "POST", url, data=form, timeout=_TIMEOUT, allow_redirects=False)
    except requests.RequestException as error:
        raise ServiceError(f"The registry {host} does not answer: {type(error).__name__}", hint=REACH) from error
    if response.status_code in (401, 403):
        return set()

    def fail(problem: str) -> ServiceError:
        return ServiceError(f"The registry {host} gave no token: its answer {response.status_code} {problem}.")

    token = answer_of(response, fail, fail).text("access_token")
    probe.fetched(token)
    return actions_in(claims_of(token), repository)


def actions_in(claims: Mapping[str, Any], repository: str) -> set[str]:
    """Return what a registry's token allows in *repository*. Pure."""
    entries = claims.get("access")
    granted: set[str] = set()
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == repository and isinstance(entry.get("actions"), list):
            granted |= {str(one) for one in entry["actions"]}
    return granted | {"pull", "push", "delete"} if "*" in granted else granted


def _other_registry(probe: Probe, host: str, repository: str) -> Outcome:
    """Read from a registry that is not signed in to by the identity."""
    location = location_of(
        host,
        probe.wanted.target,
        password=password_of(probe.wanted.target, probe.environ),
        sign_in=probe.sign_in(),
        scope=probe.cloud.registry_scope,
        outer=probe.environ,
        listener=lambda _event: None,
        fetched=probe.fetched,
    )
    with location.client() as registry:
        registry.head_manifest(repository, "latest")
    return ok(f"{host} lets {repository} be read; whether it may be pushed to shows at the first push")


def check_pull(probe: Probe) -> Outcome:
    """Check whether the compute may pull from the registry."""

    if not probe.registry_host:
        return skipped("there is no registry")
    if not is_acr(probe.registry_host):
        return skipped(f"{probe.registry_host} is none of Azure's registries")
    doubt = pull_doubt(probe.rest(), probe.registry_host, probe.wanted.compute)
    if doubt is None:
        return ok(f"{probe.wanted.compute_name or 'the job'} may pull from {probe.registry_host}")
    if doubt.command:
        return failed(doubt.reason, doubt.command)
    return warning(
        doubt.reason, "az role assignment list --scope REGISTRY_ID, with an identity that may read role assignments"
    )


def check_storage(probe: Probe) -> Outcome:
    """Read the default datastore's container as this identity."""
    store = _default_datastore(probe)
    if store is None:
        return failed(
            f"the workspace {probe.wanted.workspace.name} shows no default datastore",
            f"az ml datastore list {probe.at_workspace()}",
        )
    account, container = store.optional_text("accountName") or "", store.optional_text("containerName") or ""
    if not _ACCOUNT.fullmatch(account) or not container:
        return warning(
            "the default datastore is no container of Blob storage", f"az ml datastore list {probe.at_workspace()}"
        )
    host = f"{account}.blob.{probe.storage_suffix}"  # our token goes there
    own = (store.optional_text("credentials.credentialsType") or "None") == "None"
    response = _container(probe, host, container)
    code = response.headers.get("x-ms-error-code", "")
    if response.status_code == 200:
        return ok(f"{host}/{container} is reachable and may be read")
    return _judge_storage(probe, f"{host}/{container}", account, response.status_code, code, own=own)


def _default_datastore(probe: Probe) -> Answer | None:
    what = "Looking for the default datastore"
    reply = probe.get(probe.workspace_path("/datastores"), what, ML, isDefault="true", count="1")
    return next((one.at("properties") for one in probe.items(reply, what)), None)


def _container(probe: Probe, host: str, container: str) -> requests.Response:
    token = probe.sign_in().token(_STORAGE_SCOPE)
    headers = {"Authorization": f"Bearer {token}", "x-ms-version": _STORAGE_VERSION}
    url = f"https://{host}/{quote(container)}?restype=container"
    try:
        return exchange(probe.rest().session, "HEAD", url, headers=headers, timeout=_TIMEOUT, allow_redirects=False)
    except requests.RequestException as error:
        raise ServiceError(f"The storage {host} does not answer: {type(error).__name__}", hint=REACH) from error


def _judge_storage(probe: Probe, what: str, account: str, status: int, code: str, *, own: bool) -> Outcome:
    scope = (probe.resource.optional_text("properties.storageAccount") if probe.resource is not None else None) or ""
    if scope.rpartition("/")[2].lower() != account.lower():
        scope = (
            f"/subscriptions/SUBSCRIPTION/resourceGroups/GROUP/providers/Microsoft.Storage/storageAccounts/{account}"
        )
    if code in _NOT_FROM_HERE:
        rule = f"az storage account network-rule add --account-name {account} --ip-address ADDRESS {probe.at_group()}"
        return failed(f"{what} does not admit this network ({code})", f"{rule}; or a runner in its network.")
    if status == 403:
        command = assignment("Storage Blob Data Contributor", scope, probe.principal, user=probe.is_user)
        if own:
            return failed(
                f"the identity has no role for {what} ({code or status}), and the datastore has no key", command
            )
        return warning(
            f"the identity has no role for {what} ({code or status}); the datastore's key is used", command
        )
    if status == 404:
        name = what.rpartition("/")[2]
        command = f"az storage container create --name {name} --account-name {account} --auth-mode login"
        return failed(f"there is no container {what} ({code or status})", command)
    if status == 401:
        return misconfigured(f"{what} refuses the token ({code or status})", "Check AZURE_TENANT_ID and the clock.")
    return failed(
        f"{what} answered {status} {code}".rstrip(), f"az storage account show --name {account} {probe.at_group()}"
    )
