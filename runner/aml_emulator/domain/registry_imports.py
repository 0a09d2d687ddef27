"""Imports of images from other registries into the workspace's registry."""

from __future__ import annotations

import logging
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from aml_emulator.domain.errors import ConflictError, InvalidError, NotFoundError
from aml_emulator.registry import ImportFailedError, ImportSource
from aml_emulator.schema import TEXT, Fields, ListOf

logger = logging.getLogger(__name__)

#: Ended imports that are kept for who still asks for them.
_KEPT: Final = 100
_NAME: Final = r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
_TARGET: Final = re.compile(rf"({_NAME})(?::([A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}))?")
_SOURCE: Final = re.compile(rf"({_NAME})(?:@(sha256:[0-9a-f]{{64}})|:([A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}))?")
_REGISTRY_ID: Final = re.compile(r"/providers/Microsoft\.ContainerRegistry/registries/([A-Za-z0-9]+)$", re.IGNORECASE)

IMPORT_REQUEST: Final = Fields(
    {
        "source": Fields(
            {
                "resourceId": TEXT,
                "registryUri": TEXT,
                "credentials": Fields({"username": TEXT, "password": TEXT}, required=("password",)),
                "sourceImage": TEXT,
            },
            required=("sourceImage",),
        ),
        "targetTags": ListOf(TEXT),
        "untaggedTargetRepositories": ListOf(TEXT),
        "mode": TEXT,
    },
    required=("source",),
)
"""The fields of a request (azure-mgmt-containerregistry 10.3.0, ``v2023_07_01``: ``ImportImageParameters``)."""


class Copier(Protocol):
    """Copies images; :class:`aml_emulator.registry.ImageCopier` does so by HTTP."""

    def has_tag(self, repository: str, tag: str) -> bool:
        """Return whether the workspace's registry has a tag."""

    def copy(self, source: ImportSource, targets: Sequence[tuple[str, str | None]]) -> None:
        """Copy an image with all that it lists to repositories and tags.

        A target without a tag gets the manifest alone.

        Raises:
            ImportFailedError: it cannot be read or written.
        """


@dataclass
class _Import:
    state: Literal["running", "done", "failed"] = "running"
    message: str = ""


class RegistryImports:
    """The imports of the registry; they do not outlive the process.

    Args:
        copier: copies.
    """

    def __init__(self, copier: Copier) -> None:
        self._copier = copier
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Import] = OrderedDict()

    def begin(self, request: Mapping[str, Any]) -> str:
        """Begin an import; return its id.

        Raises:
            InvalidError: a request that the service refuses.
            ConflictError: a target tag exists, and the mode is not ``Force``.
        """
        source = self._source(request["source"])
        targets = _targets(request, source)
        mode = str(request.get("mode") or "NoForce")
        if mode not in ("NoForce", "Force"):
            raise InvalidError(f"The mode '{mode}' is neither NoForce nor Force.")
        if mode == "NoForce":
            taken = [f"{name}:{tag}" for name, tag in targets if tag and self._copier.has_tag(name, tag)]
            if taken:
                raise ConflictError(f"Tag {taken[0]} already exists in target registry.")
        number, one = secrets.token_hex(16), _Import()
        with self._lock:
            self._known[number] = one
            while len(self._known) > _KEPT and next(iter(self._known.values())).state != "running":
                self._known.popitem(last=False)
        threading.Thread(target=self._run, args=(one, source, targets), name="registry-import", daemon=True).start()
        return number

    def ended(self, number: str) -> bool:
        """Return whether an import has ended.

        Raises:
            NotFoundError: there is no such import.
            InvalidError: it has failed.
        """
        with self._lock:
            one = self._known.get(number)
        if one is None:
            raise NotFoundError(f"The import {number} is not found.")
        if one.state == "failed":
            raise InvalidError(one.message)
        return one.state == "done"

    def _run(self, one: _Import, source: ImportSource, targets: Sequence[tuple[str, str | None]]) -> None:
        try:
            self._copier.copy(source, targets)
        except ImportFailedError as error:
            one.message, one.state = str(error), "failed"
        except Exception:
            logger.exception("an import failed")
            one.message, one.state = "The import failed; the log of the local AzureML has the reason.", "failed"
        else:
            one.state = "done"

    def _source(self, given: Mapping[str, Any]) -> ImportSource:
        found = _SOURCE.fullmatch(str(given["sourceImage"]))
        if found is None:
            raise InvalidError(f"The source image '{given['sourceImage']}' is not valid.")
        registry = str(given.get("registryUri") or "")
        if not registry:
            named = _REGISTRY_ID.search(str(given.get("resourceId") or ""))
            if named is None:
                raise InvalidError("The source has neither a resourceId of a registry nor a registryUri.")
            registry = f"{named[1].lower()}.azurecr.io"
        login = given.get("credentials") or {}
        return ImportSource(
            registry=registry,
            repository=found[1],
            reference=found[2] or found[3] or "latest",
            username=str(login.get("username") or ""),
            password=str(login.get("password") or ""),
        )


def _targets(request: Mapping[str, Any], source: ImportSource) -> list[tuple[str, str | None]]:
    """Return repositories with tags; the source's own names if the request has none."""
    tag = "latest" if source.reference.startswith("sha256:") else source.reference
    tagged, untagged = request.get("targetTags") or [], request.get("untaggedTargetRepositories") or []
    found: list[tuple[str, str | None]] = []
    for text in tagged:
        target = _TARGET.fullmatch(text)
        if target is None:
            raise InvalidError(f"The target tag '{text}' is not valid.")
        found.append((target[1], target[2] or tag))
    for text in untagged:
        if re.fullmatch(_NAME, text) is None:
            raise InvalidError(f"The target repository '{text}' is not valid.")
        found.append((text, None))
    return found or [(source.repository, tag)]
