"""``image.sbom`` and ``image.scan``: the packages of an image, and its gate."""

from __future__ import annotations

from typing import Any, Final, Literal

from aml_train.config.section import key, make, record, section
from aml_train.config.yaml.shapes import Choice, Text
from aml_train.config.yaml.structures import Either

Severity = Literal["low", "medium", "high", "critical"]

_FORMAT: Final = Choice(words=("spdx", "cyclonedx"))


@section
class SbomConfig:
    """``image.sbom``: its format, and the image that has the program."""

    format: Literal["spdx", "cyclonedx"] = key(_FORMAT, "`spdx` (the default) or `cyclonedx`.", default="spdx")
    image: str | None = key(
        Text(noun="an image with its digest, such as `anchore/syft@sha256:…`", pattern=r"\S+@sha256:[0-9a-f]{64}"),
        "Image that has the program `/syft`, by its digest; the program `syft` of this machine by default.",
        default=None,
    )


@section
class ScanConfig:
    """``image.scan``: the gate of known vulnerabilities."""

    fail_on: Severity = key(
        Choice(words=("low", "medium", "high", "critical")),
        "Severity from which a known vulnerability fails the image: `low`, `medium`, `high` or `critical`.",
    )
    command: str = key(
        Text(noun="a program"),
        "Scanner that reads the list of packages and writes grype's JSON; `grype` by default.",
        default="grype",
    )


SBOM: Final = Either(
    noun="`spdx`, `cyclonedx`, or a mapping",
    scalar=_FORMAT,
    keys=record(SbomConfig, noun="a mapping with `format` or `image`"),
)
SCAN: Final = record(ScanConfig, noun="a mapping with `fail-on`")


def sbom_config(given: Any) -> SbomConfig | None:
    """Make ``image.sbom``; None without it."""
    if given is None:
        return None
    return make(SbomConfig, given) if isinstance(given, dict) else SbomConfig(format=given)


def scan_config(given: Any) -> ScanConfig | None:
    """Make ``image.scan``; None without it, or after a fault in it."""
    return make(ScanConfig, given) if isinstance(given, dict) and "fail-on" in given else None
