"""Builds of environments, which the workspace does itself.

The requests are those of azureml-core 1.61.0: ``Environment.build`` and ``ImageBuildDetails`` (``azureml/core/environment.py``,
``azureml/_restclient/environment_client.py``); azure-ai-ml has none, and Azure Resource Manager shows neither the state of a build nor
its image. The result is found as the studio finds it (``GET …/image``, ``imageExistsInRegistry`` and ``dockerImage``).

The builder is Docker's earlier one, without BuildKit, arguments and targets: see :mod:`aml_train.image.dockerfile.classic`.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urljoin

from aml_train.azure.acr_run_log import RunLog
from aml_train.azure.code import upload_folder
from aml_train.azure.environment_log import ClassicLog
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import Answer, is_within
from aml_train.core.clock import SYSTEM_CLOCK, Clock
from aml_train.core.errors import CancelledError, ServiceError, TimedOutError
from aml_train.core.events import Listener, Notice
from aml_train.core.files import FileSet
from aml_train.core.references import is_digest
from aml_train.core.temporary import temporary_folder
from aml_train.core.text import Piece
from aml_train.core.threads import CancelToken, cleanup_on_interrupt
from aml_train.image import ServiceBuild, release

if TYPE_CHECKING:
    from aml_train.image import Manifest, Registry, RegistryLocation

NAME: Final = "aml-train-image"
"""The environment whose versions are builds."""

_API: Final = "2024-10-01-preview"
#: The states that ``ImageBuildDetails.wait_for_completion`` waits in; the last two words are spelled differently by different services.
_ACTIVE: Final = frozenset({"Queued", "Running", "GettingOrProvisioningACR"})
_CANCELLED: Final = frozenset({"Canceled", "Cancelled"})
_ENDED: Final = frozenset({"Succeeded", "Failed", *_CANCELLED})
_PAUSES: Final = (1.0, 1.0, 2.0, 3.0, 5.0)
_LAST_PAUSE: Final = 10.0
_ROLES: Final = (
    "The identity needs a role that may write environments and code of the workspace, such as AzureML Data Scientist: "
    "docs/permissions.md."
)


class EnvironmentBuilds:
    """Builds in one workspace, whose registry gets the images.

    Args:
        rest: the workspace.
        location: the workspace's registry.
        listener: receives remarks.
        where: ``file:line`` of the builder.
        compute: the cluster that builds; None for the workspace's choice.
        clock: time.
    """

    isolates: Final = False
    buildkit: Final = False
    limits: Final[frozenset[str]] = frozenset()

    def __init__(
        self,
        rest: AzureRest,
        location: RegistryLocation,
        *,
        listener: Listener,
        where: str,
        compute: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._rest = rest
        self._location = location
        self._listener = listener
        self._where = where
        self._compute = compute
        self._clock = clock

    @property
    def title(self) -> str:
        """See :class:`BuildService`."""
        return f"AzureML's builds of the workspace {self._rest.workspace.name}"

    @property
    def identity(self) -> str:
        """See :class:`BuildService`."""
        return f"azureml-environment {self._rest.workspace.name}"

    @property
    def where(self) -> str:
        """See :class:`BuildService`."""
        return self._where

    def build(self, build: ServiceBuild, on_piece: Callable[[Piece], object]) -> bool:
        """See :class:`BuildService`."""
        if build.login is not None:
            text = f"{self.title} does not get the credentials of {build.login[0]}: connect it to the workspace."
            self._listener(Notice(text=text))
        version = hashlib.sha256(build.name.encode()).hexdigest()[:32]
        with self._registered(build, version):
            operation = self._start(version)
            if not self._follow(build, operation, on_piece):
                return False
            if build.image is not None:
                self._take(build.image, version)
        return True

    @contextlib.contextmanager
    def _registered(self, build: ServiceBuild, version: str) -> Iterator[None]:
        """Register the build as a version, and archive it when the block ends."""
        address = self._rest.arm(f"/environments/{NAME}/versions/{version}")
        what = f"Registering a build of {self.title}"
        body = {"osType": "Linux", "isAnonymous": False, "tags": {"aml-train": build.name}}
        context = {"contextUri": f"{self._upload(build)}/", "dockerfilePath": "Dockerfile"}

        def put(*, archived: bool) -> None:
            properties: dict[str, Any] = {**body, "build": context, "isArchived": archived}
            with self._hinted():
                self._rest.need("PUT", address, what, params={"api-version": _API}, body={"properties": properties})

        def archive() -> None:
            try:
                put(archived=True)
            except ServiceError as error:
                text = f"The environment {NAME}:{version} stays in the workspace's list: {error.message}"
                self._listener(Notice(text=text))

        put(archived=False)
        try:
            yield
        except Exception:
            archive()
            raise
        except BaseException:
            # The service has no request that ends a build.
            text = f"The build of {NAME}:{version} continues in the workspace until it ends; its result is not used."
            self._listener(Notice(text=text, level="warning"))
            cleanup_on_interrupt(archive)
            raise
        archive()

    def _upload(self, build: ServiceBuild) -> str:
        token = CancelToken()
        with temporary_folder("build") as folder:
            build.write(folder)
            files = FileSet.collect(folder, ignore_files=(), leave_out=())
            try:
                with self._hinted():
                    return upload_folder(self._rest, files, token, "the build context")
            except BaseException:
                token.cancel()
                raise

    def _start(self, version: str) -> str:
        """Have the image of *version* built; return the address of the operation.

        The version is one image: a request that is repeated finds its build, and at worst builds it a second time.
        """
        place = "image" if self._compute is None else f"imageoncompute/{quote(self._compute)}"
        address = self._rest.environments(f"/environments/{NAME}/versions/{version}/{place}", "v2.0")
        with self._hinted():
            found = self._rest.need("POST", address, f"Starting a build of {self.title}", body={})
        location = urljoin(address, found.text("location"))
        if not is_within(location, address):
            raise found.fail("names an operation that is not at the same host")
        return location

    def _follow(self, build: ServiceBuild, operation: str, on_piece: Callable[[Piece], object]) -> bool:
        """Follow the build to its end; return whether it succeeded."""
        pauses, began, lines = iter(_PAUSES), self._clock.now(), ClassicLog()
        log: RunLog | None = None
        while True:
            found = self._operation(operation)
            status, address = found.text("status"), found.optional_text("logUrl")
            if log is None and address:
                log = RunLog(self._rest.session, self._log_address(operation), self._listener)
            for piece in log.read(final=status in _ENDED) if log is not None else ():
                for line in lines.translate(piece):
                    on_piece(line)
            if status in _CANCELLED:
                raise CancelledError(f"A build of {self.title} was cancelled.", hint="Nothing was released.")
            if status in _ENDED:
                return status == "Succeeded"
            if status not in _ACTIVE:
                raise ServiceError(
                    f"A build of {self.title} has the unknown status {status!r}.",
                    hint="Nothing was released. Update aml-train, or use another builder.",
                )
            if self._clock.now() - began > build.timeout:
                raise TimedOutError(
                    f"{self._where}: a build of {self.title} took longer than {build.timeout:.0f} seconds",
                    hint="It continues in the workspace. Raise image.builder.timeout or tests.timeout.",
                )
            self._clock.sleep(next(pauses, _LAST_PAUSE))

    def _operation(self, address: str) -> Answer:
        found = self._rest.read(address, f"Following a build of {self.title}")
        if found is None:
            raise ServiceError(f"A build of {self.title} is gone.", hint="Run again.")
        return found

    def _log_address(self, operation: str) -> Callable[[], str]:
        """Return what gives the log's address; its signature is renewed when it expires."""
        return lambda: self._operation(operation).text("logUrl")

    def _take(self, image: str, version: str) -> None:
        """Put the built image under the name *image* of the same registry."""
        what = f"Looking for the image of {NAME}:{version}"
        address = self._rest.environments(f"/environments/{NAME}/versions/{version}/image")
        found = self._rest.read(address, what, params={"secrets": "false"})
        if found is None or not found.flag("imageExistsInRegistry"):
            raise ServiceError(f"{self.title}: the build succeeded, and its image is not there.", hint="Run again.")
        host, name = found.optional_text("dockerImage.registry.address"), found.text("dockerImage.name")
        host = host or name.partition("/")[0]
        if host.lower() != self._location.job_name.lower():
            raise ServiceError(
                f"{self._where}: {self.title} pushes to {host}, and the target's registry is {self._location.job_name}",
                hint="Use the workspace's own registry (leave out `registry` of the target), or another builder.",
            )
        repository, _, digest = name.removeprefix(f"{host}/").partition("@")
        repository, _, tag = repository.partition(":")
        target, _, candidate = image.rpartition(":")
        with self._location.client() as registry:
            manifest = _built(registry, repository, digest or tag or "latest", self.title)
            release(registry, manifest, source=repository, repository=target, tags=[candidate])

    @contextlib.contextmanager
    def _hinted(self) -> Iterator[None]:
        """Name the place of the builder, and the roles that it needs, in a refusal."""
        try:
            yield
        except ServiceError as error:
            if not error.transient:
                error.message = f"{self._where}: {error.message}"
                error.hint = _ROLES
            raise


def _built(registry: Registry, repository: str, reference: str, title: str) -> Manifest:
    """Return the manifest that the service pushed."""
    found = registry.get_manifest(repository, reference)
    if found is None or (is_digest(reference) and found.digest != reference):
        raise ServiceError(f"{title}: {registry.host} does not have {repository} as {reference}.", hint="Run again.")
    return found
