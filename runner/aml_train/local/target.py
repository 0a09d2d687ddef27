"""The target ``local``: the local AzureML in its container, with a registry on loopback. No cloud, no credentials."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from aml_train.azure import AzureV2, SignIn, Workspace, sign_in_to_azure
from aml_train.core.clock import Clock
from aml_train.core.events import Listener
from aml_train.image import ImageSpec, Tested, TestSpec
from aml_train.jobs import JobView, Pace, TargetNames
from aml_train.local.admin import name_environments
from aml_train.local.lifecycle import EmulatorInfo, EmulatorSettings, client_environment, start
from aml_train.local.presence import Presence, how_stopped

if TYPE_CHECKING:
    from docker import DockerClient

    from aml_train.config import ClusterConfig
    from aml_train.image import RegistryLocation

#: The emulator answers within milliseconds and has no rate limit.
_PACE = Pace(shortest=0.2, longest=1.0, share=0.05)
_LOGIN_SERVER = "amllocal.azurecr.io"
_COMPUTE = "local-cluster"


def local_names(settings: EmulatorSettings, target: str = "local") -> TargetNames:
    """Return what the local AzureML calls its things; they are the same in every instance."""
    return TargetNames(
        target=target,
        description=f"the local AzureML in the container {settings.name}",
        scope="local",
        registry_for_jobs=_LOGIN_SERVER,
        registry_for_engine=f"localhost:{settings.registry_port}",
        compute=_COMPUTE,
    )


@dataclass(kw_only=True)
class LocalTarget:
    """The local AzureML, started. Made by :func:`open_local`."""

    service: AzureV2
    pace: Pace
    engine: DockerClient
    outer: Mapping[str, str]
    names: TargetNames
    registry_address: str
    listener: Listener

    def ensure_image(self, spec: ImageSpec, tests: TestSpec | None, *, force: bool, commit: str | None) -> Tested:
        """Have the image built, tested and released in the loopback registry, or find that it is."""
        from aml_train.core.docker import buildkit_cli
        from aml_train.image import ensure_image

        return ensure_image(
            spec,
            tests,
            engine=self.engine,
            cli=lambda: buildkit_cli(self.outer),
            location=self._location(),
            listener=self.listener,
            force=force,
            commit=commit,
        )

    def ensure_compute(self, cluster: ClusterConfig, clock: Clock) -> None:
        """Have the cluster that the job is to run on: find it, or make it."""
        from aml_train.azure import ensure_cluster

        ensure_cluster(self.service, cluster, listener=self.listener, clock=clock)

    def find_image(self, spec: ImageSpec) -> Tested | None:
        """Return the image where the loopback registry has it."""
        from aml_train.image import find_image

        return find_image(spec, location=self._location())

    def _location(self) -> RegistryLocation:
        from aml_train.image import RegistryLocation

        return RegistryLocation(
            push_name=self.names.registry_for_engine,
            job_name=self.names.registry_for_jobs,
            url=f"http://{self.registry_address}",
            engine_runs_jobs=True,
        )


def open_local(
    settings: EmulatorSettings,
    *,
    engine: DockerClient,
    outer: Mapping[str, str],
    names: TargetNames,
    listener: Listener,
    environments: Mapping[str, str] | None = None,
) -> LocalTarget:
    """Start the emulator where it does not run yet, and point this process at it.

    The variables are those that ``aml-train emulator env`` prints; they are set before any Azure SDK is imported,
    because the SDKs read them at import and at each request.

    Args:
        settings: which emulator.
        engine: the engine that builds images and runs their tests.
        outer: the process's environment.
        names: see :func:`local_names`.
        listener: is told what is done.
        environments: images that play curated environments, by pattern.

    Raises:
        ServiceError: if the emulator does not start.
    """
    info = start(settings, listener)
    if environments:
        name_environments(info, environments)
    return LocalTarget(
        service=connect_local(info, outer, page=settings.page_origin),
        pace=_PACE,
        engine=engine,
        outer=outer,
        names=names,
        registry_address=info.registry_address,
        listener=listener,
    )


class LocalAzureML(AzureV2):
    """The local AzureML's workspace: its jobs are looked at on its own page, and not in the studio.

    Args:
        workspace: where.
        credential: signs in.
        page: the origin of the page, without a slash at its end.
        name: the container's name.
    """

    def __init__(self, workspace: Workspace, credential: SignIn, *, page: str, name: str) -> None:
        super().__init__(workspace, credential)
        settings = EmulatorSettings(name=name)
        self.session = Presence(lambda: how_stopped(settings))
        self._page = page

    def find(self, name: str) -> JobView | None:
        """See :meth:`aml_train.jobs.workspace.JobService.find`."""
        found = super().find(name)
        return found and dataclasses.replace(found, studio_url=f"{self._page}/ui/runs/{quote(found.name, safe='')}")


def connect_local(info: EmulatorInfo, outer: Mapping[str, str], *, page: str) -> LocalAzureML:
    """Point this process at the local AzureML, and return its workspace; *page* is the origin of its page."""
    variables = client_environment(info, outer)
    os.environ.update(variables)
    workspace = Workspace(
        subscription_id=info.subscription_id, resource_group=info.resource_group, name=info.workspace
    )
    return LocalAzureML(
        workspace, sign_in_to_azure({**variables, "AML_TRAIN_SIGN_IN": "secret"}), page=page, name=info.name
    )
