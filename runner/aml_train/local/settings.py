"""Settings and description of a local AzureML. Values only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final
from urllib.parse import quote

from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.version import __version__, emulator_image
from aml_train.jobs.spec import TargetNames

IMAGE: Final = emulator_image(__version__)
"""The image of this version."""

LOGIN_SERVER: Final = "amllocal.azurecr.io"
"""The name of its registry for jobs and records."""

_COMPUTE: Final = "local-cluster"

INSIDE_PORT: Final = 7380
"""The port of proxy and administration in the container."""

INSIDE_REGISTRY_PORT: Final = 7381
"""The port of the registry in the container."""

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}")


@dataclass(frozen=True, kw_only=True)
class EmulatorSettings:
    """How the local AzureML's container is made and reached.

    Attributes:
        name: the container's name; the volume with its state is ``<name>-data``, its network ``aml-train-<name>``.
        image: the image that it is made from.
        host: the address at which this process finds the published ports.
        port: the port of proxy and administration, published on 127.0.0.1.
        registry_port: the port of the registry, published on 127.0.0.1.
        max_jobs: how many jobs run at once.
        job_memory: the most memory of a job's node, such as 8g; empty for most of the machine's.
        job_processes: the most processes and threads of a job's node.
        fuse: whether jobs may mount file systems.
        inside: *host* is the container's own address, where its ports are the unpublished ones.
        workspace: which of its workspaces is meant; empty for the first one.
    """

    name: str = "aml-emulator"
    image: str = IMAGE
    host: str = "127.0.0.1"
    port: int = 7380
    registry_port: int = 7381
    max_jobs: int = 2
    job_memory: str = ""
    job_processes: int = 4096
    fuse: bool = False
    inside: bool = False
    workspace: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> EmulatorSettings:
        """Return the settings with the values of ``AML_TRAIN_EMULATOR_*``.

        Raises:
            InvalidError: a name that Docker would refuse, or something that is not a port, a number of jobs, yes or no.
        """
        prefix = "AML_TRAIN_EMULATOR_"
        names = [item.name for item in fields(cls) if item.name != "inside"]
        texts = {name: environment.get(prefix + name.upper(), "") for name in names}
        if texts["name"] and not _NAME.fullmatch(texts["name"]):
            raise InvalidError(
                f"{prefix}NAME: {texts['name']!r} cannot be the name of a container.",
                hint="Use letters, digits, '.', '_' and '-', and start with a letter or digit.",
            )
        limits = {"port": 65535, "registry_port": 65535, "max_jobs": 1000, "job_processes": 2**22}
        given: dict[str, Any] = {key: text for key, text in texts.items() if text}
        given |= {key: _number(prefix + key.upper(), given[key], limits[key]) for key in limits if key in given}
        if "fuse" in given:
            given["fuse"] = _yes(f"{prefix}FUSE", given["fuse"])
        return cls(**given)

    @property
    def volume(self) -> str:
        """The name of the volume that holds the state."""
        return f"{self.name}-data"

    @property
    def network(self) -> str:
        """The name of the container's own network.

        The engine publishes ports on the network that is first by name: it has to be before those of jobs.
        """
        return f"aml-train-{self.name}"

    @property
    def page_origin(self) -> str:
        """The page's origin on the engine's machine, without a trailing slash.

        Each further workspace has a name below localhost, which browsers resolve to this machine (RFC 6761).
        """
        host = f"{self.workspace.lower()}.localhost" if self.workspace else "127.0.0.1"
        return f"http://{host}:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """The variable by which aml-train's own commands find the workspace."""
        return {"AML_TRAIN_EMULATOR_WORKSPACE": self.workspace} if self.workspace else {}

    def path_of(self, path: str) -> str:
        """Return an admin request's path with the workspace that it is for."""
        if not self.workspace:
            return path
        mark = "&" if "?" in path else "?"
        return f"{path}{mark}workspace={quote(self.workspace, safe='')}"

    @property
    def reached_port(self) -> int:
        """The port at which this process finds proxy and administration on *host*."""
        return INSIDE_PORT if self.inside else self.port

    @property
    def registry_address(self) -> str:
        """The registry's host and port for this process."""
        return f"{self.host}:{INSIDE_REGISTRY_PORT if self.inside else self.registry_port}"

    @property
    def registry_engine_name(self) -> str:
        """The registry's loopback name, which engines reach without TLS."""
        return f"localhost:{self.registry_port}"


def _number(name: str, text: str, limit: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 1 <= int(text) <= limit):
        raise InvalidError(f"{name}: {text!r} is not a number from 1 to {limit}.")
    return int(text)


def _yes(name: str, text: str) -> bool:
    if text not in ("yes", "no"):
        raise InvalidError(f"{name}: {text!r} is neither yes nor no.")
    return text == "yes"


_TYPES: Final = {"str": str, "int": int}


@dataclass(frozen=True, kw_only=True)
class EmulatorInfo:
    """The description that a running local AzureML gives, and its address."""

    name: str
    host: str
    port: int
    instance: str
    tenant_id: str
    client_id: str
    client_secret: str = field(repr=False)
    subscription_id: str
    resource_group: str
    workspace: str
    location: str
    compute: str
    registry_engine_name: str
    registry_address: str
    ca_pem: str = field(repr=False)

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any], settings: EmulatorSettings) -> EmulatorInfo:
        """Return what the answer of ``GET /_emulator/info`` says.

        Raises:
            ServiceError: something is missing: the answer is another version's, or not an emulator's at all.
        """
        registry = answer.get("registry")
        registry = registry if isinstance(registry, Mapping) else {}
        said = {
            **answer,
            "name": settings.name,
            "host": settings.host,
            "port": settings.reached_port,
            "registry_address": settings.registry_address,
            "registry_engine_name": registry.get("engine"),
        }
        missing = [item.name for item in fields(cls) if not isinstance(said.get(item.name), _TYPES[str(item.type)])]
        if missing:
            raise ServiceError(
                f"The service at {settings.host}:{settings.reached_port} is not this version's local AzureML: "
                f"its answer lacks {', '.join(missing)}.",
                hint="Recreate it: aml-train emulator stop, then aml-train emulator start.",
            )
        return cls(**{item.name: said[item.name] for item in fields(cls)})


def local_names(settings: EmulatorSettings, target: str = "local") -> TargetNames:
    """Return the local AzureML's names; they are the same in every instance."""
    return TargetNames(
        target=target,
        description=f"the local AzureML in the container {settings.name}",
        scope="local",
        registry_for_jobs=LOGIN_SERVER,
        registry_for_engine=f"localhost:{settings.registry_port}",
        compute=_COMPUTE,
    )
