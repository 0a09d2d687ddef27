"""The service as a whole: its parts started in order, supervised together, ended together."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import re
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import certifi
import docker
import docker.errors
import uvicorn
from azure.core.exceptions import AzureError
from starlette.concurrency import run_in_threadpool

from aml_emulator.admin import Admin, prepare
from aml_emulator.app import App
from aml_emulator.blobs import Blobs
from aml_emulator.certificates import Certificates
from aml_emulator.certificates import prepare as prepare_certificates
from aml_emulator.children import Child, ChildError, ChildSpec
from aml_emulator.clusters import Fleet
from aml_emulator.curated import CuratedImages
from aml_emulator.executor.runner import JobRunner
from aml_emulator.executor.settings import ExecutorSettings
from aml_emulator.executor.spec import RunSink, SinkFor
from aml_emulator.fault_front import FaultFront
from aml_emulator.faults import Faults
from aml_emulator.federation import Federation
from aml_emulator.hosts import Destination, decide
from aml_emulator.identity import Identity, load_or_create
from aml_emulator.jobs.service import JobService, RunProgress
from aml_emulator.page.site import Site
from aml_emulator.proxy import Proxy
from aml_emulator.registry_acr import AcrInterface
from aml_emulator.registry_front import RegistryFront
from aml_emulator.registry_locks import Locks
from aml_emulator.registry_storage import RegistryStorage
from aml_emulator.requests_log import Recorder, RequestLog
from aml_emulator.services import Runner, Services
from aml_emulator.settings import Settings
from aml_emulator.store import Store
from aml_emulator.tokens import Tokens
from aml_emulator.upstream import MAX_HEAD_BYTES, Upstream

logger = logging.getLogger(__name__)

STOP_SECONDS = 2.0
ENGINE_SECONDS = 3.0
LOCK_SECONDS = 5.0
LOCK_POLL_SECONDS = 0.05
JOURNAL = Path(__file__).with_name("azurite_journal.js")
LOOKUPS = Path(__file__).with_name("azurite_lookups.js")
CONTAINER_ID = re.compile(r"[0-9a-f]{12}")


MakeRunner = Callable[[Services, ExecutorSettings, SinkFor], Runner]
"""Gives what executes jobs: of the services, how jobs reach them, and where each run's progress is reported."""


class StartError(RuntimeError):
    """The service cannot run, or cannot go on; the message says why and what to do."""


class _Uvicorn(uvicorn.Server):
    """Uvicorn without signal handlers: the supervisor has them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run_in_containers(services: Services, settings: ExecutorSettings, sink_for: SinkFor) -> Runner:
    """Return what executes jobs as containers."""
    return JobRunner(blobs=services.blobs, settings=settings, sink_for=sink_for, fleet=services.fleet)


async def serve(
    settings: Settings, *, clock: Callable[[], float] = time.time, make_runner: MakeRunner = run_in_containers
) -> None:
    """Run the service until SIGTERM or SIGINT.

    When it is ready, one line of JSON is written to stdout: ``{"event": "ready", "port", "registry_port", ...}``.

    Args:
        settings: see there.
        clock: seconds since the epoch: what tokens, signed addresses and records are dated by.
        make_runner: gives what executes jobs.

    Raises:
        StartError: a port or the data folder is taken, no container engine answers, or a child cannot be started or
            ended.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with contextlib.AsyncExitStack() as stack:
        lock = stack.enter_context(_lock(settings.data / "lock"))
        await _hold(lock, settings.data)
        try:
            await _run(settings, lock, stack, stop, clock, make_runner)
        except ChildError as error:
            raise StartError(str(error)) from error
        except docker.errors.DockerException as error:
            raise StartError(
                f"the container engine does not answer; start it, or set DOCKER_HOST: {error}"
            ) from error
        except AzureError as error:
            raise StartError(f"the storage does not answer as it should: {error}") from error
        except (OSError, ValueError) as error:
            raise StartError(f"the local AzureML cannot run: {error}") from error


