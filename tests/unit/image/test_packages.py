"""The packages of an image by its list of packages: SPDX and CycloneDX name the same ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aml_train.core.errors import ImageError
from aml_train.image.sbom import parse_packages

URLS = (
    "pkg:pypi/numpy@2.1.0",
    "pkg:deb/debian/libopenblas0@0.3.29%2Bds-3?arch=amd64&distro=debian-12",
    "pkg:conda/cudatoolkit@11.8.0",
    "pkg:golang/github.com/anchore/syft@v1.2.3",
    "pkg:npm/%40scope/left-pad@1.0.0",
    "pkg:pypi/numpy@1.26.4#vendored",
    "pkg:generic/nothing",
    "https://example.org/x@1",
)
PACKAGES = {
    "apt:libopenblas0": "0.3.29+ds-3",
    "conda:cudatoolkit": "11.8.0",
    "golang:github.com/anchore/syft": "v1.2.3",
    "npm:@scope/left-pad": "1.0.0",
    "pip:numpy": "1.26.4, 2.1.0",
}


def spdx() -> dict[str, Any]:
    packages = [
        {
            "name": "any",
            "externalRefs": [
                {"referenceType": "cpe23Type", "referenceLocator": "cpe:2.3:a:x"},
                {"referenceType": "purl", "referenceLocator": url},
            ],
        }
        for url in URLS
    ]
    return {"spdxVersion": "SPDX-2.3", "packages": [*packages, {"name": "without an address"}]}


def cyclonedx() -> dict[str, Any]:
    return {"bomFormat": "CycloneDX", "components": [*({"purl": url} for url in URLS), {"name": "a file"}]}


@pytest.mark.parametrize("document", [spdx(), cyclonedx()], ids=["spdx", "cyclonedx"])
def test_packages(document: dict[str, Any]) -> None:
    assert parse_packages(json.dumps(document).encode(), "the list") == PACKAGES


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "is not JSON"),
        (b"[]", "object"),
        (b'{"components": {}}', "a list"),
        (b'{"spdxVersion": "SPDX-2.3", "packages": [1]}', "an object"),
    ],
)
def test_a_damaged_list(content: bytes, problem: str) -> None:
    with pytest.raises(ImageError, match=f"the list cannot be read: .*{problem}"):
        parse_packages(content, "the list")
