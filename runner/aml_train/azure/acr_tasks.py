"""ACR Tasks: builds in an Azure Container Registry, which need no engine here.

The requests are those of azure-mgmt-containerregistry 10.3.0 (``v2019_06_01_preview``: ``_registries_operations.py``,
``_runs_operations.py``), their order that of ``az acr run`` (Azure/azure-cli, ``command_modules/acr/run.py``). A run executes a task
file, because only a step of a task can have BuildKit (Azure/acr-builder, ``graph/step.go``: ``BuildKitEnv``).
"""

from __future__ import annotations

import base64
import contextlib
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import quote

import requests
import yaml

from aml_train.azure.acr import find_registry
from aml_train.azure.blob.datastores import signed_place
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import Answer
from aml_train.core.clock import SYSTEM_CLOCK, Clock
from aml_train.core.errors import CancelledError, InvalidError, ServiceError, TimedOutError
from aml_train.core.events import Listener, Notice
from aml_train.core.http_client import exchange
from aml_train.core.text import LinePieces, Piece
from aml_train.core.threads import cleanup_on_interrupt
from aml_train.image.builders.service import ServiceBuild
from aml_train.image.registry.auth import is_acr

if TYPE_CHECKING:
    from aml_train.config.sections.image_builder import BuilderConfig
    from aml_train.image.registry.client import RegistryLocation

_TIMEOUT: Final = (5.0, 30.0)
_CHUNK: Final = 1 << 20
_LAST_READS: Final = 5
_COMPLETE: Final = "x-ms-meta-complete"


class RunLog:
    """Reads the log of one run.

    Args:
        session: sends the requests; the address is signed, so no token is sent.
        address: gives the address, which is valid for hours.
        listener: receives one remark if the log cannot be read.
    """

    def __init__(self, session: requests.Session, address: Callable[[], str], listener: Listener) -> None:
        self._session = session
        self._address = address
        self._listener = listener
        self._url = ""
        self._offset = 0
        self._pieces = LinePieces()
        self._complete = False
        self._reported = False

    def read(self, *, final: bool = False) -> list[Piece]:
        """Return what was written since the last call.

        Args:
            final: the run has ended: read until the log is complete, as far as it becomes so in a few requests.
        """
        found: list[Piece] = []
        tries = _LAST_READS if final else 1
        while tries > 0:
            data = self._range(self._offset, _CHUNK)
            if data is None:
                break
            self._offset += len(data)
            found += self._pieces.feed(data)
            if len(data) < _CHUNK:  # the end of what there is
                tries = 0 if self._complete and not data else tries - 1
        found += self._pieces.feed(b"", final=True) if final else []
        # Lines end with CR LF.
        return [Piece(one.text if one.more else one.text.rstrip("\r"), more=one.more) for one in found]

    def _range(self, offset: int, length: int) -> bytes | None:
        """Return at most *length* bytes from *offset* on; None if it cannot be read."""
        try:
            self._url = self._url or self._address()
            response = exchange(
                self._session,
                "GET",
                self._url,
                headers={"Range": f"bytes={offset}-{offset + length - 1}"},
                timeout=_TIMEOUT,
            )
        except (requests.RequestException, ServiceError) as error:
            self._report(getattr(error, "message", type(error).__name__))
            return None
        self._complete = self._complete or _COMPLETE in {name.lower() for name in response.headers}
        if response.status_code in (requests.codes.partial_content, requests.codes.ok):
            content: bytes = response.content
            return (
                content
                if response.status_code == requests.codes.partial_content
                else content[offset : offset + length]
            )
        # 404: the run has no agent yet. 416: nothing new was written.
        if response.status_code in (requests.codes.not_found, requests.codes.requested_range_not_satisfiable):
            return b""
        if response.status_code == requests.codes.forbidden:
            self._url = ""  # the signature has expired
        self._report(f"storage answered {response.status_code}")
        return None

    def _report(self, problem: str) -> None:
        if not self._reported:
            self._reported = True
            self._listener(Notice(text=f"The build's log cannot be read now: {problem}. The build continues."))


API: Final = "2019-06-01-preview"
#: Seconds of ``DockerBuildRequest.timeout`` in azure-mgmt-containerregistry 10.3.0.
_SHORTEST: Final = 300
_LONGEST: Final = 28_800
#: Words of ``RunStatus`` in azure-mgmt-containerregistry 10.3.0: a run is active, or has ended.
_ACTIVE: Final = frozenset({"Queued", "Started", "Running"})
_ENDED: Final = frozenset({"Succeeded", "Failed", "Canceled", "Error", "Timeout"})
_PAUSES: Final = (1.0, 1.0, 2.0, 3.0, 5.0)
_LAST_PAUSE: Final = 10.0
_LARGEST: Final = 5000 << 20
ROLES: Final = (
    "The identity needs a role with listBuildSourceUploadUrl/action, scheduleRun/action and runs/* on the registry, such as Contributor "
    "or Container Registry Tasks Contributor: docs/permissions.md."
)