async def _run(
    settings: Settings,
    lock: int,
    stack: contextlib.AsyncExitStack,
    stop: asyncio.Event,
    clock: Callable[[], float],
    make_runner: MakeRunner,
) -> None:
    identity = load_or_create(settings.data, location=settings.location)
    certificates = prepare_certificates(settings.data / "tls")
    store = Store(settings.data / "store.db", clock=clock)
    stack.callback(store.close)
    registry_port = settings.registry_port or _free_port()
    children, storage_port = await _start_children(settings, identity, certificates, registry_port, lock, stack)
    blobs = Blobs(
        account=identity.storage_account,
        key=identity.storage_key,
        endpoint=f"https://127.0.0.1:{storage_port}/{identity.storage_account}",
        public_endpoint=f"https://{identity.blob_host}",
        ca_file=str(certificates.ca_file),
        clock=clock,
    )
    stack.callback(blobs.close)
    tokens = Tokens(identity, clock=clock)
    faults = Faults(clock=clock)
    recorder = None
    if settings.record is not None:
        recorder = Recorder(settings.record)
        stack.callback(recorder.close)
    listener = _listen(settings.host, settings.port)
    stack.callback(listener.close)
    port = int(listener.getsockname()[1])
    services = Services(
        identity=identity,
        store=store,
        blobs=blobs,
        tokens=tokens,
        clock=clock,
        federation=Federation(settings.data / "federation.json"),
        faults=faults,
        requests=RequestLog(clock=clock),
        recorder=recorder,
        fleet=Fleet(clock=clock, start_seconds=settings.node_start_seconds, seed=identity.instance),
        quotas=settings.quotas,
        page_address=settings.page_address or f"http://127.0.0.1:{port}",
        environments=CuratedImages(settings.environments, settings.data / "environments.json"),
    )
    await run_in_threadpool(prepare, services, max_jobs=settings.max_jobs)

    engine_name = settings.registry_engine_name or f"localhost:{registry_port}"
    runner = make_runner(
        services,
        ExecutorSettings(
            max_jobs=settings.max_jobs,
            proxy_port=port,
            ca_bundle=_system_authorities() + certificates.ca_pem.encode("ascii"),
            registry_login_server=identity.login_server,
            registry_engine_name=engine_name,
            build_arguments=settings.build_arguments,
            micromamba_url=settings.micromamba_url,
            instance=identity.instance,
            container=settings.container or await run_in_threadpool(_own_container),
        ),
        partial(_sink, services),
    )
    stack.callback(runner.close)
    jobs = JobService(services, runner)

    service_socket = _listen("127.0.0.1", 0)
    application = _Uvicorn(
        uvicorn.Config(
            App(services, jobs),
            ssl_certfile=str(certificates.server_cert),
            ssl_keyfile=str(certificates.server_key),
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
        )
    )
    serving = asyncio.create_task(application.serve(sockets=[service_socket]))
    stack.push_async_callback(_end_application, application, serving)

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.server_cert, certificates.server_key)
    registry_front = RegistryFront(
        registry_port,
        login_server=identity.login_server,
        tokens=tokens,
        acr=AcrInterface(
            login_server=identity.login_server,
            storage=RegistryStorage(settings.data / "registry"),
            locks=Locks(settings.data / "registry-attributes.json"),
        ),
    )
    fronts = [_listen("127.0.0.1", 0)]
    if settings.registry_tls_port is not None:
        fronts.append(_listen(settings.host, settings.registry_tls_port))
    for front in fronts:
        serving_front = await asyncio.start_server(registry_front.accept, sock=front, ssl=tls, limit=MAX_HEAD_BYTES)
        stack.callback(serving_front.close)

    admin = Admin(
        services=services,
        jobs=jobs,
        version=settings.version or _version(),
        ca_pem=certificates.ca_pem,
        registry_engine_name=engine_name,
        max_jobs=settings.max_jobs,
        children_alive=lambda: all(child.alive for child in children),
    )
    ports = {
        Destination.SERVICE: int(service_socket.getsockname()[1]),
        Destination.BLOB: storage_port,
        Destination.REGISTRY: int(fronts[0].getsockname()[1]),
    }
    faulty = await _start_fault_fronts(ports, services, tls, certificates, stack)
    proxy = Proxy(
        decide=partial(decide, blob_host=identity.blob_host, login_server=identity.login_server),
        port_of=lambda destination: (faulty if faults else ports)[destination],
        upstream=Upstream(),
        admin=admin.answer,
        down=faults.outage,
        page=Site(services).serve,
    )
    loop = asyncio.get_running_loop()
    # Connections that are open already would pass the faults by, or keep to them.
    faults.on_change(lambda: loop.call_soon_threadsafe(proxy.break_off))
    server = await proxy.serve_on(listener)
    stack.push_async_callback(proxy.close)
    stack.callback(server.close)
    resuming = asyncio.create_task(_resume(jobs))
    stack.callback(resuming.cancel)
    ready = {
        "event": "ready",
        "port": port,
        "registry_port": registry_port,
        "registry_tls_port": int(fronts[1].getsockname()[1]) if len(fronts) > 1 else None,
        "instance": identity.instance,
        "engine": await run_in_threadpool(runner.engine_ready),
    }
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    await _supervise(stop, children, serving, resuming)
    logger.info("stopping")


