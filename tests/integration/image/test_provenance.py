"""The provenance of an image is kept in a real registry as its referrer."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from aml_train.image.provenance import IN_TOTO, SLSA_PROVENANCE
from aml_train.image.registry.client import Registry
from aml_train.image.registry.referrers import list_referrers, read_referrer
from aml_train.image.spec import ImageSpec, Tested

Ensure = Callable[..., Tested]


@pytest.mark.full
def test_the_provenance_of_an_image_is_its_referrer(spec: ImageSpec, ensure: Ensure, registry: Registry) -> None:
    made = ensure(spec, None, commit="c0ffee")
    found = {
        one.artifact_type: read_referrer(registry, spec.repository, one)
        for one in list_referrers(registry, spec.repository, made.digest)
    }
    stated = json.loads(found[IN_TOTO])
    assert stated["predicateType"] == SLSA_PROVENANCE
    assert stated["subject"][0]["digest"] == {"sha256": made.digest.removeprefix("sha256:")}
    assert stated["predicate"]["runDetails"]["builder"]["id"].startswith("https://aml-train.org/builder/")

    # A run that finds the image states nothing again.
    assert ensure(spec, None).how == "found"
    assert len(list_referrers(registry, spec.repository, made.digest)) == len(found)
