"""What a target calls its things. Values only: known before anything is started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TargetNames:
    """A target's names.

    Attributes:
        target: the target's name in the configuration.
        description: a few words for people.
        scope: enters the job's fingerprint: two targets never share a job.
        registry_for_jobs: the registry's name that jobs and records carry.
        registry_for_engine: the registry's name that the engine pushes to.
        compute: the compute that jobs run on unless the configuration says otherwise; None leaves the job's own.
    """

    target: str
    description: str
    scope: str
    registry_for_jobs: str
    registry_for_engine: str
    compute: str | None
