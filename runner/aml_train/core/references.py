"""Names of container images and AzureML assets: parse and print, without look-ups."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Self

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PATH = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?")

DOCKER_HUB = "docker.io"


def is_digest(text: str) -> bool:
    """Return whether *text* is ``sha256:`` and 64 hexadecimal digits."""
    return _DIGEST.fullmatch(text) is not None


def _names_registry(part: str) -> bool:
    """Return whether the first of several parts of a name is a registry."""
    return "." in part or ":" in part or part == "localhost"


@dataclass(frozen=True, kw_only=True)
class ImageRef:
    """A container image's name, as in ``registry/repository:tag@digest``.

    The grammar is that of the distribution project (its package ``reference``): the first part of the path is a
    registry only if it has a dot, a colon, or is ``localhost``; ``library/`` is implied on Docker Hub.

    Attributes:
        registry: host and port, ``docker.io`` where none is written.
        repository: the path in the registry, lower case.
        tag: the tag, or None.
        digest: the manifest's digest, ``sha256:…``, or None.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a reference; without tag and digest the tag is ``latest``.

        Raises:
            ValueError: if the text is not an image reference; the message says which part.
        """
        rest, at, digest = text.partition("@")
        if at and not is_digest(digest):
            raise ValueError(f"{text!r} has a digest that is not sha256: and 64 lower-case hexadecimal digits")
        first, slash, remainder = rest.partition("/")
        if slash and _names_registry(first):
            registry, path = first, remainder
            if not _HOST.fullmatch(registry):
                raise ValueError(f"{text!r} names the registry {registry!r}, which is not a host name")
        else:
            registry, path = DOCKER_HUB, rest
        if registry in ("index.docker.io", "registry-1.docker.io"):
            registry = DOCKER_HUB
        path, colon, tag = path.partition(":")
        if colon and not _TAG.fullmatch(tag):
            raise ValueError(f"{text!r} has the tag {tag!r}, which is not a tag")
        if registry == DOCKER_HUB and "/" not in path:
            path = f"library/{path}"
        if not path or not all(_PATH.fullmatch(part) for part in path.split("/")):
            raise ValueError(f"{text!r} is not an image reference: {path!r} must be lower-case words joined by /")
        if not colon and not at:
            tag = "latest"
        return cls(registry=registry, repository=path, tag=tag or None, digest=digest or None)

    def with_digest(self, digest: str) -> ImageRef:
        """Return the same repository, pinned to *digest*, without a tag."""
        return replace(self, tag=None, digest=digest)

    @property
    def familiar(self) -> str:
        """The name as people and ``FROM`` lines write it: without ``docker.io/library/``."""
        name = f"{self.registry}/{self.repository}"
        if self.registry == DOCKER_HUB:
            # Of a longer path `library/` is a part like any other: docker.io/library/a/b is not docker.io/a/b.
            official = self.repository.removeprefix("library/")
            name = self.repository if "/" in official else official
            first, slash, _ = name.partition("/")
            if slash and _names_registry(first):
                name = f"{self.registry}/{name}"
        return name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.registry}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")
