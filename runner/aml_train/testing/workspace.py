"""Workspaces of the local AzureML that last as long as a test."""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.events import Event
from aml_train.local.admin import emulator_info, request_admin
from aml_train.local.environment import client_environment
from aml_train.local.lifecycle import start_emulator
from aml_train.local.settings import EmulatorSettings

_LONGEST: Final = 33
"""Of a workspace's name, in Azure."""
_DELETE_SECONDS: Final = 330.0


@dataclass(frozen=True, kw_only=True)
class AmlWorkspace:
    """An isolated workspace.

    Attributes:
        name, subscription_id, resource_group: what `MLClient` takes.
        location: its region.
        compute: the cluster that is there from the start.
        page: the address of its page for a browser on this machine.
        environment: the variables that lead Azure's SDKs to it; the fixture has set them.
    """

    name: str
    subscription_id: str
    resource_group: str
    location: str
    compute: str
    page: str
    environment: Mapping[str, str] = field(repr=False)

    def write_config(self, folder: Path) -> Path:
        """Write config.json, which ``from_config()`` of the SDKs reads; return its path."""
        names = {"subscription_id": self.subscription_id, "resource_group": self.resource_group}
        path = folder / "config.json"
        path.write_text(json.dumps({**names, "workspace_name": self.name}, indent=4), encoding="utf-8")
        return path


def workspace_name(test: str) -> str:
    """Return a new name of a workspace that begins as the name of a test does."""
    start = re.sub(r"[^a-zA-Z0-9_-]+", "-", test.removeprefix("test_")).strip("-_")
    return f"{start[: _LONGEST - 9].rstrip('-_') or 'test'}-{secrets.token_hex(4)}"


def find_or_start(environ: Mapping[str, str]) -> EmulatorSettings:
    """Return the settings of the local AzureML, which runs afterwards.

    One that answers at its address is used, such as a service container of CI. Several processes may
    call this at once, as those of pytest-xdist do.

    Raises:
        ImageError, ServiceError: it does not run and cannot be started.
    """
    settings = replace(EmulatorSettings.from_environment(environ), workspace="")
    if request_admin(settings, "health") is not None:
        return settings
    with (Path(tempfile.gettempdir()) / f"aml-train-{settings.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        start_emulator(settings, _print)
    return settings


@contextlib.contextmanager
def temporary_workspace(settings: EmulatorSettings, name: str, environ: Mapping[str, str]) -> Iterator[AmlWorkspace]:
    """Create a workspace and delete it afterwards, with its jobs.

    Args:
        settings: of a local AzureML that runs.
        name: of the workspace.
        environ: NO_PROXY and the CA bundle in use are taken over from it.

    Raises:
        InvalidError: there is one of that name, or the name is none.
        ServiceError: the local AzureML does not answer.
    """
    _ask(settings, "POST", {"name": name})
    try:
        inside = replace(settings, workspace=name)
        info = emulator_info(inside)
        if info is None:
            raise _silent(settings)
        yield AmlWorkspace(
            name=info.workspace,
            subscription_id=info.subscription_id,
            resource_group=info.resource_group,
            location=info.location,
            compute=info.compute,
            page=f"{inside.page_origin}/ui/",
            environment=client_environment(info, environ) | inside.variables,
        )
    finally:
        _ask(settings, "DELETE", {"name": name, "force": "1"})


def _ask(settings: EmulatorSettings, method: str, query: Mapping[str, str]) -> dict[str, Any]:
    path = f"workspaces?{urlencode(query)}"
    answer = request_admin(settings, path, method=method, seconds=_DELETE_SECONDS)
    if answer is None:
        raise _silent(settings)
    status, value = answer
    if status >= 400:
        raise InvalidError(f"The local AzureML refused the workspace {query['name']}: {value.get('error', status)}.")
    return value


def _silent(settings: EmulatorSettings) -> ServiceError:
    return ServiceError(
        f"The local AzureML at {settings.host}:{settings.reached_port} does not answer.",
        hint="Start it: aml-train emulator start",
    )


def _print(event: Event) -> None:
    print(getattr(event, "text", event), file=sys.stderr)  # noqa: T201 - pytest shows it with the test