async def _start_fault_fronts(
    ports: Mapping[Destination, int],
    services: Services,
    tls: ssl.SSLContext,
    certificates: Certificates,
    stack: contextlib.AsyncExitStack,
) -> dict[Destination, int]:
    """Start what stands in front of each service while there are faults; returns their ports."""
    trust = ssl.create_default_context(cafile=str(certificates.ca_file))
    found = {}
    for destination, port in ports.items():
        front = FaultFront(destination, port, trust=trust, faults=services.faults, requests=services.requests)
        listener = _listen("127.0.0.1", 0)
        server = await asyncio.start_server(front.accept, sock=listener, ssl=tls, limit=MAX_HEAD_BYTES)
        stack.callback(server.close)
        found[destination] = int(listener.getsockname()[1])
    return found


async def _start_children(
    settings: Settings,
    identity: Identity,
    certificates: Certificates,
    registry_port: int,
    lock: int,
    stack: contextlib.AsyncExitStack,
) -> tuple[list[Child], int]:
    """Start Azurite and the registry side by side; returns them and Azurite's port."""
    storage_port = _free_port()
    storage, images = settings.data / "blobs", settings.data / "registry"
    for folder in (storage, images):
        folder.mkdir(exist_ok=True)
    azurite = ChildSpec(
        name="Azurite",
        argv=[
            *(settings.azurite, "--blobHost", "127.0.0.1", "--blobPort", str(storage_port)),
            *(
                "--location",
                str(storage),
                "--cert",
                str(certificates.server_cert),
                "--key",
                str(certificates.server_key),
            ),
            # With basic OAuth it takes the tokens that the service issues for storage, as identity-based datastores need them.
            *("--oauth", "basic", "--skipApiVersionCheck", "--disableTelemetry", "--silent"),
        ],
        port=storage_port,
        environment={
            "AZURITE_ACCOUNTS": f"{identity.storage_account}:{identity.storage_key}",
            # Without the journal, what was stored in the last seconds before a kill would be lost; without the other, each
            # request would take longer the more blobs there are.
            "NODE_OPTIONS": f"{os.environ.get('NODE_OPTIONS', '')} --require={JOURNAL} --require={LOOKUPS}".strip(),
        },
        keep_open=(lock,),
    )
    configuration = settings.data / "registry.json"
    configuration.write_text(
        json.dumps(_registry_configuration(settings.host, registry_port, images)), encoding="utf-8"
    )
    registry = ChildSpec(
        name="the registry",
        argv=[settings.registry, "serve", str(configuration)],
        port=registry_port,
        keep_open=(lock,),
    )
    started = await asyncio.gather(Child.start(azurite), Child.start(registry), return_exceptions=True)
    children = [child for child in started if isinstance(child, Child)]
    for child in children:
        stack.push_async_callback(child.stop)
    for outcome in started:
        if isinstance(outcome, BaseException):
            raise outcome
    if not any(storage.glob("*.journal.*")):
        logger.warning("%s keeps no journal: a kill loses what was stored in its last seconds", settings.azurite)
    return children, storage_port