def task_file(build: ServiceBuild, registry: str) -> str:
    """Return the task that does *build* and pushes to *registry*. Pure.

    A step is run by a shell, and the file is a template before it is YAML (Azure/acr-builder, ``builder/context.go`` and
    ``templating/engine.go``): words are quoted for the one, and braces for the other. The step's id is the build's name, which
    the run's log begins with.
    """

    words = ["--progress=plain", f"--platform={build.spec.platform}", "--file=Dockerfile"]
    words += [f"--build-arg={name}={value}" for name, value in sorted(build.spec.builder_args.items())]
    words += [f"--target={build.spec.target}"] if build.spec.target is not None else []
    words += ["--no-cache"] if build.no_cache else []
    words += [] if build.network else ["--network=none"]
    words += [f"--shm-size={build.shm}"] if build.shm is not None else []
    words += [f"--ulimit=memlock={build.memlock}:{build.memlock}"] if build.memlock is not None else []
    name = None if build.image is None else f"{registry}/{build.image}"
    words += [f"--tag={name}"] if name is not None else []
    step = {"id": build.name, "build": shlex.join([*words, "context"]), "env": ["DOCKER_BUILDKIT=1"]}
    steps: list[dict[str, Any]] = [step]
    if name is not None:
        steps.append({"push": [name]})
    # Version 1.0.0: later ones replace words that begin with `$`.
    task = {"version": "v1.0.0", "stepTimeout": _seconds(build), "steps": steps}
    text: str = yaml.safe_dump(task, sort_keys=False, width=1 << 20)
    return text.replace("{{", '{{"{{"}}')


def run_request(build: ServiceBuild, registry: str, source: str, *, agent_pool: str | None) -> dict[str, Any]:
    """Return the body of ``scheduleRun``. Pure.

    Args:
        build: what to build.
        registry: the login server.
        source: the relative path of the uploaded context.
        agent_pool: the agents; None for shared ones.
    """
    system, _, architecture = build.spec.platform.partition("/")
    credentials: dict[str, Any] = {"sourceRegistry": {"loginMode": "Default"}}
    if build.login is not None:
        host, auth = build.login
        credentials["customRegistries"] = {
            host: {"userName": _secret(auth.username), "password": _secret(auth.password)}
        }
    return {
        "type": "EncodedTaskRunRequest",
        "encodedTaskContent": base64.b64encode(task_file(build, registry).encode()).decode(),
        "encodedValuesContent": "",
        "values": [],
        "sourceLocation": source,
        "timeout": _seconds(build),
        "isArchiveEnabled": False,
        "platform": {"os": system.capitalize(), "architecture": architecture},
        "credentials": credentials,
        **({"agentPoolName": agent_pool} if agent_pool is not None else {}),
    }


def _secret(value: str) -> dict[str, str]:
    """Return a ``SecretObject``, which the service keeps out of its answers and logs."""
    return {"value": value, "type": "Opaque"}


def _seconds(build: ServiceBuild) -> int:
    return int(min(max(build.timeout, _SHORTEST), _LONGEST))


