"""Imports of bases into an Azure Container Registry, which pull nothing here.

The requests are those of azure-mgmt-containerregistry 10.3.0 (``v2023_07_01/operations/_registries_operations.py``,
``begin_import_image``): one that begins the import, and the address in ``Location`` until it no longer answers 202.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import requests

from aml_train.azure.http import error_for
from aml_train.azure.workspace import AzureRest
from aml_train.core import retry as retries
from aml_train.core.answers import Answer, is_within
from aml_train.core.clock import SYSTEM_CLOCK, Clock
from aml_train.core.errors import ServiceError, TimedOutError
from aml_train.core.events import Listener, Notice

if TYPE_CHECKING:
    from aml_train.image import BaseImage, Registry, RegistryAuth

API: Final = "2023-07-01"
FOLDER: Final = "bases"
"""The first part of the repositories of imported bases."""

#: Seconds. An image of 20 GB takes some minutes: what the service copies is in its own network.
_LONGEST: Final = 3600.0
_PAUSES: Final = (1.0, 30.0)
ROLE: Final = (
    "The identity needs a role with registries/importImage/action on the registry, such as Contributor or Container Registry Data "
    "Importer and Data Reader: docs/permissions.md."
)


def base_repository(base: BaseImage) -> str:
    """Return the repository that a base is imported into. Pure.

    >>> from aml_train.core.references import ImageRef
    >>> from aml_train.image import BaseImage
    >>> base = BaseImage(reference=ImageRef.parse("nvcr.io/nvidia/pytorch:24.10-py3"), digest="sha256:" + "0" * 64)
    >>> base_repository(base)
    'bases/nvcr.io/nvidia/pytorch'
    """
    reference = base.reference
    return f"{FOLDER}/{reference.registry.replace(':', '-').lower()}/{reference.repository}"


def import_request(base: BaseImage, *, source: str | None, login: RegistryAuth | None) -> dict[str, Any]:
    """Return the body of ``importImage``. Pure.

    Args:
        base: with a digest.
        source: the id of the registry, if it is an Azure one that the identity sees.
        login: credentials of the base's registry; None for none.
    """
    place: dict[str, Any] = {"registryUri": base.reference.registry} if source is None else {"resourceId": source}
    if login is not None and login.password:
        place = {
            "registryUri": base.reference.registry,
            "credentials": {"username": login.username, "password": login.password},
        }
    digest = str(base.digest)
    return {
        "source": {**place, "sourceImage": f"{base.reference.repository}@{digest}"},
        "targetTags": [f"{base_repository(base)}:dig-{digest.removeprefix('sha256:')}"],
        # The tag says which digest it has: to write it again changes nothing.
        "mode": "Force",
    }


class AcrImports:
    """Imports into one registry. See :class:`aml_train.image.BaseImports`.

    Args:
        rest: the workspace, whose connections and sign-in are used.
        registry: the resource of the registry.
        listener: receives remarks.
        where: ``file:line`` of the builder.
        clock: time.
    """

    def __init__(
        self,
        rest: AzureRest,
        registry: Answer,
        *,
        listener: Listener,
        where: str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._rest = rest
        self._id = registry.text("id")
        self._host = registry.text("properties.loginServer")
        self._listener = listener
        self._where = where
        self._clock = clock

    def import_base(self, base: BaseImage, registry: Registry, login: RegistryAuth | None) -> str:
        """See :meth:`aml_train.image.BaseImports.import_base`."""
        repository, digest = base_repository(base), str(base.digest)
        name = f"{self._host}/{repository}@{digest}"
        if registry.head_manifest(repository, digest) is not None:
            return name
        began = time.monotonic()
        self._listener(Notice(text=f"The base {base.pinned} is imported into {self._host}."))
        self._import(import_request(base, source=self._source(base), login=login), base)
        if registry.head_manifest(repository, digest) is None:
            raise ServiceError(
                f"{self._where}: {self._host} says that the base is imported, and does not have {name}.",
                hint="Run again; or leave out image.builder.import-base, and the build pulls the base itself.",
            )
        self._listener(Notice(text=f"The base was imported in {time.monotonic() - began:.0f} s: {name[:120]}."))
        return name

    def _source(self, base: BaseImage) -> str | None:
        """Return the id of the base's registry, if it is an Azure one.

        The service copies from it with the identity of this request.
        """
        from aml_train.azure.acr import find_registry
        from aml_train.image import is_acr

        if not is_acr(base.reference.registry):
            return None
        found = find_registry(self._rest, base.reference.registry)
        return None if found is None else found.text("id")

    def _import(self, body: dict[str, Any], base: BaseImage) -> None:
        what = f"{self._where}: importing the base {base.pinned} into {self._host}"
        url = f"{self._rest.cloud.arm}{self._id}/importImage"
        response = self._rest.call("POST", url, what, params={"api-version": API}, body=body)
        until = self._clock.now() + _LONGEST
        pause = _PAUSES[0]
        while response.status_code == requests.codes.accepted:
            if self._clock.now() >= until:
                raise TimedOutError(
                    f"{what} takes longer than {_LONGEST / 60:.0f} minutes.",
                    hint="It continues in the registry: run again later.",
                )
            location = response.headers.get("Location", "")
            if not is_within(location, url):
                raise ServiceError(f"{what}: the answer names no place at {self._rest.cloud.arm} to look for it.")
            asked = retries.retry_after(response.headers)
            self._clock.sleep(pause if asked is None else min(max(asked, _PAUSES[0]), _PAUSES[1]))
            pause = min(pause * 2, _PAUSES[1])
            response = self._rest.call("GET", location, what)
        if not response.ok:
            error = error_for(response, what)
            if not error.transient:
                error.hint = f"{ROLE} A private base needs `docker login` here, whose credentials are sent."
            raise error
