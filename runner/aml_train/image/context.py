"""The parameters of one run of the image stage, and the report of its steps."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aml_train.core.errors import ImageError
from aml_train.core.events import Listener, Notice, Stage, StageFinished, report_stage
from aml_train.core.retry import retry
from aml_train.core.threads import CancelToken
from aml_train.image.leftovers import CANDIDATE_SUFFIX
from aml_train.image.push import pull_image
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import ImageSpec, TestSpec

if TYPE_CHECKING:
    from docker import DockerClient


@dataclass(frozen=True, kw_only=True)
class ImageContext:
    """The parameters of one run of the image stage.

    Attributes:
        tests: the tests, or None if none are configured.
        engine: the engine that builds, tests and pushes; None where a service does.
        job_engine: the engine that jobs run on, if it is another one than *engine*.
    """

    spec: ImageSpec
    tests: TestSpec | None
    location: RegistryLocation
    registry: Registry
    listener: Listener
    engine: DockerClient | None = None
    commit: str | None = None
    job_engine: DockerClient | None = None

    @property
    def repository(self) -> str:
        """The repository that the image is released to, or found in."""
        return self.spec.repository

    @property
    def own(self) -> str:
        """The repository that this run writes tags and records to."""
        return self.spec.own_repository

    @property
    def places(self) -> tuple[str, ...]:
        """The repositories that records of an image are read from."""
        return tuple(dict.fromkeys((self.repository, self.own)))

    @property
    def candidates(self) -> str:
        """The repository that the engine pushes to before the tests have passed."""
        return f"{self.own}{CANDIDATE_SUFFIX}"

    @property
    def docker(self) -> DockerClient:
        """The engine, in the work of a builder that has one."""
        if self.engine is None:
            raise ValueError("this builder has no engine")
        return self.engine

    def pull(
        self,
        manifest: Manifest,
        *,
        engine: DockerClient | None = None,
        repository: str | None = None,
        token: CancelToken | None = None,
    ) -> str:
        """Have an image in the engine, named by its digest; return its image id.

        Args:
            manifest: of the image.
            engine: another engine than the builder's.
            repository: another one than that of released images.
            token: ends the waiting between attempts.
        """

        repository = repository or self.repository
        name = f"{self.location.push_name}/{repository}"

        def pull() -> str:
            auth = self.location.credentials()
            return pull_image(engine or self.docker, name, manifest.digest, auth=auth, listener=self.listener)

        def check() -> None:
            if self.registry.head_manifest(repository, manifest.digest) is None:
                raise ImageError(f"{self.registry.host} no longer has {repository}@{manifest.digest}")

        image_id = retry(
            pull, check=check, renew=self.location.renew, listener=self.listener, token=token or CancelToken()
        )
        if not manifest.is_index and image_id not in (manifest.config_digest, manifest.digest):
            raise ImageError(f"the engine has {image_id} as {name}@{manifest.digest}, which is another image")
        return image_id

    def note(self, text: str) -> None:
        """Report something that the user should know."""
        self.listener(Notice(text=text))

    def warn(self, text: str) -> None:
        """Report something to act on."""
        self.listener(Notice(text=text, level="warning"))

    def stage(self, stage: Stage, title: str) -> AbstractContextManager[list[str]]:
        """Report the begin of *stage* and, if it succeeds, its end with the summary."""
        return report_stage(stage, title, emit=self.listener)

    def finish(self, stage: Stage, summary: str, started: float, *, skipped: bool = False) -> None:
        """Report the end of *stage*."""
        seconds = time.monotonic() - started
        self.listener(StageFinished(stage=stage, summary=summary, seconds=seconds, skipped=skipped))
