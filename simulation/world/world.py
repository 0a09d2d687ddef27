"""The world: one workspace's services in this process, and what they have done.

Requests go to a service by their host. The services know nothing of the simulation; what they acknowledge, and what the computes
and the builder do, is written down for the invariants.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest import mock

from aml_emulator.identity.identity import Identity
from aml_emulator.network.hosts import Destination, decide
from simulation.world.builder import SimulatedEngine
from simulation.world.cluster import Cluster
from simulation.world.ends import Ended
from simulation.world.git import Repositories
from simulation.world.http import Request, Response, UnreachableError
from simulation.world.incidents import Incident
from simulation.world.registry import RegistryService, sha256
from simulation.world.service import STORAGE_HOST, AzureMlService
from simulation.world.storage import BlobStorage
from simulation.world.wire import connected

if TYPE_CHECKING:
    from simulation.world.project import Project

BASE: Final = "base"
"""The repository of the image that every project builds on."""

_WORKSPACE: Final = r"/workspaces/[^/]+"
_JOB: Final = re.compile(rf"{_WORKSPACE}/jobs/([^/]+)$", re.IGNORECASE)
_MODEL: Final = re.compile(rf"{_WORKSPACE}/models/([^/]+)/versions/([^/]+)$", re.IGNORECASE)
_RUN: Final = re.compile(rf"/history/.*{_WORKSPACE}/runs/([^/]+)$", re.IGNORECASE)
_MANIFEST: Final = re.compile(r"^/v2/(.+)/manifests/([^/]+)$")
_OUT: Final = Response(
    status=503,
    headers={"Content-Type": "application/json"},
    body=b'{"error": {"code": "ServiceUnavailable", "message": "The service is out for a while"}}',
)
_TOKENS: Final = re.compile(r"/(?:oauth2/(?:v2\.0/)?token|oauth2/exchange)$")


@dataclass(frozen=True, kw_only=True)
class Acknowledged:
    """A change that a service has acknowledged.

    Attributes:
        kind: ``job``, ``model``, ``late`` (a model, for a sender that no longer waits), ``tags``, ``manifest``, ``untagged`` or
            ``blob``.
        key: the names of what was changed.
        value: what it was set to.
    """

    kind: str
    key: tuple[str, ...]
    value: str = ""


@dataclass
class Secrets:
    """Every secret of the world, to be found in no sink.

    Attributes:
        planted: name → a secret of the user's: in the environment of clients, and written by careless jobs.
        service: the workspace's own: keys and passwords.
        issued: tokens that a service has issued.
    """

    planted: dict[str, str] = field(default_factory=dict)
    service: dict[str, str] = field(default_factory=dict)
    issued: set[str] = field(default_factory=set)


class World:
    """One workspace with its registry, storage, computes and builder.

    Args:
        folder: an empty folder for the clients' projects.
        seed: decides names and secrets.
        start_seconds: from a job's submission to the start of its command.
        clock: seconds since the epoch, of the world and not of one of its processes.

    Attributes:
        projects: every project that was checked out, by its key.
        on_end: receives the end of each command.
        restart: ends the service's process, and starts the next one.
        incident: happens at a write of a client; None for nothing.
    """

    def __init__(
        self,
        folder: Path,
        *,
        seed: int = 0,
        start_seconds: float = 4.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.clock = clock
        self.projects: dict[str, Project] = {}
        # In memory where there is such a folder: a busy disk would stop the world's time.
        self._state = tempfile.TemporaryDirectory(prefix="aml-train-simulation-", dir=_memory_folder())
        state = Path(self._state.name)
        self.identity = make_identity(seed)
        random_source = random.Random(f"planted/{seed}")
        planted = {"DATABASE_PASSWORD": f"planted-{random_source.randbytes(12).hex()}"}
        self.secrets = Secrets(
            planted=planted,
            service={
                "client-secret": self.identity.client_secret,
                "storage-key": self.identity.storage_key,
                "token-secret": self.identity.token_secret,
            },
        )
        self.storage = BlobStorage(self.identity.storage_account)
        self.registry = RegistryService(self.identity, state)
        self.cluster = Cluster(self.storage, planted, start_seconds=start_seconds)
        self.engine = SimulatedEngine()
        self.azureml = AzureMlService(self.identity, state, self.cluster)
        self.repositories = Repositories()
        self.journal: list[Acknowledged] = []
        self.ends: list[Ended] = []
        self.on_end: Callable[[Ended], object] = lambda _ended: None
        self.restart: Callable[[], object] = self._restart
        self.incident: Incident | None = None
        self.requests = 0
        self._cut = False
        self._refusing_until = 0.0
        self._lock = threading.Lock()
        self._push_base()

    @contextlib.contextmanager
    def connected(self) -> Iterator[None]:
        """Run the services, with every request of this process going to them."""
        # Submissions of one process redirect these while they call the SDK, and two at once do not put them back.
        streams = sys.stdout, sys.stderr
        with connected(self.handle), self.alone():
            self.azureml.start()
            try:
                yield
            finally:
                self.azureml.stop()
                self.close()
                sys.stdout, sys.stderr = streams

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Answer for git, start no other program, and keep the environment."""
        with self.repositories.installed(), _alone():
            yield

    def close(self) -> None:
        """Remove the state of the services."""
        self._state.cleanup()

    def handle(self, request: Request) -> Response:
        """Answer one request, by the service of its host.

        Raises:
            UnreachableError: there is no such host, or its service does not run.
        """
        place = self.service_of(request.host)
        if self._cut and request.host != STORAGE_HOST:
            raise UnreachableError("the process that sends this was killed")
        if self.clock() < self._refusing_until and request.host != STORAGE_HOST:
            return _OUT
        if place == "azureml":
            self.cluster.advance()
            response = self.azureml.handle(request)
        elif place == "storage":
            self.cluster.advance()
            response = self.storage.handle(request)
        else:
            response = self.registry.handle(request)
        self._note(place, request, response)
        return response

    def service_of(self, host: str) -> str:
        """Return which service answers for a host: azureml, storage or registry.

        Raises:
            UnreachableError: none does.
        """
        identity = self.identity
        if host == STORAGE_HOST:
            return "storage"
        found = decide(host, blob_host=identity.blob_host, login_server=identity.login_server).destination
        match found:
            case Destination.SERVICE:
                return "azureml"
            case Destination.BLOB:
                return "storage"
            case Destination.REGISTRY:
                return "registry"
        raise UnreachableError(f"there is no host {host} in this world")

    def cut(self) -> None:
        """Answer nothing from now on: the client that sends was killed."""
        self._cut = True

    def refuse(self, seconds: float) -> None:
        """Answer everything with 503 for a while."""
        self._refusing_until = self.clock() + seconds

    def restore(self) -> None:
        """Answer again."""
        self._cut = False

    def _restart(self) -> None:
        self.azureml.stop()
        self.azureml.start()

    def add_end(self, ended: Ended) -> None:
        """Write down how a client has ended."""
        with self._lock:
            self.ends.append(ended)
        self.on_end(ended)

    def _note(self, place: str, request: Request, response: Response) -> None:
        found = list(_acknowledged(place, request, response))
        tokens = _issued(request, response)
        with self._lock:
            self.requests += 1
            self.journal += found
            self.secrets.issued |= tokens

    def _push_base(self) -> None:
        """Put the image that projects build on into the registry."""
        storage = self.registry.storage
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/usr/bin"]}}).encode()
        layer = b"the layer of the base"
        listed = []
        for kind, content in (("container.image.v1", config), ("image.rootfs.diff.tar.gzip", layer)):
            digest = sha256(content)
            storage.blobs[digest] = content
            listed.append(
                {"mediaType": f"application/vnd.docker.{kind}+json", "digest": digest, "size": len(content)}
            )
        media_type = "application/vnd.docker.distribution.manifest.v2+json"
        manifest = {"schemaVersion": 2, "mediaType": media_type, "config": listed[0], "layers": listed[1:]}
        storage.put(BASE, "1", json.dumps(manifest).encode(), media_type)
        storage.content[BASE].blobs |= {str(one["digest"]) for one in listed}


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Start no other program, and keep the environment.

    azure-ai-ml calls git with each job, and sets a variable.
    """

    def refuse(_process: object, args: object, *_rest: object, **_options: object) -> None:
        raise FileNotFoundError(f"there is no other program in this world: {args}")

    with mock.patch.dict(os.environ), mock.patch.object(subprocess.Popen, "__init__", refuse):
        yield


def _memory_folder() -> str | None:
    """Return a folder in memory; None for the machine's own temporary folder."""
    place = Path("/dev/shm")  # noqa: S108 - the folder that is made in it is private
    return str(place) if place.is_dir() and os.access(place, os.W_OK) else None


