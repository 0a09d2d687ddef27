"""Azure Container Registry's own interface (``/acr/v1``), and its locks.

Shapes as in the data-plane description of api-version 2021-07-01
(https://github.com/Azure/azure-rest-api-specs, specification/containerregistry/data-plane) and the generated client of
azure-containerregistry.
"""

from __future__ import annotations

import datetime
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, unquote, urlencode

from aml_emulator.identity.tokens import REPOSITORY_ACTIONS, RegistryAccess
from aml_emulator.network.heads import split_target
from aml_emulator.reading import whole, write_private
from aml_emulator.registry.storage import RegistryStorage, StoredManifest, Tag

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


ATTRIBUTES = ("deleteEnabled", "writeEnabled", "readEnabled", "listEnabled")


class Locks:
    """Remembers which attributes are switched off; they are kept in a file.

    A thing is named by its repository and, within it, by nothing, a tag, or a digest: a tag has no colon, a digest has one.

    Args:
        file: where they are kept; made when the first attribute is set.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._off: dict[str, dict[str, list[str]]] = {}
        if file.exists():
            self._off = json.loads(file.read_text("utf-8"))

    def of(self, repository: str, name: str = "") -> dict[str, bool]:
        """Return the attributes of a thing."""
        off = self._off.get(repository, {}).get(name, ())
        return {attribute: attribute not in off for attribute in ATTRIBUTES}

    def allows(self, attribute: str, repository: str, *names: str) -> bool:
        """Return whether *attribute* is on for the repository and all named parts of it."""
        wanted = ("deleteEnabled", "writeEnabled") if attribute == "deleteEnabled" else (attribute,)
        things = self._off.get(repository, {})
        return not any(one in things.get(name, ()) for name in ("", *names) for one in wanted)

    def names(self, repository: str) -> list[str]:
        """Return the things of a repository that attributes are kept for."""
        return list(self._off.get(repository, ()))

    def change(self, repository: str, name: str, changes: Mapping[str, bool]) -> None:
        """Switch attributes on and off; others stay."""
        with self._lock:
            off = set(self._off.get(repository, {}).get(name, ()))
            off = {one for one in off | set(changes) if not changes.get(one, False)}
            self._off.setdefault(repository, {})[name] = sorted(off)
            self._write()

    def forget(self, repository: str, name: str | None = None) -> None:
        """Forget a deleted tag or manifest, or a repository with all of its content."""
        with self._lock:
            if name is None:
                gone: object = self._off.pop(repository, None)
            else:
                gone = self._off.get(repository, {}).pop(name, None)
            if gone is not None:
                self._write()

    def _write(self) -> None:
        kept = {
            repository: {name: off for name, off in things.items() if off}
            for repository, things in self._off.items()
            if any(things.values())
        }
        write_private(self._file, json.dumps(kept, indent=1).encode())


Answer = tuple[int, dict[str, Any], dict[str, str]]
"""Status, JSON, headers."""

PAGE_ITEMS = 100
_INDEX = "application/vnd.oci.image.index.v1+json"
_Item = TypeVar("_Item")


def refused(status: int, code: str, message: str, detail: Any = None) -> Answer:
    """Return an error as registries write them."""
    return status, {"errors": [{"code": code, "message": message, "detail": {} if detail is None else detail}]}, {}


DISALLOWED = refused(
    405,
    "REGISTRY_DISALLOWED_OPERATION",
    "The operation is disallowed on this registry, repository or image. View troubleshooting steps at "
    "https://aka.ms/acr/faq/#why-does-my-pull-or-push-request-fail-with-disallowed-operation",
)


class AcrInterface:
    """Answers for what the registry has.

    Args:
        login_server: the registry's Azure name.
    """

    def __init__(self, *, login_server: str, storage: RegistryStorage, locks: Locks) -> None:
        self._host = login_server
        self._storage = storage
        self._locks = locks

    def answer(self, asked: Asked, body: bytes) -> Answer:
        """Answer an authorized request to ``/acr/v1``. Reads and changes files."""
        handlers: dict[tuple[str, str, bool], Callable[[Asked], Answer]] = {
            ("GET", "_catalog", False): self._repositories,
            ("GET", "", False): self._repository,
            ("DELETE", "", False): self._delete_repository,
            ("GET", "_tags", False): self._tags,
            ("GET", "_tags", True): self._tag,
            ("DELETE", "_tags", True): self._untag,
            ("GET", "_manifests", False): self._manifests,
            ("GET", "_manifests", True): self._manifest,
        }
        handler = handlers.get((asked.method, asked.kind, bool(asked.reference)))
        if asked.method == "PATCH" and (asked.kind == "" or asked.reference):
            handler = partial(self._change, body=body)
        if handler is None:
            return refused(405, "UNSUPPORTED", f"The operation is unsupported: {asked.method} {asked.path}")
        if asked.repository and not self._storage.exists(asked.repository):
            return refused(404, "NAME_UNKNOWN", "repository name not known to registry", {"name": asked.repository})
        return handler(asked)

    def referrers(self, asked: Asked) -> Answer:
        """Answer a request for the referrers of a manifest, which the registry cannot.

        An unknown manifest has none.
        """
        found = self._storage.referrers(asked.repository, asked.reference)
        wanted = asked.query.get("artifactType")
        headers = {"Content-Type": _INDEX}
        if wanted is not None:
            found = [entry for entry in found if entry.get("artifactType") == wanted]
            headers["OCI-Filters-Applied"] = "artifactType"
        return 200, {"schemaVersion": 2, "mediaType": _INDEX, "manifests": found}, headers

    def forbidden(self, asked: Asked) -> Answer | None:
        """Return the refusal of a request to ``/v2`` if a lock forbids it."""
        repository, reference = asked.repository, asked.reference
        if not repository:
            return None
        if asked.method in ("GET", "HEAD"):
            attribute, names = "readEnabled", [reference] if asked.kind == "manifests" else []
        elif asked.method == "DELETE":
            attribute, names = "deleteEnabled", [reference]
        else:
            tagged = asked.kind == "manifests" and ":" not in reference
            attribute, names = "writeEnabled", [reference] if tagged else []
        if names and asked.method != "PUT":
            names += self._related(repository, reference, deleting=asked.method == "DELETE")
        return None if self._locks.allows(attribute, repository, *names) else DISALLOWED

    def tidy(self, repository: str) -> None:
        """Forget the attributes of tags and manifests that are no more."""
        for name in self._locks.names(repository):
            there = self._storage.manifest(repository, name) if ":" in name else self._storage.tag(repository, name)
            if name and there is None:
                self._locks.forget(repository, name)

    def _related(self, repository: str, reference: str, *, deleting: bool) -> list[str]:
        """Return the other names of a manifest: a tag's digest, or a digest's tags."""
        if ":" not in reference:
            tag = self._storage.tag(repository, reference)
            return [tag.digest] if tag is not None else []
        return [tag.name for tag in self._storage.tags(repository) if tag.digest == reference] if deleting else []

    def _repositories(self, asked: Asked) -> Answer:
        names = [name for name in self._storage.repositories() if self._locks.allows("listEnabled", name)]
        page, headers = _page(asked, names, key=str, times=None)
        return 200, {"repositories": page}, headers

    def _repository(self, asked: Asked) -> Answer:
        name = asked.repository
        manifests, tags = self._storage.manifests(name), self._storage.tags(name)
        shown = {
            "registry": self._host,
            "imageName": name,
            "createdTime": _iso(min(self._storage.created(name), *(manifest.created for manifest in manifests))),
            "lastUpdateTime": _iso(max(manifest.updated for manifest in manifests)),
            "manifestCount": len(manifests),
            "tagCount": len(tags),
            "changeableAttributes": {**self._locks.of(name), "teleportEnabled": False},
        }
        return 200, shown, {}

    def _delete_repository(self, asked: Asked) -> Answer:
        name = asked.repository
        digests = [manifest.digest for manifest in self._storage.manifests(name)]
        tags = [tag.name for tag in self._storage.tags(name)]
        if not self._locks.allows("deleteEnabled", name, *digests, *tags):
            return DISALLOWED
        self._storage.delete_repository(name)
        self._locks.forget(name)
        return 202, {"manifestsDeleted": digests, "tagsDeleted": tags}, {}

    def _tags(self, asked: Asked) -> Answer:
        name = asked.repository
        tags = [
            tag
            for tag in self._storage.tags(name)
            if self._locks.allows("listEnabled", name, tag.name)
            and asked.query.get("digest", tag.digest) == tag.digest
        ]
        page, headers = _page(asked, tags, key=lambda tag: tag.name, times=lambda tag: tag.updated)
        shown = [self._tag_shape(name, tag) for tag in page]
        return 200, {"registry": self._host, "imageName": name, "tags": shown}, headers

    def _tag(self, asked: Asked) -> Answer:
        tag = self._storage.tag(asked.repository, asked.reference)
        if tag is None:
            return _no_tag(asked)
        shown = self._tag_shape(asked.repository, tag)
        return 200, {"registry": self._host, "imageName": asked.repository, "tag": shown}, {}

    def _untag(self, asked: Asked) -> Answer:
        name, tag = asked.repository, asked.reference
        if self._storage.tag(name, tag) is None:
            return _no_tag(asked)
        if not self._locks.allows("deleteEnabled", name, tag):
            return DISALLOWED
        self._storage.untag(name, tag)
        self._locks.forget(name, tag)
        return 202, {}, {}

    def _manifests(self, asked: Asked) -> Answer:
        name = asked.repository
        manifests = [
            one for one in self._storage.manifests(name) if self._locks.allows("listEnabled", name, one.digest)
        ]
        page, headers = _page(asked, manifests, key=lambda one: one.digest, times=lambda one: one.updated)
        shown = [self._manifest_shape(name, one) for one in page]
        return 200, {"registry": self._host, "imageName": name, "manifests": shown}, headers

    def _manifest(self, asked: Asked) -> Answer:
        found = self._storage.manifest(asked.repository, asked.reference)
        if found is None:
            message = f"manifest {asked.reference} is not found"
            return refused(404, "MANIFEST_UNKNOWN", message, {"name": asked.reference})
        shown = self._manifest_shape(asked.repository, found)
        if found.children:
            shown["references"] = [
                {"digest": digest, "architecture": architecture, "os": system}
                for digest, architecture, system in found.children
            ]
        return 200, {"registry": self._host, "imageName": asked.repository, "manifest": shown}, {}

    def _change(self, asked: Asked, body: bytes) -> Answer:
        """Switch attributes on and off, and answer as GET does."""
        try:
            given = json.loads(body)
            changes = {key: given[key] for key in ATTRIBUTES if given.get(key) is not None}
        except (AttributeError, ValueError):
            return refused(400, "UNSUPPORTED", "The body must be a JSON object.")
        if not all(isinstance(value, bool) for value in changes.values()):
            return refused(400, "UNSUPPORTED", f"{', '.join(ATTRIBUTES)} must be true or false.")
        reader = {"": self._repository, "_tags": self._tag, "_manifests": self._manifest}[asked.kind]
        found = reader(asked)
        if found[0] != 200:
            return found
        self._locks.change(asked.repository, asked.reference, changes)
        return reader(asked)

    def _tag_shape(self, repository: str, tag: Tag) -> dict[str, Any]:
        return {
            "name": tag.name,
            "digest": tag.digest,
            "createdTime": _iso(tag.created),
            "lastUpdateTime": _iso(tag.updated),
            "signed": False,
            "changeableAttributes": self._locks.of(repository, tag.name),
        }

    def _manifest_shape(self, repository: str, manifest: StoredManifest) -> dict[str, Any]:
        shape = {
            "digest": manifest.digest,
            "imageSize": manifest.size,
            "createdTime": _iso(manifest.created),
            "lastUpdateTime": _iso(manifest.updated),
            "architecture": manifest.architecture,
            "os": manifest.system,
            "mediaType": manifest.media_type,
            "configMediaType": manifest.config_type,
            "tags": list(manifest.tags) or None,
            "changeableAttributes": self._locks.of(repository, manifest.digest),
        }
        return {key: value for key, value in shape.items() if value is not None}


def _no_tag(asked: Asked) -> Answer:
    return refused(404, "TAG_UNKNOWN", "the specified tag does not exist", {"name": asked.reference})


def _page(
    asked: Asked, items: Iterable[_Item], *, key: Callable[[_Item], str], times: Callable[[_Item], float] | None
) -> tuple[list[_Item], dict[str, str]]:
    """Return the requested page and the ``Link`` header with the next one's address.

    *items* come in the order of *key*. Orders by time begin after the item ``last``; the other order after its place, for
    it may be gone.
    """
    order, last = asked.query.get("orderby", ""), asked.query.get("last", "")
    found = list(items)
    if times is not None and order in ("timeasc", "timedesc"):
        moment = times
        found.sort(key=lambda item: (moment(item), key(item)), reverse=order == "timedesc")
        places = [place for place, item in enumerate(found) if key(item) == last]
        found = found[places[0] + 1 :] if places else ([] if last else found)
    else:
        found = [item for item in found if key(item) > last]
    size = min(whole(asked.query.get("n", "")) or PAGE_ITEMS, 1000)
    page = found[:size]
    if len(found) <= size:
        return page, {}
    fields = {"last": key(page[-1]), "n": str(size), "orderby": order}
    return page, {"Link": f'<{asked.path}?{urlencode(fields)}>; rel="next"'}


def _iso(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "0Z"
