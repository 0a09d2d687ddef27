"""The packages of an image by its list of packages, in SPDX or CycloneDX.

Both name a package by its URL (https://github.com/package-url/purl-spec): ``pkg:pypi/numpy@2.1.0``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from aml_train.core.answers import Answer, UndecodableError, decode
from aml_train.core.errors import ImageError
from aml_train.image.papers import PAPER_TYPES
from aml_train.image.registry.client import Registry
from aml_train.image.registry.referrers import list_referrers, read_referrer

_KINDS: Final[Mapping[str, str]] = {"pypi": "pip", "deb": "apt"}


def read_packages(registry: Registry, repository: str, digest: str) -> dict[str, str]:
    """Return an image's packages: ``pip:numpy`` → version; none without a list.

    Raises:
        ImageError: the registry refuses, or the list is damaged.
    """
    for kind in PAPER_TYPES["sbom"]:
        for one in list_referrers(registry, repository, digest, artifact_type=kind):
            name = f"the list of packages of {repository}@{digest[:19]}"
            return parse_packages(read_referrer(registry, repository, one), name)
    return {}


def parse_packages(content: bytes, name: str) -> dict[str, str]:
    """Return the packages of a list: ``pip:numpy`` → version, or versions. Pure.

    Args:
        content: SPDX or CycloneDX, in JSON.
        name: what it is called in errors.

    Raises:
        ImageError: it is neither.
    """

    def fail(problem: str) -> ImageError:
        return ImageError(f"{name} cannot be read: it {problem}")

    try:
        document = Answer(decode(content), fail)
    except UndecodableError as error:
        raise fail(str(error)) from error
    found: dict[str, set[str]] = {}
    for url in _spdx(document) if document.has("spdxVersion") else _cyclonedx(document):
        package, version = _read_url(url)
        if package:
            found.setdefault(package, set()).add(version)
    return {package: ", ".join(sorted(versions)) for package, versions in sorted(found.items())}


def _spdx(document: Answer) -> Iterator[str]:
    for package in document.each("packages"):
        if package.has("externalRefs"):
            for reference in package.each("externalRefs"):
                if reference.optional_text("referenceType") == "purl":
                    yield reference.text("referenceLocator")


def _cyclonedx(document: Answer) -> Iterator[str]:
    for component in document.each("components"):
        url = component.optional_text("purl")
        if url is not None:
            yield url


def _read_url(url: str) -> tuple[str, str]:
    """Return a package's name and version; an empty name for another URL."""
    plain = url.partition("?")[0].partition("#")[0]
    kind, _, rest = plain.removeprefix("pkg:").partition("/")
    path, at, version = rest.rpartition("@")
    if not plain.startswith("pkg:") or not at or not path:
        return "", ""
    # The namespace of Debian's packages is the distribution; that of others belongs to the name.
    name = path.rpartition("/")[2] if kind in ("deb", "rpm", "apk") else path
    return f"{_KINDS.get(kind, kind)}:{unquote(name)}", unquote(version)
