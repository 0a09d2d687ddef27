"""The request of a client of the registry, and the access that it needs. Pure.

Scopes as Azure Container Registry's challenges name them: https://github.com/Azure/acr/blob/main/docs/Token-BasicAuth.md and the
generated client of azure-containerregistry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, quote, unquote

from aml_emulator.identity.tokens import REPOSITORY_ACTIONS, RegistryAccess
from aml_emulator.network.heads import split_target

_WORD = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_NAME = rf"{_WORD}(?:/{_WORD})*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_DIGEST = r"[a-z0-9]+:[0-9a-f]{32,128}"
_V2 = re.compile(rf"/v2/(?P<repository>{_NAME})/(?P<kind>manifests|blobs|tags|referrers)/(?P<reference>.+)")
_ACR = re.compile(
    rf"/acr/v1/(?P<repository>{_NAME})"
    rf"(?:/(?P<kind>_tags|_manifests)(?:/(?P<reference>{_TAG}|{_DIGEST}))?)?"
)
_SCOPE = re.compile(rf"(repository|registry):({_NAME}):([a-z_,*]+)")
_V2_ACTIONS = {"GET": "pull", "HEAD": "pull", "DELETE": "delete"}
_ACR_ACTIONS = {"GET": "metadata_read", "PATCH": "metadata_write", "DELETE": "delete"}
_CATALOG = RegistryAccess(kind="registry", name="catalog", actions=frozenset("*"))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request to the registry.

    Attributes:
        method: the method, in capitals.
        path: the path, decoded: clients write the slashes of a repository's name as ``%2F``.
        query: the query's fields, each with its first value.
        interface: ``v2``, ``acr``, or empty for neither.
        repository, kind, reference: what the path names; empty where it names none.
        needed: what a token must allow.
    """

    method: str
    path: str
    query: dict[str, str]
    interface: str = ""
    repository: str = ""
    kind: str = ""
    reference: str = ""
    needed: tuple[RegistryAccess, ...] = ()


def read_request(method: str, target: str) -> Asked:
    """Return what a request asks for."""
    raw_path, raw_query = split_target(target)
    path = unquote(raw_path)
    query = {key: values[0] for key, values in parse_qs(raw_query).items()}
    asked = Asked(method=method, path=path, query=query)
    if path in ("/v2/_catalog", "/acr/v1/_catalog"):
        interface = "v2" if path.startswith("/v2") else "acr"
        return replace(asked, interface=interface, kind="_catalog", needed=(_CATALOG,))
    if path in ("/v2", "/v2/"):
        return replace(asked, interface="v2")
    interface, actions = ("v2", _V2_ACTIONS) if path.startswith("/v2/") else ("acr", _ACR_ACTIONS)
    found = (_V2 if interface == "v2" else _ACR).fullmatch(path)
    if found is None or ".." in path.split("/"):
        return asked
    repository = found["repository"]
    needed = [RegistryAccess(name=repository, actions=frozenset({actions.get(method, "push")}))]
    if interface == "v2" and "from" in query:
        needed.append(RegistryAccess(name=query["from"], actions=frozenset({"pull"})))
    return replace(
        asked,
        interface=interface,
        repository=repository,
        kind=found["kind"] or "",
        reference=found["reference"] or "",
        needed=tuple(needed),
    )


def plain_target(target: str) -> str:
    """Return *target* with its path normalised, as it was checked."""
    raw_path, query = split_target(target)
    path = quote(unquote(raw_path), safe="/:@+~")
    return f"{path}?{query}" if query else path


def read_scope(text: str) -> RegistryAccess | None:
    """Return the access that a scope requests, or None if it is unknown."""
    found = _SCOPE.fullmatch(text)
    if found is None:
        return None
    access = RegistryAccess(kind=found[1], name=found[2], actions=frozenset(found[3].split(",")))
    known = access.actions <= REPOSITORY_ACTIONS if access.kind == "repository" else access == _CATALOG
    return access if known else None
