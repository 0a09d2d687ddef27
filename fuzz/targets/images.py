"""Documents of images: manifests, packages, facts, records, leases."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

from aml_train.core.errors import AmlTrainError
from aml_train.image.leases import lease_end, mark_end
from aml_train.image.packages import parse_packages
from aml_train.image.prune.inventory import subject_of_tag
from aml_train.image.readiness.facts import parse_facts, python_version
from aml_train.image.records import parse_record
from aml_train.image.registry.manifest import OCI_INDEX, OCI_MANIFEST, Manifest
from fuzz.target import Target, as_bytes, require

DIGEST = "sha256:" + "0a" * 32


def seeds() -> Sequence[str]:
    """Return documents of each kind."""
    layer = {"mediaType": "application/x", "digest": DIGEST, "size": 5}
    manifest = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": layer, "layers": [layer, layer]}
    platform = {"architecture": "amd64", "os": "linux"}
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [{**layer, "platform": platform}]}
    purl = "pkg:pypi/numpy@2.1.0?x=1#y"
    spdx = {
        "spdxVersion": "SPDX-2.3",
        "packages": [{"externalRefs": [{"referenceType": "purl", "referenceLocator": purl}]}],
    }
    cyclonedx = {
        "bomFormat": "CycloneDX",
        "components": [{"purl": "pkg:deb/debian/libc6@2.36%2Bdeb", "name": "x"}, {"name": "y"}],
    }
    record = {
        "digest": DIGEST,
        "key": "b" * 64,
        "command": "pytest",
        "passed": 3,
        "failed": 0,
        "skipped": None,
        "seconds": 1.5,
    }
    facts = {"format": 1, "bash": None, "python": None}
    return [
        *(
            json.dumps(one)
            for one in (manifest, index, spdx, cyclonedx, {**record, "at": "2026-01-01", "commit": None}, facts)
        ),
        f"lease-{'0a' * 16}-20261123T000000Z",
        f"test-{'0' * 20}",
    ]


def check(text: str) -> None:
    """Read a text as each document."""
    content = as_bytes(text)
    try:
        found = parse_packages(content, "the list of x")
        require(all(isinstance(one, str) for one in found.values()), "a version is no text")
    except AmlTrainError as error:
        require("the list of x" in str(error), "the refusal does not name the list")
    try:
        python_version(parse_facts(content))
    except ValueError as error:
        require(str(error), "a refusal says nothing")
    with contextlib.suppress(KeyError, TypeError, ValueError):
        parse_record(content)
    for media_type in (OCI_MANIFEST, OCI_INDEX):
        manifest = Manifest(digest=DIGEST, media_type=media_type, content=content)
        try:
            _ = manifest.config_digest, manifest.blobs, manifest.children, manifest.layer_bytes, manifest.layer_sizes
            manifest.child_for("linux/amd64")
        except AmlTrainError as error:
            require(str(error), "a refusal says nothing")
    subject_of_tag(text)
    for end in (lease_end(text), mark_end(text)):
        require(end is None or end == end, "the end of a lease is no time")


TARGET = Target(
    kind="text",
    reads=(
        "aml_train.image.packages",
        "aml_train.image.readiness.facts",
        "aml_train.image.records",
        "aml_train.image.registry.manifest",
        "aml_train.image.leases",
        "aml_train.image.prune.inventory",
    ),
    seeds=seeds,
    check=check,
    words=(
        '"digest"',
        '"size"',
        '"layers"',
        '"manifests"',
        '"purl"',
        "pkg:pypi/",
        "%2F",
        '"python"',
        '"version"',
        "lease-",
        "mark-",
        "-2026",
    ),
    mutate=lambda mutator, text: mutator.json(text),
)
