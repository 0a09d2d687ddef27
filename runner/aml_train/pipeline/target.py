"""Targets: the local AzureML, or a workspace in Azure.

Runs, jobs, data and promotions all open theirs here.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from aml_train.azure.acr import password_of
from aml_train.azure.names import find_workspace
from aml_train.azure.target import WorkspaceTarget, check_azure, connect_azure
from aml_train.config.sections.image_builder import BuilderConfig
from aml_train.core.docker import connect_engine
from aml_train.core.sweep import sweep_folders
from aml_train.image.builders.place import BuildPlace
from aml_train.image.leftovers import sweep_leftovers
from aml_train.local.admin import register_environments
from aml_train.local.lifecycle import find_emulator, start_emulator
from aml_train.local.settings import EmulatorSettings
from aml_train.local.target import connect_local

if TYPE_CHECKING:
    from docker import DockerClient

    from aml_train.azure.credentials import Assertion
    from aml_train.azure.sign_in import Fetched
    from aml_train.config.sections.targets import ClusterConfig, TargetConfig
    from aml_train.core.clock import Clock
    from aml_train.core.events import Listener
    from aml_train.image.registry.client import Registry, RegistryLocation
    from aml_train.image.spec import ImageSpec, Tested, TestSpec
    from aml_train.jobs.pace import Pace
    from aml_train.jobs.workspace import Workspace
    from aml_train.models.promotion.promote import Promoter
    from aml_train.pipeline.plan import Plan


def _ignore(_token: str) -> None:
    """Do nothing with a token: on the command line nothing masks."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """This process: its environment, its Docker engine, its sign-in to Azure.

    The environment is read once.

    Attributes:
        environ: the environment as it was found; a local target adds its own variables to the process later.
        assertion: fetches federated assertions to sign in to Azure with; None if the caller cannot.
        on_token: receives, to mask them, each token of Azure and its registries before it is used, and the secrets among the
            variables of the jobs that are read.
    """

    environ: Mapping[str, str] = field(repr=False)
    assertion: Assertion | None = None
    on_token: Fetched = _ignore

    def engine(self) -> DockerClient:
        """Return the Docker engine, to which this connects once.

        Raises:
            ImageError: it does not answer.
        """
        return self._engine

    def place(self, builder: BuilderConfig) -> BuildPlace:
        """Return the place where *builder* builds images; nothing is connected yet."""
        return BuildPlace(config=builder, local=self.engine, environ=self.environ)

    @functools.cached_property
    def _engine(self) -> DockerClient:
        return connect_engine(self.environ)


class Target(Protocol):
    """A target that is ready for a run."""

    @property
    def service(self) -> Workspace:
        """The workspace's jobs, metrics and models."""

    @property
    def pace(self) -> Pace:
        """How often this target may be queried."""

    def ensure_image(self, spec: ImageSpec, tests: TestSpec | None, *, force: bool, commit: str | None) -> Tested:
        """Build, test and push the image, or find it in the target's registry."""

    def ensure_compute(self, cluster: ClusterConfig, clock: Clock) -> None:
        """Find the cluster that the job runs on, or create it."""

    def find_image(self, spec: ImageSpec) -> Tested | None:
        """Return the image if it exists in the target's registry; build and run nothing."""

    def find_build(self, spec: ImageSpec, tests: TestSpec | None, known: Tested, digest: str) -> Tested | None:
        """Return the image *digest*, if it is another build of the address of *known* in which *tests* have passed."""

    def image_registry(self) -> RegistryLocation:
        """Return how the registry of the target's images is reached."""

    def registry(self, host: str) -> Registry | None:
        """Return the client of a registry by its host; None for one that is not reached."""


class TargetOverride(Target, Protocol):
    """A workspace in memory that is used in place of every target, in tests of programs that use aml-train."""

    def workspace(self) -> Any:
        """Return the :class:`aml_train.api.workspace.Workspace` that reads it."""

    def promoter(self, emit: Listener) -> Promoter:
        """Return the promoter of its models."""


_present: list[TargetOverride] = []


def target_override() -> TargetOverride | None:
    """Return the override that is in place; None if there is none."""
    return _present[-1] if _present else None


@contextlib.contextmanager
def overriding_targets(one: TargetOverride) -> Iterator[None]:
    """Use *one* in place of every target of this process, during the block."""
    _present.append(one)
    try:
        yield
    finally:
        _present.remove(one)


def open_target(host: Host, plan: Plan, emit: Listener) -> Target:
    """Open the target of a run.

    Start the local AzureML, or sign in to Azure and check workspace and compute.

    Before that, remains of killed runs on this machine are removed.

    Raises:
        InvalidError: there is no such compute, or the target's workspace or the registry's password is missing.
        ServiceError: the sign-in fails, there is no such workspace, or the local AzureML does not start.
        ImageError: the engine does not answer.
    """
    if (instead := target_override()) is not None:
        return instead
    config = plan.config
    sweep_folders(emit)
    place = host.place(config.builder)
    engine = place.engine if plan.images else None
    if engine is not None:
        sweep_leftovers(engine, emit)
    if config.target.kind == "azure":
        password_of(config.target, host.environ)  # a missing one is reported before anything is looked up
        opened = open_workspace(host, config.target, config.directory, emit, place)
        compute = plan.job.document.get("compute")
        check_azure(opened, compute if config.target.cluster is None else None)
        return replace(opened, compute=compute)
    settings = EmulatorSettings.from_environment(host.environ)
    info = start_emulator(settings, emit, engine=host.engine())
    register_environments(info, config.target.environments)
    opened = connect_local(config.target, settings, info, place=place, listener=emit, fetched=host.on_token)
    return replace(opened, job_engine=host.engine())


def open_workspace(
    host: Host, target: TargetConfig, directory: Path, emit: Listener, place: BuildPlace | None = None
) -> WorkspaceTarget:
    """Connect to a target's workspace, to browse or promote.

    The local AzureML is started if it does not run.

    Args:
        host: this process.
        target: which target.
        directory: the project folder, which may have a config.json.
        emit: receives what is started.
        place: where a run builds its images.

    Raises:
        InvalidError: the target's workspace is not configured.
        ServiceError: there is nothing to sign in with, or the local AzureML does not start.
    """
    place = place or host.place(BuilderConfig())
    if target.kind == "azure":
        where = find_workspace(target, directory, host.environ)
        return connect_azure(
            target, where, place=place, assertion=host.assertion, listener=emit, fetched=host.on_token
        )
    settings = EmulatorSettings.from_environment(host.environ)
    info = find_emulator(settings) or start_emulator(settings, emit)
    return connect_local(target, settings, info, place=place, listener=emit, fetched=host.on_token)


def find_open_workspace(host: Host, target: TargetConfig, directory: Path) -> WorkspaceTarget | None:
    """Connect to a target's workspace without starting it.

    Return None if the local AzureML does not run.

    Raises:
        InvalidError: the target's workspace is not configured.
        ServiceError: there is nothing to sign in with.
    """
    if target.kind == "local" and find_emulator(EmulatorSettings.from_environment(host.environ)) is None:
        return None
    return open_workspace(host, target, directory, lambda _event: None)
