"""An image's attestations: made from the image that the engine has, kept in a real registry as referrers, and the scan that they allow."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from aml_train.config.sections.image import SbomConfig, ScanConfig
from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.image.attestations import IN_TOTO, SLSA_PROVENANCE
from aml_train.image.registry.client import Registry
from aml_train.image.registry.referrers import list_referrers, read_referrer
from aml_train.image.spec import ImageSpec, Tested

Ensure = Callable[..., Tested]
_GRYPE = """\
#!/bin/sh
cat > {seen}
echo '{{"matches": [{{"vulnerability": {{"id": "CVE-1", "severity": "{severity}"}}, "artifact": {{"name": "pytest"}}}}]}}'
"""


def scanner(folder: Path, severity: str) -> str:
    """Write a scanner that finds one vulnerability; return its path."""
    file = folder / f"scan-{severity}"
    file.write_text(_GRYPE.format(seen=folder / "seen.json", severity=severity))
    file.chmod(0o755)
    return str(file)


@pytest.mark.full
def test_the_attestations_of_an_image_are_its_referrers(
    spec: ImageSpec, ensure: Ensure, registry: Registry, cli: BuildCli, tmp_path: Path
) -> None:
    spec = replace(spec, sbom=SbomConfig(), scan=ScanConfig(fail_on="critical", command=scanner(tmp_path, "High")))
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
    assert json.loads((tmp_path / "seen.json").read_text()) == listed

    # A run that finds the image makes no attestations again, but scans again.
    (tmp_path / "seen.json").unlink()
    assert ensure(spec, None).how == "found"
    assert (tmp_path / "seen.json").exists()
    assert len(list_referrers(registry, spec.repository, made.digest)) == len(found)

    bad = replace(spec, scan=ScanConfig(fail_on="critical", command=scanner(tmp_path, "Critical")))
    with pytest.raises(
        ImageError, match=r"known vulnerabilities of severity critical or above: CVE-1 \(critical\): pytest"
    ):
        ensure(bad, None)


@pytest.mark.full
def test_an_image_that_the_scan_refuses_is_not_released(
    spec: ImageSpec, ensure: Ensure, registry: Registry, tmp_path: Path
) -> None:
    spec = replace(spec, sbom=SbomConfig(), scan=ScanConfig(fail_on="high", command=scanner(tmp_path, "Critical")))
    with pytest.raises(ImageError, match="CVE-1"):
        ensure(spec, None)
    assert registry.tags(spec.repository) == []
