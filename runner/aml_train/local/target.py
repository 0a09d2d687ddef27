"""The target ``local``: the local AzureML, with a registry on loopback."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import requests

from aml_train.azure.names import WorkspaceId
from aml_train.azure.sdk_v2 import AzureV2
from aml_train.azure.sign_in import Fetched, sign_in_to_azure, without_secrets
from aml_train.azure.target import Registries, WorkspaceTarget
from aml_train.core.errors import AmlTrainError, ServiceError
from aml_train.core.events import Listener
from aml_train.core.http_client import Session
from aml_train.image.registry.client import RegistryLocation
from aml_train.jobs.pace import Pace
from aml_train.local import container as containers
from aml_train.local.environment import client_environment
from aml_train.local.settings import EmulatorInfo, EmulatorSettings, local_names

if TYPE_CHECKING:
    from aml_train.config.sections.targets import TargetConfig
    from aml_train.image.builders.place import BuildPlace

#: Seconds for which a run waits for a container that has stopped: enough to start it, and to replace it by a newer one.
PATIENCE: Final = 120.0
START: Final = "Start it: aml-train emulator start. Then run the same command again to attach to the job."


class EmulatorSession(Session):
    """A session with the local AzureML, which says so when its container has stopped.

    Args:
        stopped: returns how the container has ended, None if it runs or the engine does not answer.
        ca: path of the CAs that its certificates are checked with.
        proxy: address of its proxy, which serves all hosts of Azure.
        now: seconds of a clock that only grows.
    """

    def __init__(
        self,
        stopped: Callable[[], str | None],
        *,
        ca: Path,
        proxy: str,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._ca = ca
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
        try:
            response = super().send(request, **{**options, "verify": str(self._ca)})  # whatever an SDK passes
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
        with containers.opened(settings) as (_, container):
            pass
    except AmlTrainError:
        return None
    if container is None:
        return f"The local AzureML's container {settings.name} is gone."
    if container.status in {"created", "running", "restarting"}:
        return None
    code = (container.attrs.get("State") or {}).get("ExitCode")
    return f"The local AzureML's container {settings.name} is {container.status} (exit code {code})."


#: The emulator answers within milliseconds and has no rate limit.
LOCAL_PACE = Pace(shortest=0.2, longest=1.0, share=0.05)


def connect_local(
    target: TargetConfig,
    settings: EmulatorSettings,
    info: EmulatorInfo,
    *,
    place: BuildPlace,
    listener: Listener,
    fetched: Fetched = lambda _token: None,
) -> WorkspaceTarget:
    """Point this process at the local AzureML; return its workspace.

    The variables are those that ``aml-train emulator env`` prints; they are set before Azure's SDKs are imported, because the
    SDKs read them at import and at each request.

    Args:
        target: the target's settings.
        settings: which emulator.
        info: how it is reached.
        place: builds images and runs their tests.
        listener: receives events.
        fetched: receives each token, and the secrets of jobs that are read.
    """
    outer = without_secrets(place.environ)
    variables = client_environment(info, outer)
    _enter(variables)
    where = WorkspaceId(subscription_id=info.subscription_id, resource_group=info.resource_group, name=info.workspace)
    stopped = functools.partial(how_stopped, EmulatorSettings(name=info.name))
    session = EmulatorSession(stopped, ca=Path(variables["REQUESTS_CA_BUNDLE"]), proxy=variables["HTTPS_PROXY"])
    identity = sign_in_to_azure(variables, named="secret", session=session, fetched=fetched)
    service = AzureV2(where, identity, session=session, page=settings.page_origin)
    names = local_names(settings)
    loopback = RegistryLocation(
        push_name=names.registry_for_engine,
        job_name=names.registry_for_jobs,
        url=f"http://{info.registry_address}",
        engine_runs_jobs=True,
    )
    return WorkspaceTarget(
        service=service,
        pace=LOCAL_PACE,
        registries=Registries(
            settings=target,
            service=service,
            secrets={},
            outer={**outer, **without_secrets(variables)},
            listener=listener,
            fetched=fetched,
            loopback=loopback,
        ),
        place=dataclasses.replace(place, environ=outer),
        listener=listener,
    )


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
    for name in _changed:
        os.environ.pop(name, None)
    os.environ.update({name: before[name] for name in _changed if name in before})
    _changed.clear()
