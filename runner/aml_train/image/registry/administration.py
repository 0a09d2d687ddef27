"""Requests of clean-ups to a registry: lists of manifests, locks, deletion.

Azure Container Registry lists manifests with their times and locks at ``/acr/v1``, as in the data-plane description of api-version
2021-07-01 (https://github.com/Azure/azure-rest-api-specs, specification/containerregistry/data-plane). The OCI distribution
specification 1.1 has the deletion of a manifest by its digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import requests

from aml_train.core.answers import Answer
from aml_train.core.errors import ImageError
from aml_train.core.http_client import answer_of
from aml_train.image.registry.auth import BusyError
from aml_train.image.registry.client import Registry

_PAGE: Final = "1000"
_MOST_PAGES: Final = 100_000
_DELETE_TIMEOUT: Final = (5.0, 20.0)


@dataclass(frozen=True, kw_only=True)
class Locks:
    """The locks of a thing in an Azure Container Registry.

    Attributes:
        write: it cannot be changed (``writeEnabled: false``).
        delete: it cannot be deleted (``deleteEnabled: false``).
    """

    write: bool
    delete: bool

    @classmethod
    def of(cls, item: Answer) -> Locks:
        """Read the attributes of a repository, tag or manifest."""
        attributes = item.mapping("changeableAttributes")
        return cls(
            write=attributes.get("writeEnabled") is False,
            delete=attributes.get("deleteEnabled") is False,
        )

    def __bool__(self) -> bool:
        return self.write or self.delete


def describe_repository(registry: Registry, repository: str) -> Answer | None:
    """Return what Azure's registry says of a repository, or None if there is none.

    Raises:
        ImageError: the registry refuses or does not answer.
    """
    return _read(registry, repository, "", f"describe the repository {repository}")


def list_manifests(registry: Registry, repository: str) -> Iterator[Answer]:
    """Yield all manifests of a repository that Azure's registry lists."""
    return _items(registry, repository, "manifests")


def list_tags(registry: Registry, repository: str) -> Iterator[Answer]:
    """Yield all tags of a repository that Azure's registry lists."""
    return _items(registry, repository, "tags")


def delete_manifest(registry: Registry, repository: str, digest: str) -> int:
    """Delete a manifest with all of its tags, and return the status.

    It is one request, never repeated.

    Raises:
        ImageError: no answer, so that it may have been deleted; or the sign-in is refused.
    """
    url = f"{registry.url}/v2/{repository}/manifests/{digest}"
    try:
        answer = registry.once("DELETE", url, scopes=_scopes(repository, "delete"), timeout=_DELETE_TIMEOUT)
    except BusyError as error:
        answer = error.response
    except requests.RequestException as error:
        raise ImageError(f"the registry did not answer: {type(error).__name__}") from error
    return answer.status_code


def _items(registry: Registry, repository: str, kind: str) -> Iterator[Answer]:
    url, what = f"{registry.url}/acr/v1/{repository}/_{kind}?n={_PAGE}", f"list the {kind} of {repository}"
    for page in registry.pages(url, what, scopes=_scopes(repository, "metadata_read"), most=_MOST_PAGES):
        yield from page.each(kind)


def _read(registry: Registry, repository: str, path: str, what: str) -> Answer | None:
    url, scopes = f"{registry.url}/acr/v1/{repository}{path}", _scopes(repository, "metadata_read")
    response = registry.repeated(lambda: registry.once("GET", url, scopes=scopes))
    if response.status_code == 404:
        return None
    registry.expect(response, 200, what)
    fail = registry.unusable(what)
    return answer_of(response, fail, fail)


def _scopes(repository: str, *actions: str) -> list[str]:
    return [f"repository:{repository}:{','.join(actions)}"]
