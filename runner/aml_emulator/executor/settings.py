"""What the executor must be told about the emulator that it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MICROMAMBA_URL: Final = "https://micro.mamba.pm/api/micromamba/linux-64/latest"
"""Where micromamba's own installation takes it from."""


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """How jobs reach the emulator, and how many of them run at once.

    Attributes:
        max_jobs: at most so many jobs run at the same time; more wait in the order they came.
        proxy_port: the port of the emulator's proxy, as seen from a job's network.
        ca_bundle: PEM: the CAs that a job trusts, the emulator's among them.
        registry_login_server: the registry's name in a job's image, such as ``amllocal.azurecr.io``.
        registry_engine_name: the same registry as the Docker engine calls it, such as ``localhost:7381``.
        instance: the emulator's identity; containers and networks are labelled with it.
        build_arguments: build arguments of every image that is built here: the proxy.
        micromamba_url: the package of micromamba, for images without conda.
        container: name or id of the container that the emulator runs in; None where it is a plain process.
        own_ports: the emulator's own ports, from which no input is fetched.
    """

    max_jobs: int
    proxy_port: int
    ca_bundle: bytes = field(repr=False)
    registry_login_server: str
    registry_engine_name: str
    instance: str
    build_arguments: Mapping[str, str] = field(default_factory=dict)
    micromamba_url: str = MICROMAMBA_URL
    container: str | None = None
    own_ports: frozenset[int] = frozenset()
