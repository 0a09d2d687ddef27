"""An image's attestations: made from the image that the engine has, kept in a real registry as referrers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from aml_train.config.sections.image import SbomConfig
from aml_train.core.docker import BuildCli
from aml_train.image.attestations import IN_TOTO, SLSA_PROVENANCE
from aml_train.image.registry.client import Registry
from aml_train.image.registry.referrers import list_referrers, read_referrer
from aml_train.image.spec import ImageSpec, Tested

Ensure = Callable[..., Tested]


@pytest.mark.full
def test_the_attestations_of_an_image_are_its_referrers(
    spec: ImageSpec, ensure: Ensure, registry: Registry, cli: BuildCli
) -> None:
    spec = replace(spec, sbom=SbomConfig())
    made = ensure(spec, None, commit="c0ffee")
    found = {
        one.artifact_type: read_referrer(registry, spec.repository, one)
        for one in list_referrers(registry, spec.repository, made.digest)
    }
    stated = json.loads(found[IN_TOTO])
    assert stated["predicateType"] == SLSA_PROVENANCE
    assert stated["subject"][0]["digest"] == {"sha256": made.digest.removeprefix("sha256:")}
    assert stated["predicate"]["runDetails"]["builder"]["id"].startswith("https://aml-train.org/builder/")
    listed = json.loads(found["application/spdx+json"])
    names = {one["name"]: one.get("versionInfo") for one in listed["packages"]}
    assert names["pytest"] == "9.0.1"
    assert "libc6" in names

    # A run that finds the image makes no attestations again.
    assert ensure(spec, None).how == "found"
    assert len(list_referrers(registry, spec.repository, made.digest)) == len(found)
