"""Checks of the registry, the identity's role, and the storage."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import requests

from aml_train.azure.acr import AcrLogin, find_registry, http_session, location_of, password_of
from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.storage import AzureBlobs
from aml_train.azure.credentials import claims_of
from aml_train.azure.doctor.probe import Probe
from aml_train.core.answers import REACH
from aml_train.core.diagnosis import Outcome, failed, ok, skipped, warning
from aml_train.core.errors import ServiceError
from aml_train.core.http_client import answer_of, exchange
from aml_train.image.registry.auth import is_acr

_REGISTRIES: Final = "2023-07-01"
_TIMEOUT: Final = (10.0, 20.0)


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
        command = probe.assign("Reader", resource)
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
    push = probe.assign("AcrPush", scope)
    try:
        granted = _granted(probe, host, repository)
    except ServiceError as error:
        if error.transient:
            raise
        return failed(error.message, push)
    if not {"pull", "push"} <= granted:
        allowed = f"it may {', '.join(sorted(granted))}" if granted else "it may nothing there"
        return failed(f"the identity may not push to {host}/{repository}: {allowed}", push)
    if "delete" not in granted:
        command = probe.assign("AcrDelete", scope)
        return warning(f"push to {host}/{repository}, not delete: candidates of builds stay there", command)
    return ok(f"pull, push and delete in {host}/{repository}")


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


def check_storage(probe: Probe) -> Outcome:
    """Read the default datastore's container, in the way of ``aml-train data``."""
    rest = probe.rest()
    data = DataWorkspace(rest)
    access = data.access(data.default_datastore())
    storage = AzureBlobs(access, rest.credential, rest.session, tries=1, timeout=_TIMEOUT)
    storage.find("aml-train/doctor")
    by = "its key" if access.key else "its signature" if access.sas else "the identity"
    return ok(f"{storage.place} is reachable and may be read, with {by}")
