"""What one run of the image stage works with, and how its steps are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.core.events import Listener, Notice, Stage, StageFinished, StageStarted
from aml_train.core.retry import retry
from aml_train.core.threads import CancelToken
from aml_train.image.push import pull_image
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import ImageSpec, TestSpec

if TYPE_CHECKING:
    from docker import DockerClient


@dataclass(frozen=True, kw_only=True)
class Work:
    """One run's parameters, as :func:`aml_train.image.ensure.ensure_image` got them, with the registry's client.

    Attributes:
        spec: the image.
        tests: the tests, or None where none are configured.
        engine: the engine that builds and runs the tests.
        cli: finds the command to build with.
        location: the registry's names.
        listener: told what happens.
        commit: recorded with the tests.
        release_tags: every tag that the released image gets beside those of its address and its digest.
        registry: the registry's client.
    """

    spec: ImageSpec
    tests: TestSpec | None
    engine: DockerClient
    cli: Callable[[], BuildCli]
    location: RegistryLocation
    listener: Listener
    commit: str | None
    release_tags: tuple[str, ...]
    registry: Registry

    def pull(self, manifest: Manifest) -> str:
        """Have a released image in the engine, named by its digest; return its image id."""
        name = f"{self.location.push_name}/{self.spec.repository}"

        def pull() -> str:
            auth = self.location.credentials()
            return pull_image(self.engine, name, manifest.digest, auth=auth, listener=self.listener)

        def check() -> None:
            if self.registry.head_manifest(self.spec.repository, manifest.digest) is None:
                raise ImageError(
                    f"{self.registry.host} does not have {self.spec.repository}@{manifest.digest} any more"
                )

        image_id = retry(pull, check=check, renew=self.location.renew, listener=self.listener, token=CancelToken())
        if not manifest.is_index and image_id not in (manifest.config_digest, manifest.digest):
            raise ImageError(f"the engine has {image_id} as {name}@{manifest.digest}, which is another image")
        return image_id

    def warn(self, text: str) -> None:
        self.listener(Notice(text=text, level="warning"))

    @contextmanager
    def stage(self, stage: Stage, title: str) -> Iterator[Callable[[str], None]]:
        """Tell begin and, if all went well, end of *stage*; the summary is handed to what is yielded."""
        started = time.monotonic()
        self.listener(StageStarted(stage=stage, title=title))
        summaries: list[str] = []
        yield summaries.append
        self.finish(stage, summaries[-1], started)

    def finish(self, stage: Stage, summary: str, started: float, *, skipped: bool = False) -> None:
        seconds = time.monotonic() - started
        self.listener(StageFinished(stage=stage, summary=summary, seconds=seconds, skipped=skipped))