class AcrTasks:
    """Builds in one registry.

    Args:
        rest: the workspace, whose connections and sign-in are used.
        registry: the registry's resource.
        listener: receives remarks.
        where: ``file:line`` of the builder.
        agent_pool: the agents; None for shared ones.
        clock: time.
    """

    def __init__(
        self,
        rest: AzureRest,
        registry: Answer,
        *,
        listener: Listener,
        where: str,
        agent_pool: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._rest = rest
        self._id = registry.text("id")
        self._host = registry.text("properties.loginServer")
        self._listener = listener
        #: See :class:`BuildService`.
        self.title, self.identity, self.where = f"ACR Tasks of {self._host}", f"acr-tasks {self._host}", where
        self._pool = agent_pool
        self._clock = clock

    def build(self, build: ServiceBuild, on_piece: Callable[[Piece], object]) -> bool:
        """See :class:`BuildService`."""
        source = self._upload(build)
        request = run_request(build, self._host, source, agent_pool=self._pool)
        with self._scheduled(request) as run:
            return self._follow(build, run, on_piece)

    def _upload(self, build: ServiceBuild) -> str:
        """Upload the context; return the path by which the run finds it."""
        what = f"Uploading the build context to {self.title}"
        with tempfile.TemporaryFile() as file:
            build.pack(file)
            size = file.tell()
            if size > _LARGEST:
                raise InvalidError(
                    f"{self.where}: the build context is {size >> 20} MiB packed, and {self.title} takes 5000 MiB",
                    hint="Leave files out by .dockerignore, or use another builder.",
                )
            place = self._ask("/listBuildSourceUploadUrl", what)
            self._put(place.text("uploadUrl"), file, size)
        return place.text("relativePath")

    def _put(self, address: str, file: IO[bytes], size: int) -> None:
        """Write the blob of a signed address."""
        storage, name = signed_place(self._rest, address)
        file.seek(0)
        storage.upload(name, iter(partial(file.read, _CHUNK), b""), size, md5=None)

    @contextlib.contextmanager
    def _scheduled(self, request: Mapping[str, Any]) -> Iterator[str]:
        """Yield the id of a run; one that did not end when the block ends is cancelled."""
        run = ""
        try:
            run = self._schedule(request)
            yield run
        except Exception:
            self._cancel(run)
            raise
        except BaseException:
            cleanup_on_interrupt(lambda: self._cancel(run))
            raise

    def _schedule(self, request: Mapping[str, Any]) -> str:
        """Schedule the run, and return its id.

        If an answer is lost, a second run is scheduled: both push to the same unique tag, of which one digest is verified.
        """
        found = self._ask("/scheduleRun", f"Scheduling a run of {self.title}", body=request)
        return found.text("properties.runId")

    def _follow(self, build: ServiceBuild, run: str, on_piece: Callable[[Piece], object]) -> bool:
        """Follow the run to its end; return whether it succeeded."""
        log, pauses = self._log(run), iter(_PAUSES)
        while True:
            found = self._run(run)
            status = found.text("properties.status")
            for piece in log.read(final=status in _ENDED):
                on_piece(piece)
            if status in _ENDED:
                return self._judge(build, run, status, found)
            if status not in _ACTIVE:
                raise ServiceError(
                    f"The run {run} of {self.title} has the unknown status {status!r}.",
                    hint="Nothing was released. Update aml-train, or use another builder.",
                )
            self._clock.sleep(next(pauses, _LAST_PAUSE))

    def _judge(self, build: ServiceBuild, run: str, status: str, found: Answer) -> bool:
        if status == "Canceled":
            raise CancelledError(f"The run {run} of {self.title} was cancelled.", hint="Nothing was released.")
        if status == "Timeout":
            raise TimedOutError(
                f"{self.where}: the run {run} of {self.title} took longer than {_seconds(build)} seconds",
                hint="Raise image.builder.timeout (at most 8h) or tests.timeout, or use an agent pool.",
            )
        if status == "Error":
            reason = found.optional_text("properties.runErrorMessage") or "no reason is given"
            raise ServiceError(
                f"The run {run} of {self.title} could not be executed: {reason}",
                hint="Run again. A registry with free credit, or behind a firewall, needs an agent pool: docs/image.md.",
            )
        return status == "Succeeded"

    def _run(self, run: str) -> Answer:
        found = self._rest.read(
            self._address(f"/runs/{quote(run)}"),
            f"Following the run {run} of {self.title}",
            params={"api-version": API},
        )
        if found is None:
            raise ServiceError(f"The run {run} of {self.title} is gone.", hint="Run again.")
        return found

    def _log(self, run: str) -> RunLog:
        what = f"Looking for the log of the run {run} of {self.title}"
        return RunLog(
            self._rest.session,
            lambda: self._ask(f"/runs/{quote(run)}/listLogSasUrl", what).text("logLink"),
            self._listener,
        )

    def _cancel(self, run: str) -> None:
        """Cancel a run that has not ended; a failure is only reported."""
        if not run:
            return
        try:
            if self._run(run).text("properties.status") in _ENDED:
                return
            address, what = self._address(f"/runs/{quote(run)}/cancel"), f"Cancelling the run {run} of {self.title}"
            answer = self._rest.once("POST", address, what, params={"api-version": API})
            problem = None if answer.ok else f"{what}: the answer is {answer.status_code}"
        except ServiceError as error:
            problem = error.message
        if problem is not None:
            text = f"{problem}. It ends by itself; cancel it: az acr task cancel-run --registry {self._host} --run-id {run}"
            self._listener(Notice(text=text, level="warning"))

    def _address(self, path: str) -> str:
        return f"{self._rest.cloud.arm}{self._id}{path}"

    def _ask(self, path: str, what: str, *, body: object = None) -> Answer:
        """Send a POST request about the registry, and return its answer."""
        try:
            found = self._rest.ask("POST", self._address(path), what, params={"api-version": API}, body=body)
        except ServiceError as error:
            if not error.transient:
                error.message = f"{self.where}: {error.message}"
                error.hint = ROLES
            raise
        if found is None:
            raise ServiceError(
                f"{what}: there is no such registry, or its tier has no ACR Tasks.",
                hint=f"Check {self._id}. {ROLES}",
            )
        return found


def build_service(config: BuilderConfig, rest: AzureRest, location: RegistryLocation, listener: Listener) -> AcrTasks:
    """Return ACR Tasks of the registry at *location*.

    Raises:
        InvalidError: it is no Azure Container Registry.
        ServiceError: the registry is not visible to the identity, or Azure refuses.
    """
    host = location.job_name
    if not is_acr(host):
        raise InvalidError(
            f"{config.where}: the builder `acr` needs an Azure Container Registry, and the target's is {host}",
            hint="Use another builder, or name another registry: targets.NAME.registry.",
        )
    found = find_registry(rest, host)
    if found is None:
        raise ServiceError(
            f"{config.where}: the registry {host} is not found, or not visible to this identity.", hint=ROLES
        )
    return AcrTasks(rest, found, listener=listener, where=config.where, agent_pool=config.agent_pool)
