"""Start, inspect, stop and remove the local AzureML's container and state."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from docker.errors import NotFound

from aml_train.core.docker import connect_engine
from aml_train.core.errors import ServiceError
from aml_train.core.events import Listener, Notice
from aml_train.local import container as containers
from aml_train.local.admin import emulator_info, read_problems, request_admin
from aml_train.local.container import reached
from aml_train.local.image import obtain_image
from aml_train.local.settings import EmulatorInfo, EmulatorSettings

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

LOG_TAIL: Final = 30
READY_SECONDS: Final = 180.0
"""How long a container that was started may take until it is ready."""

_POLL_SECONDS: Final = 0.05


def start_emulator(
    settings: EmulatorSettings,
    listener: Listener,
    *,
    engine: DockerClient | None = None,
) -> EmulatorInfo:
    """Start the local AzureML; return its description once it is ready.

    A container that runs already is left alone. One that was made from another image or with other settings is made
    again; its state is in the volume and stays.

    Args:
        settings: what is wanted.
        listener: receives each step that is taken.
        engine: the engine, if this process is connected to it already.

    Raises:
        ImageError: there is no engine, or no image.
        ServiceError: jobs run in a container that must be recreated, a port is taken, or it does not get ready.
    """
    with (
        contextlib.nullcontext(engine)
        if engine is not None
        else contextlib.closing(connect_engine(os.environ)) as client
    ):
        container = containers.find(client, settings)
        if container is not None and not containers.is_current(client, container, settings):
            _make_room(client, container, settings, listener)
            container = None
        if container is None:
            if (served := emulator_info(settings)) is not None:
                return served  # a plain process: `aml-emulator serve`
            if containers.image_id(client, settings) is None:
                obtain_image(client, settings, listener)
            container = containers.create(client, settings)
        if container.status != "running":
            listener(Notice(text=f"Starting the local AzureML in the container {settings.name}"))
            containers.start_container(container)
        return _await_ready(container, reached(client, container, settings))


def _make_room(client: DockerClient, container: Container, settings: EmulatorSettings, listener: Listener) -> None:
    """Remove a container that is not what is wanted."""
    jobs = containers.running_jobs(client, container)
    if jobs:
        raise ServiceError(
            f"{settings.name} was made from another image or with other settings, and jobs run in it: {', '.join(jobs)}.",
            hint="Wait for them or cancel them, or use another AML_TRAIN_EMULATOR_NAME and other ports.",
        )
    listener(Notice(text=f"Recreating {settings.name}: its image or settings changed; its state is kept"))
    container.stop(timeout=containers.STOP_SECONDS)
    container.remove(force=True)


def _await_ready(container: Container, settings: EmulatorSettings) -> EmulatorInfo:
    deadline = time.monotonic() + READY_SECONDS
    while problems := read_problems(settings):
        container.reload()
        if container.status not in {"created", "running", "restarting"}:
            problem = f"ended with status code {container.attrs['State']['ExitCode']}"
        elif time.monotonic() > deadline:
            problem = f"was not ready after {READY_SECONDS:g} seconds ({'; '.join(problems)})"
        else:
            time.sleep(_POLL_SECONDS)
            continue
        raise ServiceError(
            f"The local AzureML in the container {settings.name} {problem}. Its log ends with:\n"
            + container.logs(tail=LOG_TAIL).decode("utf-8", errors="replace").rstrip(),
            hint="All of it: aml-train emulator logs. To begin again from nothing: aml-train emulator reset.",
        )
    found = emulator_info(settings)
    if found is None:
        raise ServiceError(f"The local AzureML in the container {settings.name} stopped answering.")
    return found


def find_emulator(settings: EmulatorSettings) -> EmulatorInfo | None:
    """Return the description of a running local AzureML, also from a container, and of one that is a plain process."""
    with containers.opened(settings) as (client, container):
        if container is None:
            return emulator_info(settings)  # a plain process: `aml-emulator serve`
        if container.status != "running":
            return None
        return emulator_info(reached(client, container, settings))


def emulator_status(settings: EmulatorSettings) -> dict[str, Any]:
    """Return whether the local AzureML runs and, where it does, what it counts.

    ``state`` is ``absent``, ``running``, ``unhealthy`` (it runs, and ``problems`` says what is wrong) or the engine's word for a
    container that does not run.
    """
    with containers.opened(settings) as (_, container):
        if container is not None:
            state = container.status
        else:  # it may be a plain process: `aml-emulator serve`
            state = "absent" if emulator_info(settings) is None else "running"
    if state != "running":
        return {"name": settings.name, "state": state}
    answer, problems = request_admin(settings, settings.path_of("status")), read_problems(settings)
    address = f"http://{settings.host}:{settings.reached_port}"
    state = "unhealthy" if problems else "running"
    found: dict[str, Any] = {"name": settings.name, "state": state, "address": address}
    return {**found, **({"problems": problems} if problems else {}), **(answer[1] if answer else {})}


def stop_emulator(settings: EmulatorSettings) -> bool:
    """Stop the local AzureML; return whether it ran. Its state and jobs are kept."""
    with containers.opened(settings) as (_, container):
        if container is None or container.status != "running":
            return False
        container.stop(timeout=containers.STOP_SECONDS)
    return True


def reset_emulator(settings: EmulatorSettings) -> None:
    """Remove the local AzureML with its state and jobs, if they exist."""
    with containers.opened(settings) as (client, container):
        if container is not None:
            said = request_admin(settings, "workspaces") if container.status == "running" else None
            container.stop(timeout=containers.STOP_SECONDS)
            containers.sweep_jobs(client, container)
            container.remove(force=True, v=True)
            for workspace in said[1].get("workspaces", ()) if said is not None else ():
                containers.sweep_images(client, str(workspace["instance"]))
        containers.remove_network(client, settings)
        with contextlib.suppress(NotFound):
            client.volumes.get(settings.volume).remove()


def emulator_logs(settings: EmulatorSettings, *, follow: bool = False) -> Iterator[str]:
    """Yield the local AzureML's log line by line; with *follow* as long as it runs.

    Raises:
        ServiceError: there is no such container.
    """
    with containers.opened(settings) as (_, container):
        if container is None:
            raise ServiceError(f"There is no container {settings.name}.", hint="Start it: aml-train emulator start")
        yield from containers.log_lines(container, follow=follow)