def _registry_configuration(host: str, port: int, folder: Path) -> dict[str, object]:
    """Return the configuration of the CNCF distribution registry, in JSON, which is YAML as well.

    See https://distribution.github.io/distribution/about/configuration/.
    """
    return {
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(folder)},
            "delete": {"enabled": True},
            "cache": {"blobdescriptor": "inmemory"},
        },
        "http": {"addr": f"{host}:{port}", "relativeurls": True},
    }


async def _supervise(
    stop: asyncio.Event, children: list[Child], serving: asyncio.Task[None], resuming: asyncio.Task[None]
) -> None:
    """Return when the service is to stop; raise if a part of it ends by itself."""
    stopping = asyncio.create_task(stop.wait())
    deaths = [asyncio.create_task(child.died()) for child in children]
    watched: set[asyncio.Task[Any]] = {stopping, serving, resuming, *deaths}
    try:
        while not stopping.done():
            done, watched = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if stopping in done:
                return
            for death in deaths:
                if death in done:
                    raise death.result()
            for task in done:
                task.result()
            if serving in done:
                raise StartError("the HTTPS service ended by itself")
    finally:
        for task in (stopping, *deaths):
            task.cancel()


async def _end_application(application: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    application.should_exit = True
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await asyncio.shield(serving)
    except TimeoutError:
        serving.cancel()


async def _resume(jobs: JobService) -> None:
    """Take up jobs as soon as the container engine answers; until then they are queued."""
    while not await run_in_threadpool(jobs.runner.engine_ready):
        logger.error("the container engine does not answer: jobs stay queued until it does")
        await asyncio.sleep(ENGINE_SECONDS)
    await run_in_threadpool(jobs.resume)


def _sink(services: Services, run_id: str) -> RunSink:
    return RunProgress(services, run_id)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[int]:
    """Open the lock of the data folder; children inherit it, so that it is free only when they have ended as well.

    Yields:
        the file descriptor.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def _hold(lock: int, folder: Path) -> None:
    """Take the lock. The children of an emulator that was killed need a moment to end."""
    patience = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > patience:
                raise StartError(f"{folder} is in use by another emulator, or by what one left running") from error
            await asyncio.sleep(LOCK_POLL_SECONDS)
        else:
            return


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises OSError if the address is taken or not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, for asyncio turns Nagle's algorithm off only where it sees that a connection is TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    listener.setblocking(False)
    return listener


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _system_authorities() -> bytes:
    """Return the certificates that this machine trusts, PEM, with a line end: a job may need the outside."""
    path = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    file = Path(path) if Path(path).exists() else Path(certifi.where())
    return file.read_bytes().rstrip() + b"\n"


def _own_container() -> str | None:
    """Return the id of the container that this process runs in, None if in none.

    Docker makes the first twelve digits of a container's id its host name; only the engine knows whether it is one.
    """
    name = socket.gethostname()
    if not CONTAINER_ID.fullmatch(name):
        return None
    try:
        client = docker.from_env()
        try:
            container_id = client.containers.get(name).id
        finally:
            client.close()
    except docker.errors.NotFound:
        return None
    except (docker.errors.DockerException, OSError) as error:
        logger.warning("cannot ask the container engine whether this is a container: %s", error)
        return None
    return container_id if container_id and container_id.startswith(name) else None


def _version() -> str:
    try:
        return version("aml-train")
    except PackageNotFoundError:
        return "0+unknown"
