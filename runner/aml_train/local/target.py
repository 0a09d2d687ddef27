"""The target ``local``: the local AzureML, with a registry on loopback."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import requests

from aml_train.azure.acr_tasks import build_service
from aml_train.azure.compute import ensure_cluster
from aml_train.azure.http import WorkspaceId
from aml_train.azure.sdk_v2 import AzureV2
from aml_train.azure.sign_in import Fetched, SignIn
from aml_train.core.answers import Answer
from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError, ServiceError
from aml_train.core.events import Listener
from aml_train.core.http_client import Session
from aml_train.image.ensure import ensure_image, find_build, find_image
from aml_train.image.registry.client import RegistryLocation
from aml_train.image.spec import ImageSpec, Tested, TestSpec
from aml_train.jobs.pace import Pace
from aml_train.jobs.spec import TargetNames
from aml_train.jobs.workspace import JobView
from aml_train.local import container as containers
from aml_train.local.admin import register_environments
from aml_train.local.environment import client_environment, write_ca
from aml_train.local.lifecycle import start_emulator
from aml_train.local.settings import EmulatorInfo, EmulatorSettings
from aml_train.local.sign_in import sign_in_to_local

if TYPE_CHECKING:
    from docker import DockerClient

    from aml_train.config.sections.image_builder import BuilderConfig
    from aml_train.config.sections.targets import ClusterConfig
    from aml_train.image.builders.place import BuildPlace
    from aml_train.image.builders.service import BuildService
    from aml_train.image.registry.client import Registry

#: Seconds for which a run waits for a container that has stopped: enough to start it, and to replace it by a newer one.
PATIENCE: Final = 120.0
START: Final = "Start it: aml-train emulator start. Then run the same command again to attach to the job."
_KILLED: Final = 137


class EmulatorSession(Session):
    """A session with the local AzureML, which says so when its container has stopped.

    Args:
        stopped: returns how the container has ended, None if it runs or the engine does not answer.
        ca: path of the CAs that its certificates are checked with; those of the environment by default.
        proxy: address of its proxy, which serves all hosts of Azure; by default the environment is read for each request.
        now: seconds of a clock that only grows.
    """

    def __init__(
        self,
        stopped: Callable[[], str | None],
        *,
        ca: Path | None = None,
        proxy: str | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._ca = ca
        if proxy is not None:
            self.trust_env = False
            self.proxies = {"https": proxy}
        self._stopped = stopped
        self._now = now
        self._since: float | None = None

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request.

        Raises:
            ServiceError: the container has stopped; transient as long as it may be about to be started again.
        """
        if self._ca is not None:  # requests prefers the environment's to `verify` of the session
            options["verify"] = str(self._ca)
        try:
            response = super().send(request, **options)
        except requests.ConnectionError as error:
            how = self._stopped()
            if how is None:
                raise
            self._since = self._now() if self._since is None else self._since
            waiting = self._now() - self._since < PATIENCE
            raise ServiceError(f"{how} {START}", transient=waiting) from error
        self._since = None
        return response


def how_stopped(settings: EmulatorSettings) -> str | None:
    """Return a sentence on how the container has ended; None if it runs."""

    try:
        client = containers.connect()
        try:
            container = containers.find(client, settings)
        finally:
            client.close()
    except AmlTrainError:
        return None
    if container is None:
        return f"The local AzureML's container {settings.name} is gone."
    return ending(settings.name, container.status, container.attrs.get("State") or {})


def ending(name: str, status: str, state: dict[str, Any]) -> str | None:
    """Return how a container has ended; None for one that runs or starts."""
    if status in {"created", "running", "restarting"}:
        return None
    if status == "paused":
        return f"The local AzureML's container {name} is paused."
    code = state.get("ExitCode")
    why = (
        ": the machine ran out of memory" if state.get("OOMKilled") else ": it was killed" if code == _KILLED else ""
    )
    return f"The local AzureML's container {name} has stopped with exit code {code}{why}."


#: The emulator answers within milliseconds and has no rate limit.
LOCAL_PACE = Pace(shortest=0.2, longest=1.0, share=0.05)
_LOGIN_SERVER = "amllocal.azurecr.io"
_COMPUTE = "local-cluster"


def local_names(settings: EmulatorSettings, target: str = "local") -> TargetNames:
    """Return the local AzureML's names; they are the same in every instance."""
    return TargetNames(
        target=target,
        description=f"the local AzureML in the container {settings.name}",
        scope="local",
        registry_for_jobs=_LOGIN_SERVER,
        registry_for_engine=f"localhost:{settings.registry_port}",
        compute=_COMPUTE,
    )


