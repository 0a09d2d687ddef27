"""The service as a whole: starts its parts in order, supervises them, and ends by a signal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sqlite3
import ssl
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import docker
import docker.errors
import uvloop
from azure.core.exceptions import AzureError
from starlette.concurrency import run_in_threadpool

from aml_emulator.api.admin import Admin
from aml_emulator.context import Context
from aml_emulator.domain.curated_images import CuratedImages
from aml_emulator.domain.environment_builds import EnvironmentBuilds
from aml_emulator.domain.registry_tasks import RegistryTasks
from aml_emulator.executor.fetch import guarded, why_unreachable
from aml_emulator.executor.nodes import Fleet
from aml_emulator.executor.shared import Shared
from aml_emulator.executor.spec import ExecutorSettings
from aml_emulator.executor.task_runner import TaskRunner
from aml_emulator.fronts import serve_application, start_fault_fronts, start_registry_fronts
from aml_emulator.gateway import Gateway
from aml_emulator.identity.federation import Federation
from aml_emulator.identity.identity import WorkspaceNames, load_or_create
from aml_emulator.identity.tokens import Tokens
from aml_emulator.network.certificates import prepare_certificates
from aml_emulator.network.fault_injection import Faults
from aml_emulator.network.hosts import Destination, Outward, decide, names_for_jobs
from aml_emulator.network.neighbours import Neighbours
from aml_emulator.network.proxy import TLS_PORT, Proxy
from aml_emulator.network.requests_log import RequestLog
from aml_emulator.network.upstream import Upstream
from aml_emulator.page.site import Sites
from aml_emulator.processes.backing import Child, ChildError, start_children
from aml_emulator.processes.host import (
    StartError,
    hold,
    listen,
    lock_file,
    own_container,
    own_version,
    reserved_port,
    system_authorities,
)
from aml_emulator.settings import Settings
from aml_emulator.store.blobs import Blobs
from aml_emulator.store.store import Store
from aml_emulator.workspaces import Directory, MakeRunner, Opener, run_in_containers

logger = logging.getLogger(__name__)


def run(
    settings: Settings, *, clock: Callable[[], float] = time.time, make_runner: MakeRunner = run_in_containers
) -> None:
    """Run the service in this thread until SIGTERM or SIGINT.

    When it is ready, one line of JSON is written to stdout: ``{"event": "ready", "port", "registry_port", ...}``.

    Args:
        clock: seconds since the epoch: what tokens, signed addresses and records are dated by.
        make_runner: gives what executes jobs.

    Raises:
        StartError: a port or the data folder is taken, no container engine answers, or a child cannot be started or
            ended.
    """
    uvloop.run(_run(settings, clock, make_runner))


async def _run(settings: Settings, clock: Callable[[], float], make_runner: MakeRunner) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with contextlib.AsyncExitStack() as stack:
        lock = stack.enter_context(lock_file(settings.data / "lock"))
        await hold(lock, settings.data)
        try:
            await _serve(settings, lock, stack, stop, clock, make_runner)
        except StartError:
            raise
        except Exception as error:
            reason = start_error(error)
            if reason is None:
                raise
            raise reason from error


async def _serve(
    settings: Settings,
    lock: int,
    stack: contextlib.AsyncExitStack,
    stop: asyncio.Event,
    clock: Callable[[], float],
    make_runner: MakeRunner,
) -> None:
    """Run the service until *stop* is set.

    Raises:
        Exception: it cannot start, or a part of it has ended; see :func:`start_error`.
    """
    identity = load_or_create(settings.data, location=settings.location)
    certificates = prepare_certificates(settings.data / "tls")
    backing_port = stack.enter_context(reserved_port())
    registry_listener = listen(settings.host, settings.registry_port)
    stack.callback(registry_listener.close)
    registry_port = int(registry_listener.getsockname()[1])
    listener = listen(settings.host, settings.port)
    stack.callback(listener.close)
    port = int(listener.getsockname()[1])
    children, storage_port = await start_children(settings, identity, certificates, backing_port, lock, stack)
    store = Store(settings.data / "store.db", clock=clock)
    stack.callback(store.close)
    blobs = Blobs(
        account=identity.storage_account,
        key=identity.storage_key,
        endpoint=f"https://127.0.0.1:{storage_port}/{identity.storage_account}",
        public_endpoint=f"https://{identity.blob_host}",
        ca_file=str(certificates.ca_file),
        clock=clock,
    )
    stack.callback(blobs.close)
    container = settings.container or await run_in_threadpool(own_container)
    neighbours = Neighbours(contained=container is not None, clients=settings.clients)
    outward = Outward(own_ports=frozenset({port, registry_port}), is_container=neighbours.is_container)
    names = WorkspaceNames(identity, settings.data / "workspaces.json")
    context = Context(
        identity=identity,
        siblings=names.all,
        store=store,
        blobs=blobs,
        tokens=Tokens(identity, clock=clock),
        clock=clock,
        federation=Federation(settings.data / "federation.json"),
        faults=Faults(clock=clock),
        requests=RequestLog(clock=clock),
        fleet=Fleet(clock=clock, start_seconds=settings.node_start_seconds, seed=identity.instance),
        quotas=settings.quota,
        page_address=settings.page_address or f"http://127.0.0.1:{port}",
        environments=CuratedImages(settings.environments, settings.data / "environments.json"),
        unreachable=lambda url: why_unreachable(url, session=guarded(outward)),
    )
    engine_name = settings.registry_engine_name or f"localhost:{registry_port}"
    tls_listener = _tls_listener(settings, container, stack)
    executing = ExecutorSettings(
        max_jobs=settings.max_jobs,
        proxy_port=port,
        ca_bundle=system_authorities() + certificates.ca_pem.encode("ascii"),
        registry_login_server=identity.login_server,
        registry_engine_name=engine_name,
        build_arguments=settings.build_arguments,
        micromamba_url=settings.micromamba_url,
        instance=identity.instance,
        outward=outward,
        shared=Shared(settings.max_jobs),
        container=container,
        hosts=(
            names_for_jobs(identity.location, blob_host=identity.blob_host, login_server=identity.login_server)
            if tls_listener is not None
            else ()
        ),
        fuse=settings.fuse,
        job_memory=settings.job_memory,
        job_processes=settings.job_processes,
    )
    task_runner = TaskRunner(blobs=blobs, settings=executing)
    stack.callback(task_runner.close)
    tasks = RegistryTasks(context, task_runner)
    builds = EnvironmentBuilds(context, task_runner)
    opener = Opener(
        executing=executing,
        make_runner=make_runner,
        make_admin=partial(
            Admin,
            version=settings.version or own_version(),
            ca_pem=certificates.ca_pem,
            registry_engine_name=engine_name,
            max_jobs=settings.max_jobs,
            children_alive=lambda: all(child.alive for child in children),
        ),
    )
    first = await run_in_threadpool(opener.open, context, stack, tasks=tasks, builds=builds)
    await run_in_threadpool(tasks.recover)
    await run_in_threadpool(builds.recover)
    directory = Directory(names, first, opener, settings.data / "workspaces")
    stack.callback(directory.close)
    gateway = Gateway(directory)
    service_socket, jobs_socket = listen("127.0.0.1", 0), listen("127.0.0.1", 0)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.server_cert, certificates.server_key)
    serving = [
        serve_application(gateway, certificates, service_socket, stack),
        serve_application(partial(gateway, from_job=True), certificates, jobs_socket, stack),
    ]
    fronts = await start_registry_fronts(
        settings,
        context,
        backing_port,
        tls,
        registry_listener,
        engine_host=engine_name.rpartition(":")[0].lower(),
        is_host=neighbours.is_host,
        stack=stack,
    )

    ports = {
        Destination.SERVICE: int(service_socket.getsockname()[1]),
        Destination.SERVICE_FOR_JOBS: int(jobs_socket.getsockname()[1]),
        Destination.BLOB: storage_port,
        Destination.REGISTRY: int(fronts[0].getsockname()[1]),
    }
    faulty = await start_fault_fronts(ports, context, tls, certificates, stack)
    proxy = Proxy(
        decide=partial(decide, blob_host=identity.blob_host, login_server=identity.login_server),
        port_of=lambda destination: (faulty if context.faults else ports)[destination],
        upstream=Upstream(outward=outward),
        admin=gateway.admin,
        down=context.faults.outage,
        page=Sites(directory).serve,
        is_host=neighbours.is_host,
    )
    # Connections that are open already would pass the faults by, or keep to them.
    context.faults.on_change(partial(asyncio.get_running_loop().call_soon_threadsafe, proxy.break_off))
    stack.push_async_callback(proxy.close)
    stack.callback((await proxy.serve_on(listener)).close)
    if tls_listener is not None:
        stack.callback((await proxy.serve_tls_on(tls_listener)).close)
    stopping = threading.Event()
    stack.callback(stopping.set)
    threading.Thread(target=directory.resume, args=(stopping,), name="resume", daemon=True).start()
    ready = {
        "event": "ready",
        "port": port,
        "registry_port": registry_port,
        "registry_tls_port": int(fronts[1].getsockname()[1]) if len(fronts) > 1 else None,
        "instance": identity.instance,
        "engine": await run_in_threadpool(first.jobs.runner.engine_ready),
    }
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    await _supervise(stop, children, serving)
    logger.info("stopping")


def _tls_listener(
    settings: Settings, container: str | None, stack: contextlib.AsyncExitStack
) -> socket.socket | None:
    """Return the socket of Azure's hosts for jobs; None if there is none.

    A plain process shares its machine's port 443 with others, and jobs find it by an address, not by names.
    """
    if container is None:
        return None
    try:
        listener = listen(settings.host, TLS_PORT)
    except OSError as error:
        logger.warning("jobs reach Azure's hosts by the proxy only: %s", error)
        return None
    stack.callback(listener.close)
    return listener


async def _supervise(stop: asyncio.Event, children: list[Child], serving: list[asyncio.Task[None]]) -> None:
    """Return when the service is to stop; raise if a part of it ends by itself."""
    stopping = asyncio.create_task(stop.wait())
    deaths = [asyncio.create_task(child.died()) for child in children]
    watched: list[asyncio.Task[Any]] = [stopping, *serving, *deaths]
    try:
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if stopping in done:
            return
        for death in deaths:
            if death in done:
                raise death.result()
        for task in done:
            task.result()
        raise StartError("the HTTPS service ended by itself")
    finally:
        for task in (stopping, *deaths):
            task.cancel()


_CAUSES: Final[Sequence[tuple[tuple[type[Exception], ...], str]]] = (
    ((ChildError,), ""),
    ((sqlite3.Error,), "the database cannot be used: "),
    ((docker.errors.DockerException,), "the container engine does not answer; start it, or set DOCKER_HOST: "),
    ((AzureError,), "the storage does not answer as it should: "),
    ((OSError, ValueError), "the local AzureML cannot run: "),
)


def start_error(error: Exception) -> StartError | None:
    """Return what an error means for the user, None for a fault of the emulator."""
    return next((StartError(f"{said}{error}") for kinds, said in _CAUSES if isinstance(error, kinds)), None)