def make_identity(seed: int) -> Identity:
    """Return names and distinctive secrets that follow from *seed*."""
    source = random.Random(f"identity/{seed}")

    def guid() -> str:
        return str(uuid.UUID(bytes=source.randbytes(16), version=4))

    return Identity(
        instance=source.randbytes(4).hex(),
        tenant_id=guid(),
        client_id=guid(),
        client_secret=f"client-secret-{source.randbytes(16).hex()}",
        object_id=guid(),
        token_secret=source.randbytes(32).hex(),
        subscription_id=guid(),
        resource_group="aml-local",
        workspace="local",
        workspace_id=guid(),
        location="eastus",
        compute="local-cluster",
        login_server="amllocal.azurecr.io",
        storage_account="amllocalstore",
        storage_key=base64.b64encode(b"storage-key-" + source.randbytes(52)).decode(),
    )


def _acknowledged(place: str, request: Request, response: Response) -> Iterator[Acknowledged]:
    """Yield what an answer acknowledges."""
    if not 200 <= response.status < 300:
        return
    path, method = request.path, request.method
    if place == "azureml" and method == "PUT" and (job := _JOB.search(path)):
        yield Acknowledged(kind="job", key=(job[1],))
    elif place == "azureml" and method == "PUT" and (model := _MODEL.search(path)):
        yield Acknowledged(kind="late" if request.late else "model", key=(model[1], model[2]))
    elif place == "azureml" and method == "PATCH" and (run := _RUN.search(path)):
        for name, value in (json.loads(request.body or b"{}").get("tags") or {}).items():
            yield Acknowledged(kind="tags", key=(run[1], name), value=str(value))
    elif place == "registry" and method == "PUT" and (put := _MANIFEST.match(path)):
        digest = response.headers.get("Docker-Content-Digest", "")
        yield Acknowledged(kind="manifest", key=(put[1], put[2]), value=digest)
    elif place == "registry" and method == "DELETE" and ("/manifests/" in path or "/_tags/" in path):
        repository, _, reference = path.replace("/acr/v1/", "/v2/").removeprefix("/v2/").rpartition("/")
        name = repository.removesuffix("/manifests").removesuffix("/_tags")
        yield Acknowledged(kind="untagged", key=(name, reference))
    elif place == "storage" and method == "PUT" and request.query.get("comp", "") in ("", "blocklist"):
        if request.query.get("restype") != "container":
            yield Acknowledged(kind="blob", key=_blob_of(request), value=response.headers.get("Content-MD5", ""))
    elif place == "storage" and method == "DELETE" and request.query.get("restype") != "container":
        yield Acknowledged(kind="untagged", key=_blob_of(request))


def _blob_of(request: Request) -> tuple[str, str]:
    parts = request.path.strip("/").split("/")
    if request.host == STORAGE_HOST:
        parts = parts[1:]
    return parts[0], "/".join(parts[1:])


def _issued(request: Request, response: Response) -> set[str]:
    """Return the tokens in the answer of a sign-in."""
    if response.status != 200 or not _TOKENS.search(request.path):
        return set()
    document = json.loads(response.body)
    return {str(document[key]) for key in ("access_token", "refresh_token") if document.get(key)}