@dataclass(frozen=True, kw_only=True)
class LocalTarget:
    """The local AzureML, started. Made by :func:`open_local`."""

    service: AzureV2
    pace: Pace
    engine: DockerClient
    place: BuildPlace
    names: TargetNames
    registry_address: str
    listener: Listener

    def ensure_image(self, spec: ImageSpec, tests: TestSpec | None, *, force: bool, commit: str | None) -> Tested:
        """Build, test and release the image in the loopback registry, or find it."""

        return ensure_image(
            spec,
            tests,
            engine=self.place.engine(),
            cli=self.place.cli,
            builder=self.place.builder(self._build_service),
            job_engine=self.engine,
            location=self.image_registry(),
            listener=self.listener,
            force=force,
            commit=commit,
        )

    def _build_service(self, config: BuilderConfig) -> BuildService:

        return build_service(config, self.service, self.image_registry(), self.listener)

    def ensure_compute(self, cluster: ClusterConfig, clock: Clock) -> None:
        """Have the cluster that the job is to run on: find it, or make it."""

        ensure_cluster(self.service, cluster, listener=self.listener, clock=clock)

    def find_image(self, spec: ImageSpec) -> Tested | None:
        """Return the image if the loopback registry has one."""

        return find_image(spec, location=self.image_registry())

    def find_build(self, spec: ImageSpec, tests: TestSpec | None, known: Tested, digest: str) -> Tested | None:
        """Return another tested build of the address of *known*, by its digest."""

        return find_build(spec, tests, known, digest, location=self.image_registry(), listener=self.listener)

    def registry(self, host: str) -> Registry | None:
        """Return the client of the loopback registry by the name that jobs have for it."""
        return self.image_registry().client() if host == self.names.registry_for_jobs else None

    def image_registry(self) -> RegistryLocation:
        """Return how the registry of the target's images is reached."""

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
    place: BuildPlace,
    outer: Mapping[str, str],
    names: TargetNames,
    listener: Listener,
    environments: Mapping[str, str] | None = None,
    fetched: Fetched = lambda _token: None,
) -> LocalTarget:
    """Start the emulator where it does not run yet, and point this process at it.

    The variables are those that ``aml-train emulator env`` prints; they are set before any Azure SDK is imported,
    because the SDKs read them at import and at each request.

    Args:
        settings: which emulator.
        engine: the engine that runs jobs.
        place: builds images and runs their tests.
        outer: the process's environment.
        names: see :func:`local_names`.
        listener: receives each step that is taken.
        environments: images that play curated environments, by pattern.
        fetched: receives each token, and the secrets of jobs that are read.

    Raises:
        ServiceError: if the emulator does not start.
    """
    info = start_emulator(settings, listener, engine=engine)
    if environments:
        register_environments(info, environments)
    service = connect_local(info, outer, page=settings.page_origin, fetched=fetched)
    service.look_ahead()
    return LocalTarget(
        service=service,
        pace=LOCAL_PACE,
        engine=engine,
        place=dataclasses.replace(place, environ=outer),
        names=names,
        registry_address=info.registry_address,
        listener=listener,
    )


class LocalAzureML(AzureV2):
    """The local AzureML's workspace, whose jobs link to its page, not the studio.

    Args:
        workspace: where.
        credential: signs in.
        page: the origin of the page, without a slash at its end.
        session: sends the requests; by default one that does as the environment says.
    """

    def __init__(
        self, workspace: WorkspaceId, credential: SignIn, *, page: str, session: EmulatorSession | None = None
    ) -> None:
        super().__init__(workspace, credential)
        self.session = session or self.session
        self._page = page

    def view_of(self, name: str, properties: Answer) -> JobView:
        """See :meth:`AzureRest.view_of`; the pages are those of the local AzureML."""
        view = super().view_of(name, properties)
        return dataclasses.replace(
            view,
            studio_url=f"{self._page}/ui/runs/{quote(name, safe='')}",
            experiment_url=f"{self._page}/ui/?experiment={quote(view.experiment or '', safe='')}",
        )


def connect_local(
    info: EmulatorInfo, outer: Mapping[str, str], *, page: str, fetched: Fetched = lambda _token: None
) -> LocalAzureML:
    """Point this process at the local AzureML; return its workspace.

    *page* is the origin of its page. *fetched* receives each token, and the secrets of jobs that are read.
    """
    variables = client_environment(info, outer)
    _enter(variables)
    workspace = WorkspaceId(
        subscription_id=info.subscription_id, resource_group=info.resource_group, name=info.workspace
    )
    settings = EmulatorSettings(name=info.name)
    session = EmulatorSession(lambda: how_stopped(settings), ca=write_ca(info), proxy=variables["HTTPS_PROXY"])
    return LocalAzureML(workspace, sign_in_to_local(variables, session, fetched), page=page, session=session)


#: Each variable of this process that leads to the local AzureML, with its value before and ours.
_changed: Final[dict[str, tuple[str | None, str]]] = {}


def _enter(variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        before = _changed[name][0] if name in _changed else os.environ.get(name)
        _changed[name] = before, value
    os.environ.update(variables)


def environment_before() -> dict[str, str]:
    """Return this process's environment without the variables of a local AzureML.

    A variable that was changed since is as it is.
    """
    found = dict(os.environ)
    for name, (before, ours) in _changed.items():
        if found.get(name) == ours:
            del found[name]
            if before is not None:
                found[name] = before
    return found


def leave_local() -> None:
    """Undo the variables of this process that lead to the local AzureML.

    A program that runs with it, and afterwards in Azure, calls this in between.
    """
    before = environment_before()
    for name in list(_changed):
        if name in before:
            os.environ[name] = before[name]
        else:
            os.environ.pop(name, None)
    _changed.clear()
