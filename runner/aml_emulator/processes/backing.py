"""The child processes behind the service: Azurite and the registry of images."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from aml_emulator.identity.identity import Identity
from aml_emulator.network.certificates import Certificates
from aml_emulator.processes.children import Child, ChildSpec
from aml_emulator.processes.host import reserved_port
from aml_emulator.settings import Settings

logger = logging.getLogger(__name__)

AZURITE_SCRIPT = Path(__file__).with_name("azurite_journal.js")
"""Loaded into Azurite: without the journal, what was stored in the last seconds before a kill would be lost."""


@dataclass(frozen=True, kw_only=True)
class Backing:
    """Storage and registry while they start, and what they were given.

    Attributes:
        registry_port: of the registry itself, on loopback.
        children: ends with the processes and Azurite's port.
    """

    identity: Identity
    certificates: Certificates
    registry_port: int
    children: asyncio.Task[tuple[list[Child], int]]


async def start_children(
    settings: Settings,
    identity: Identity,
    certificates: Certificates,
    registry_port: int,
    lock: int,
    stack: contextlib.AsyncExitStack,
) -> tuple[list[Child], int]:
    """Start Azurite and the registry side by side; returns them and Azurite's port."""
    storage_port = stack.enter_context(reserved_port())
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
            "NODE_OPTIONS": " ".join(filter(None, (os.environ.get("NODE_OPTIONS"), f"--require={AZURITE_SCRIPT}"))),
        },
        keep_open=(lock,),
    )
    configuration = settings.data / "registry.json"
    configuration.write_text(json.dumps(_registry_configuration(registry_port, images)), encoding="utf-8")
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


def _registry_configuration(port: int, folder: Path) -> dict[str, object]:
    """Return the configuration of the CNCF distribution registry, as JSON.

    It asks for no sign-in, so it listens on loopback only; :mod:`aml_emulator.fronts` lets others in.
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
        "http": {"addr": f"127.0.0.1:{port}", "relativeurls": True},
    }
