"""Targets: a workspace with its registries, and what is checked of one in Azure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from aml_train.azure.acr import location_of, password_of
from aml_train.azure.clouds import Cloud, cloud_named
from aml_train.azure.compute import ensure_cluster
from aml_train.azure.credentials import Assertion
from aml_train.azure.names import WorkspaceId, nearest_of
from aml_train.azure.sdk_v2 import AzureV2
from aml_train.azure.sign_in import Fetched, sign_in_to_azure, without_secrets
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import Answer
from aml_train.core.clock import Clock
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.events import Listener, Notice
from aml_train.image.ensure import ensure_image, find_build, find_image
from aml_train.image.spec import ImageSpec, Tested, TestSpec
from aml_train.jobs.pace import Pace
from aml_train.jobs.spec import SERVERLESS

if TYPE_CHECKING:
    from docker import DockerClient

    from aml_train.config.sections.image_builder import BuilderConfig
    from aml_train.config.sections.targets import ClusterConfig, TargetConfig
    from aml_train.image.builders.place import BuildPlace
    from aml_train.image.builders.service import BuildService
    from aml_train.image.registry.client import Registry, RegistryLocation

#: Azure limits how often a principal may ask: https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling
AZURE_PACE: Final = Pace(shortest=1.0, longest=60.0, share=0.05)
_WORKSPACES_API: Final = "2024-10-01-preview"
_REGISTRY_API: Final = "2023-07-01"


@dataclass(frozen=True, kw_only=True)
class Registries:
    """The registries that a workspace uses, signed in to when they are reached.

    Attributes:
        settings: the target's.
        service: the workspace.
        secrets: an environment that has the password of the target's ``registry-user``, where there is one.
        outer: names proxies, certificates and Docker's configuration.
        listener: receives a notice if ``docker login`` replaces an identity that is refused.
        fetched: receives each secret.
        loopback: the registry of the local AzureML, where that is the target.
    """

    settings: TargetConfig
    service: AzureV2
    secrets: Mapping[str, str] = field(repr=False)
    outer: Mapping[str, str] = field(repr=False)
    listener: Listener
    fetched: Fetched
    loopback: RegistryLocation | None = None

    def host(self) -> str:
        """Return the name that jobs have for the registry of the target's images: its ``registry``, or the workspace's own.

        Raises:
            ServiceError: the workspace has none, or the identity may not see it.
        """
        if self.loopback is not None:
            return self.loopback.job_name
        return self.settings.registry or login_server(self.service)

    def own(self) -> RegistryLocation:
        """Return how the registry of the target's images is reached."""
        return self.loopback or self._location(self.host(), self.settings)

    def named(self, host: str) -> RegistryLocation | None:
        """Return how the registry *host*, which a job names, is reached; None for one that is not."""
        if self.loopback is not None:
            return self.loopback if host == self.host() else None
        return self.administered(host)

    def administered(self, host: str) -> RegistryLocation | None:
        """Return the same by Azure's own interface, which lists and deletes manifests."""
        if self.loopback is not None and host != self.host():
            return None
        return self._location(host, settings_for(host, self.settings, self.service))

    def _location(self, host: str, settings: TargetConfig) -> RegistryLocation:
        return location_of(
            host,
            settings,
            password=password_of(settings, self.secrets),
            sign_in=self.service.credential,
            scope=self.service.cloud.registry_scope,
            outer=self.outer,
            listener=self.listener,
            fetched=self.fetched,
        )


@dataclass(frozen=True, kw_only=True)
class WorkspaceTarget:
    """A workspace and its registries, signed in to.

    Attributes:
        service: the workspace.
        pace: how often a job's status is read.
        registries: where the images are.
        place: builds images and runs their tests.
        listener: receives events.
        compute: what the job will run on, as in its document; None for a serverless job.
        job_engine: the engine that jobs run on, where they run on this machine.
    """

    service: AzureV2
    pace: Pace
    registries: Registries
    place: BuildPlace
    listener: Listener
    compute: str | None = None
    job_engine: DockerClient | None = None

    def ensure_image(self, spec: ImageSpec, tests: TestSpec | None, *, force: bool, commit: str | None) -> Tested:
        """Build, test and release the image in the target's registry, or find it."""
        location = self.image_registry()

        def service(config: BuilderConfig) -> BuildService:
            from aml_train.azure.acr_tasks import build_service

            return build_service(config, self.service, location, self.listener)

        return ensure_image(
            spec,
            tests,
            engine=self.place.engine,
            builder=self.place.builder(service),
            job_engine=self.job_engine,
            location=location,
            listener=self.listener,
            force=force,
            commit=commit,
        )

    def ensure_compute(self, cluster: ClusterConfig, clock: Clock) -> None:
        """Have the cluster that the job is to run on: find it, or make it."""
        ensure_cluster(self.service, cluster, listener=self.listener, clock=clock)

    def find_image(self, spec: ImageSpec) -> Tested | None:
        """Return the image if the target's registry has one."""
        return find_image(spec, location=self.image_registry())

    def find_build(self, spec: ImageSpec, tests: TestSpec | None, known: Tested, digest: str) -> Tested | None:
        """Return another tested build of the address of *known*, by its digest."""
        return find_build(spec, tests, known, digest, location=self.image_registry(), listener=self.listener)

    def image_registry(self) -> RegistryLocation:
        """Return how the registry of the target's images is reached."""
        return self.registries.own()

    def registry(self, host: str) -> Registry | None:
        """Return the client of the registry *host*, which a job names; None for one that is not reached."""
        location = self.registries.named(host)
        return None if location is None else location.client()


