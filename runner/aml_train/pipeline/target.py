"""The target of a run: a workspace's jobs and models, and the registry that its images go to."""

from __future__ import annotations

from typing import Protocol

from aml_train.config import ClusterConfig
from aml_train.core.clock import Clock
from aml_train.image import ImageSpec, Tested, TestSpec
from aml_train.jobs import JobService, Pace


class Target(Protocol):
    """A target that is ready for work."""

    @property
    def service(self) -> JobService:
        """The workspace's jobs, metrics and models."""

    @property
    def pace(self) -> Pace:
        """How often this target may be queried."""

    def ensure_image(self, spec: ImageSpec, tests: TestSpec | None, *, force: bool, commit: str | None) -> Tested:
        """Build, test and push the image, or find it in the target's registry."""

    def ensure_compute(self, cluster: ClusterConfig, clock: Clock) -> None:
        """Find the cluster that the job runs on, or create it."""

    def find_image(self, spec: ImageSpec) -> Tested | None:
        """Return the image if the target's registry has it; build and run nothing."""
