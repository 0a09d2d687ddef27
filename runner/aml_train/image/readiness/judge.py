"""Judge the probe's facts: is an image ready for AzureML and InfiniBand? Pure.

The facts are kept with the image, not the verdict: rules and the user's exceptions may change without the image being looked into
again.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from aml_train.core.checks import Finding, Level
from aml_train.core.errors import ImageError
from aml_train.image.readiness.facts import Facts
from aml_train.image.readiness.rules_azureml import ALWAYS_RULES, AZUREML_RULES
from aml_train.image.readiness.rules_gpu import GPU_RULES
from aml_train.image.readiness.rules_infiniband import INFINIBAND_RULES
from aml_train.image.spec import CheckPolicy

_ORDER: Final[tuple[Level, ...]] = ("error", "warning", "info")


@functools.cache
def probe_script() -> bytes:
    """Return the text of the probe that runs in the image."""
    return files("aml_train.image.readiness").joinpath("probe.py").read_bytes()


@functools.cache
def probe_key() -> str:
    """Return this probe's name, 16 hexadecimal digits: facts of others do not count."""
    return hashlib.sha256(probe_script()).hexdigest()[:16]


def judge_facts(facts: Facts, policy: CheckPolicy) -> tuple[Finding, ...]:
    """Return what there is to say of an image, the worst first.

    Args:
        facts: the probe's, with ``image`` as the engine reports it.
        policy: what is wanted of the image, and what is allowed.
    """
    rules = ALWAYS_RULES
    if facts["python"] is not None:
        rules += AZUREML_RULES + INFINIBAND_RULES + GPU_RULES
    found = [
        dataclasses.replace(finding, ignored=finding.check in policy.ignore and finding.level != "info")
        for rule in rules
        for finding in rule(facts, policy)
    ]
    return tuple(sorted(found, key=lambda finding: _ORDER.index(finding.counts_as)))


def readiness_error(findings: Sequence[Finding]) -> ImageError | None:
    """Return the error that *findings* mean, or None where the image is ready."""
    errors = [finding for finding in findings if finding.counts_as == "error"]
    if not errors:
        return None
    listed = "".join(f"\n  {finding}" for finding in errors)
    names = ", ".join(dict.fromkeys(finding.check for finding in errors))
    return ImageError(
        f"the image is not ready for AzureML: {len(errors)} {'check fails' if len(errors) == 1 else 'checks fail'}{listed}",
        hint=f"To allow it all the same, add to aml-train.yml: `image: {{checks: {{ignore: [{names}]}}}}`.",
    )


def summary(findings: Sequence[Finding]) -> str:
    """Return in a few words what was found."""
    counts = {level: sum(finding.counts_as == level for finding in findings) for level in _ORDER}
    words = [
        f"{counts[level]} {level}{'s' if counts[level] != 1 else ''}"
        for level in ("error", "warning")
        if counts[level]
    ]
    return ", ".join(words) or "ready"