def connect_azure(
    settings: TargetConfig,
    workspace: WorkspaceId,
    *,
    place: BuildPlace,
    assertion: Assertion | None,
    listener: Listener,
    fetched: Fetched = lambda _token: None,
) -> WorkspaceTarget:
    """Return a workspace in Azure with the chosen identity, without a request.

    Args:
        settings: the target's.
        workspace: where.
        place: builds images and runs their tests. Its environment chooses the sign-in (:mod:`aml_train.azure.sign_in`) and the
            cloud (``AZURE_ENVIRONMENT``); what it starts gets that without the secrets.
        assertion: fetches federated assertions, where the caller can.
        listener: receives events.
        fetched: receives each token that Azure and the registry give.

    Raises:
        ServiceError: there is nothing to sign in with.
        InvalidError: the choice is unknown or ambiguous.
    """
    environ = place.environ
    cloud = cloud_named(environ.get("AZURE_ENVIRONMENT", ""))
    identity = sign_in_to_azure(
        environ,
        cloud=cloud,
        assertion=assertion,
        fetched=fetched,
        named=settings.sign_in,
        subscription=workspace.subscription_id,
    )
    service = AzureV2(workspace, identity, cloud)
    outer = without_secrets(environ, settings.registry_password_variable)
    return WorkspaceTarget(
        service=service,
        pace=AZURE_PACE,
        registries=Registries(
            settings=settings, service=service, secrets=environ, outer=outer, listener=listener, fetched=fetched
        ),
        place=replace(place, environ=outer),
        listener=listener,
    )


def check_azure(target: WorkspaceTarget, compute: str | None) -> None:
    """Sign in, and find that the workspace and, unless it is None, *compute* are there.

    Raises:
        ServiceError: the sign-in fails, or there is no such workspace.
        InvalidError: there is no such compute.
    """
    service = target.service
    target.listener(Notice(text=f"Signing in to {_cloud_title(service.cloud)} with {service.credential.title}."))
    check_workspace(service)
    if compute is not None:
        check_compute(service, compute)


def _cloud_title(cloud: Cloud) -> str:
    return "Azure" if cloud.name == "AzureCloud" else cloud.name


def check_workspace(rest: AzureRest) -> None:
    """Look the workspace up; where it is missing, say which the resource group has."""
    try:
        rest.describe()
    except ServiceError as error:
        if error.transient or "There is no workspace" not in error.message:
            raise
        place = rest.workspace
        known = known_names(rest, place.path.rpartition("/")[0], "workspaces", place.name)
        raise ServiceError(error.message, hint=f"{error.hint} {known}") from None


def check_compute(rest: AzureRest, compute: str) -> Answer | None:
    """Return a compute of the workspace; None for a job that names none of it.

    Raises:
        InvalidError: there is no such compute.
    """
    name = compute.removeprefix("azureml:")
    if "/" in name or name in ("", SERVERLESS):
        return None  # an ARM id, perhaps of another workspace: the service checks it on submission
    found = rest.find_compute(name)
    if found is None:
        known = known_names(rest, f"{rest.workspace.path}/computes", "computes", name)
        raise InvalidError(
            f"There is no compute {name!r} in the workspace {rest.workspace.name}. {known}",
            hint="Correct the target's or the job's compute, or make it: az ml compute create.",
        )
    return found


def known_names(rest: AzureRest, path: str, kind: str, wanted: str) -> str:
    """Return the known names other than *wanted*, or that they cannot be listed.

    An identity may use a workspace without being allowed to list those of the resource group.
    """
    try:
        listed = rest.items(f"{rest.cloud.arm}{path}", f"Listing the {kind}", params={"api-version": _WORKSPACES_API})
        return nearest_of(wanted, (item.text("name") for item in listed))
    except ServiceError as error:
        return f"The {kind} cannot be listed: {error.message}"


def settings_for(host: str, settings: TargetConfig, rest: AzureRest) -> TargetConfig:
    """Return *settings* for a registry that a job names, without another's password.

    Anyone who may tag a job chooses that name; the password of ``registry-user`` is for the target's own registry.

    Raises:
        ServiceError: there is such a user, and the workspace's own registry cannot be looked up.
    """
    if settings.registry_user is None or host == (settings.registry or login_server(rest)):
        return settings
    return replace(settings, registry_user=None)


def login_server(rest: AzureRest) -> str:
    """Return the host of the workspace's own registry.

    Raises:
        ServiceError: the workspace has none, or the identity may not see it.
    """
    name = rest.workspace.name
    remedy = "Write targets.NAME.registry in aml-train.yml, such as myregistry.azurecr.io."
    resource = rest.describe().optional_text("containerRegistry")
    if not resource:
        raise ServiceError(f"The workspace {name} has no registry yet.", hint=remedy)
    what = f"Looking for the registry of the workspace {name}"
    try:
        found = rest.read(f"{rest.cloud.arm}{resource}", what, params={"api-version": _REGISTRY_API})
    except ServiceError as error:
        if error.transient:
            raise
        hint = f"The identity needs the role Reader on the registry to find its address. {remedy}"
        raise ServiceError(error.message, hint=hint) from None
    if found is None:
        raise ServiceError(f"The registry of the workspace {name} is not there: {resource}.", hint=remedy)
    return found.text("properties.loginServer")
