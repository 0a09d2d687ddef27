"""Start, inspect, stop and remove the local AzureML's container and state."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from docker.errors import NotFound

from aml_train.core.errors import ServiceError
from aml_train.core.events import Listener, Notice
from aml_train.core.version import __version__
from aml_train.local import container as containers
from aml_train.local.admin import emulator_info, healthy, read_problems, request_admin
from aml_train.local.container import reached
from aml_train.local.image import obtain_image
from aml_train.local.settings import EmulatorInfo, EmulatorSettings

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

READY_SECONDS: Final = 180.0
"""How long a container that was started may take until it is ready."""

_POLL_SECONDS: Final = 0.05


def start_emulator(
    settings: EmulatorSettings,
    listener: Listener,
    *,
    replace_busy: bool = False,
    engine: DockerClient | None = None,
) -> EmulatorInfo:
    """Start the local AzureML; return its description once it is ready.

    A container that runs already is left alone. One that was made from another image or with other settings is made
    again; its state is in the volume and stays.

    Args:
        settings: what is wanted.
        listener: receives each step that is taken.
        replace_busy: recreate it even while jobs run; they continue without tracking until it is back.
        engine: the engine, if this process is connected to it already.

    Raises:
        ImageError: there is no engine, or no image.
        ServiceError: jobs run in a container that must be recreated, a port is taken, or it does not get ready.
    """
    with contextlib.nullcontext(engine) if engine is not None else contextlib.closing(containers.connect()) as client:
        container = containers.find(client, settings)
        if container is not None and not containers.is_current(client, container, settings):
            _make_room(client, container, settings, listener, replace_busy=replace_busy)
            container = None
        if container is None:
            if containers.image_id(client, settings) is None:
                obtain_image(client, settings, listener)
            container = containers.create(client, settings)
        if container.status != "running":
            listener(Notice(text=f"Starting the local AzureML in the container {settings.name}"))
            containers.start_container(container, settings)
        info = _await_ready(container, reached(client, container, settings))
    if (text := version_difference(info.version)) is not None:
        listener(Notice(text=text, level="warning"))
    return info


def version_difference(emulator: str, own: str = __version__) -> str | None:
    """Return a warning if the local AzureML is of another release; None if not.

    A version that is no release's, as in a checkout, says nothing.
    """
    if emulator == own or not all(re.fullmatch(r"[\d.]+", one) for one in (emulator, own)):
        return None
    return (
        f"The local AzureML has version {emulator}, and aml-train {own}: it may answer otherwise than expected. Use the same version of"
        " both: unset AML_TRAIN_EMULATOR_IMAGE, then: aml-train emulator start (docs/support.md)."
    )


def _make_room(
    client: DockerClient, container: Container, settings: EmulatorSettings, listener: Listener, *, replace_busy: bool
) -> None:
    """Remove a container that is not what is wanted."""
    jobs = containers.running_jobs(client, container)
    if jobs and not replace_busy:
        raise ServiceError(
            f"{settings.name} was made from another image or with other settings, and jobs run in it: {', '.join(jobs)}.",
            hint="Wait for them or cancel them, or use another AML_TRAIN_EMULATOR_NAME and other ports.",
        )
    listener(Notice(text=f"Recreating {settings.name}: its image or settings changed; its state is kept"))
    container.stop(timeout=containers.STOP_SECONDS)
    container.remove(force=True)


def _await_ready(container: Container, settings: EmulatorSettings) -> EmulatorInfo:
    deadline = time.monotonic() + READY_SECONDS
    while not healthy(settings):
        container.reload()
        if container.status not in {"created", "running", "restarting"}:
            problem = f"ended with status code {container.attrs['State']['ExitCode']}"
        elif time.monotonic() > deadline:
            missing = "; ".join(read_problems(settings))
            problem = f"was not ready after {READY_SECONDS:g} seconds" + (f" ({missing})" if missing else "")
        else:
            time.sleep(_POLL_SECONDS)
            continue
        raise ServiceError(
            f"The local AzureML in the container {settings.name} {problem}. Its log ends with:\n"
            f"{containers.log_tail(container)}",
            hint="All of it: aml-train emulator logs. To begin again from nothing: aml-train emulator reset.",
        )
    found = emulator_info(settings)
    if found is None:
        raise ServiceError(f"The local AzureML in the container {settings.name} stopped answering.")
    return found


def find_emulator(settings: EmulatorSettings) -> EmulatorInfo | None:
    """Return the description of a running local AzureML, also from a container."""
    with contextlib.closing(containers.connect()) as client:
        container = containers.find(client, settings)
        if container is None or container.status != "running":
            return None
        return emulator_info(reached(client, container, settings))


def emulator_status(settings: EmulatorSettings) -> dict[str, Any]:
    """Return whether the local AzureML runs and, where it does, what it counts.

    ``state`` is ``absent``, ``running``, ``unhealthy`` (it runs, and ``problems`` says what is wrong) or the engine's word for a
    container that does not run.
    """
    with contextlib.closing(containers.connect()) as client:
        container = containers.find(client, settings)
    if container is None:
        return {"name": settings.name, "state": "absent"}
    if container.status != "running":
        return {"name": settings.name, "state": container.status}
    answer, problems = request_admin(settings, settings.path_of("status")), read_problems(settings)
    address = f"http://{settings.host}:{settings.reached_port}"
    found: dict[str, Any] = {"name": settings.name, "state": "unhealthy", "address": address}
    if answer is None or problems:
        found["problems"] = problems or ["it does not answer"]
    else:
        found["state"] = "running"
    return {**found, **(answer[1] if answer else {})}


def stop_emulator(settings: EmulatorSettings) -> bool:
    """Stop the local AzureML; return whether it ran. Its state and jobs are kept."""
    with contextlib.closing(containers.connect()) as client:
        container = containers.find(client, settings)
        if container is None or container.status != "running":
            return False
        container.stop(timeout=containers.STOP_SECONDS)
    return True


def reset_emulator(settings: EmulatorSettings) -> None:
    """Remove the local AzureML with its state and jobs, if they exist."""

    with contextlib.closing(containers.connect()) as client:
        container = containers.find(client, settings)
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
    with contextlib.closing(containers.connect()) as client:
        container = containers.find(client, settings)
        if container is None:
            raise ServiceError(f"There is no container {settings.name}.", hint="Start it: aml-train emulator start")
        yield from containers.log_lines(container, follow=follow)
