"""The provenance of an image."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from aml_train.image.provenance import SLSA_PROVENANCE, provenance
from tests.support.image_configs import DIGEST, FULL, plan

TIMES = {"started": "2026-11-21T10:00:00+00:00", "finished": "2026-11-21T10:01:00+00:00"}


def _provenance(commit: str | None = "c0ffee") -> dict[str, Any]:
    spec = replace(plan(FULL), trees={})  # the folder of the tree is not there
    return provenance(spec, DIGEST, commit=commit, name="r.test/digits", builder="docker-engine 29.1", **TIMES)


def test_a_provenance_names_what_went_into_the_build() -> None:
    stated = _provenance()
    assert stated["predicateType"] == SLSA_PROVENANCE
    assert stated["subject"] == [{"name": "r.test/digits", "digest": {"sha256": "a" * 64}}]
    definition, details = stated["predicate"]["buildDefinition"], stated["predicate"]["runDetails"]
    parts = {one["uri"]: one["digest"] for one in definition["resolvedDependencies"]}
    assert parts["docker://nvcr.io/nvidia/pytorch"] == {"sha256": "a" * 64}
    assert parts["git+commit"] == {"gitCommit": "c0ffee"}
    assert parts["requirements.txt"]["sha256"]
    assert details["builder"]["id"] == "https://aml-train.org/builder/docker-engine"
    assert details["metadata"] == {"startedOn": TIMES["started"], "finishedOn": TIMES["finished"]}


def test_secrets_are_in_a_provenance_by_name_only() -> None:
    parameters = _provenance()["predicate"]["buildDefinition"]["externalParameters"]
    assert parameters["secrets"] == ["logins", "other", "token"]
    assert "TOKEN" not in json.dumps(_provenance())
