"""Whether the local AzureML still runs, asked of the engine when it does not answer: a container that stopped is named."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import requests

from aml_train.core.errors import AmlTrainError, ServiceError
from aml_train.core.http_client import USER_AGENT
from aml_train.local.settings import EmulatorSettings

#: Seconds for which a run waits for a container that has stopped: enough to start it, and to replace it by a newer one.
PATIENCE: Final = 120.0
START: Final = "Start it: aml-train emulator start. Then run the same command again to attach to the job."
_KILLED: Final = 137


class Presence(requests.Session):
    """A session with the local AzureML, which says so when its container has stopped.

    Args:
        stopped: returns how the container has ended, None where it runs or cannot be asked for.
        now: seconds of a clock that only grows.
    """

    def __init__(self, stopped: Callable[[], str | None], *, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.headers["User-Agent"] = USER_AGENT
        self._stopped = stopped
        self._now = now
        self._since: float | None = None

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request.

        Raises:
            ServiceError: the container has stopped; transient as long as it may be about to be started again.
        """
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
    """Return how the local AzureML's container has ended, as a sentence; None where it runs, or the engine does not answer."""
    from aml_train.local import container as containers

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
    """Return how a container has ended, by the engine's description; None for one that runs or is being started."""
    if status in {"created", "running", "restarting"}:
        return None
    if status == "paused":
        return f"The local AzureML's container {name} is paused."
    code = state.get("ExitCode")
    why = (
        ": the machine ran out of memory" if state.get("OOMKilled") else ": it was killed" if code == _KILLED else ""
    )
    return f"The local AzureML's container {name} has stopped with exit code {code}{why}."
