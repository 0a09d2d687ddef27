"""Settings of ``serve``: the command line over the environment over defaults."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from aml_emulator.domain.errors import InvalidError
from aml_emulator.domain.jobs.docker_args import size_bytes
from aml_emulator.domain.vm_sizes import Quotas, parse_quotas
from aml_emulator.executor.shared import JOB_PROCESSES
from aml_emulator.executor.spec import MICROMAMBA_URL
from aml_emulator.network.neighbours import Clients
from aml_emulator.reading import whole

PREFIX = "AML_EMULATOR_"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one service.

    Attributes:
        data: folder of all state.
        host: address to listen on; jobs must be able to reach it.
        port: of proxy and admin; 0 takes a free one.
        registry_port: of the registry; 0 takes a free one.
        registry_tls_port: of the registry with Azure's sign-in, for engines; 0 takes a free one, None for no such port.
        registry_engine_name: what the container engine calls the registry; None is ``localhost:<port>``.
        page_address: where a browser finds the page; None is ``http://127.0.0.1:<port>``.
        max_jobs: at most so many jobs run at once.
        job_memory: the most memory of a job's node in bytes; None is seven eighths of the machine's.
        job_processes: the most processes and threads of a job's node.
        node_start_seconds: how long a cluster's node takes to start.
        quota: how many vCPUs the clusters' nodes may have.
        environments: the images that play curated environments, by a pattern of their names.
        micromamba_url: the package of micromamba, for environments of a conda file over an image without conda.
        build_arguments: build arguments of environments' images: the proxy of this process.
        location: the Azure region that is played.
        azurite: the command that runs Azurite's Blob service.
        registry: the command that runs the registry.
        container: name or id of the container that this process runs in; None is to be found out.
        clients: who has the admin interface, the page and the registry without a sign-in.
        version: what the service says it is; None is the version of the installed package.
        log_level: ``debug``, ``info``, ``warning`` or ``error``.
        fuse: whether jobs may mount file systems, which needs CAP_SYS_ADMIN.
    """

    data: Path
    host: str
    port: int
    registry_port: int
    registry_tls_port: int | None
    registry_engine_name: str | None
    page_address: str | None
    max_jobs: int
    job_memory: int | None
    job_processes: int
    node_start_seconds: float
    quota: Quotas
    environments: Mapping[str, str]
    micromamba_url: str
    build_arguments: Mapping[str, str]
    location: str
    azurite: str
    registry: str
    container: str | None
    clients: Clients
    version: str | None
    log_level: str
    fuse: bool


def parse(argv: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings; invalid ones end the process as argparse does.

    Args:
        argv: without the program's name.
        environment: where ``AML_EMULATOR_<FLAG>`` gives what no flag gives.
    """
    parser = argparse.ArgumentParser(
        prog="aml-emulator",
        description="The local AzureML: the service, its storage, its registry and its jobs, on one machine.",
        epilog=f"Every flag of serve can be given as {PREFIX}<FLAG> in the environment, for example {PREFIX}MAX_JOBS.",
    )
    serve = parser.add_subparsers(dest="command", required=True).add_parser("serve", help="run the service")

    def option(flag: str, default: str | None, help_: str, read: Callable[[str], Any] = str) -> None:
        name = flag.removeprefix("--").replace("-", "_")
        value = environment.get(PREFIX + name.upper()) or default
        serve.add_argument(
            flag, default=value, required=value is None and flag == "--data", help=help_, type=_told(read), dest=name
        )

    port = _number(0, 65535)
    option("--data", None, "folder of all state (made if absent)", lambda text: Path(text).absolute())
    option("--host", "0.0.0.0", "address to listen on; jobs must reach it")  # noqa: S104 - jobs come in over a bridge
    option("--port", "7380", "port of proxy and admin; 0: a free one", port)
    option("--registry-port", "7381", "port of the registry; 0: a free one", port)
    option(
        "--registry-tls-port", None, "port of the registry with TLS and Azure's sign-in; 0: a free one (none)", port
    )
    option("--registry-engine-name", None, "what the container engine calls the registry (localhost:<port>)")
    option(
        "--page-address",
        None,
        "where a browser finds the page (http://127.0.0.1:<port>)",
        lambda text: text.rstrip("/"),
    )
    option("--max-jobs", "2", "at most so many jobs run at once", _number(1, 64))
    option(
        "--job-memory", None, "the most memory of a job's node, such as 8g (seven eighths of the machine's)", _size
    )
    option("--job-processes", str(JOB_PROCESSES), "the most processes and threads of a job's node", _number(1, 2**22))
    option("--node-start-seconds", "0", "how long a cluster's node takes to start", _number(0, 86400))
    option("--quota", "", "vCPUs by family of sizes: standardNDASv4_A100Family=0,*=100 (300 of each)", parse_quotas)
    option("--micromamba-url", MICROMAMBA_URL, "micromamba's package, for conda files over images without conda")
    serve.add_argument(
        "--environment",
        action="append",
        default=[],
        metavar="PATTERN=IMAGE",
        help=f"the image that plays a curated environment; may be repeated ({PREFIX}ENVIRONMENTS: separated by commas)",
    )
    option("--location", "eastus", "the Azure region that is played", _region)
    option("--azurite", "azurite-blob", "the command that runs Azurite's Blob service")
    option("--registry", "docker-registry", "the command that runs the registry")
    option("--container", None, "the container that this process runs in (found out by itself)")
    option(
        "--clients",
        "host",
        "host: admin, page and open registry answer the host only; network: its network as well",
        _one_of(*get_args(Clients)),
    )
    option("--fuse", "no", "yes: jobs may mount file systems (/dev/fuse, CAP_SYS_ADMIN)", _one_of("yes", "no"))
    option("--log-level", "info", "debug, info, warning or error", _one_of("debug", "info", "warning", "error"))
    given = vars(parser.parse_args(argv))
    pairs = [*given.pop("environment"), *environment.get(f"{PREFIX}ENVIRONMENTS", "").split(",")]
    del given["command"]
    return Settings(
        **given | {"fuse": given["fuse"] == "yes"},
        environments=_environments(parser, pairs),
        build_arguments=_proxies(environment),
        version=environment.get(f"{PREFIX}VERSION") or None,
    )


def _environments(parser: argparse.ArgumentParser, pairs: Sequence[str]) -> Mapping[str, str]:
    """Return the images of ``PATTERN=IMAGE``; the first of a pattern counts."""
    found: dict[str, str] = {}
    for pair in filter(None, (pair.strip() for pair in pairs)):
        pattern, _, image = pair.partition("=")
        if not pattern.strip() or not image.strip():
            parser.error(f"--environment: PATTERN=IMAGE, such as 'AzureML-sklearn-*=my-image:1', not '{pair}'")
        found.setdefault(pattern.strip(), image.strip())
    return found


def _proxies(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the proxy variables as build arguments, without loopback addresses."""
    found = {}
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        proxy = environment.get(name) or environment.get(name.lower())
        if proxy and urlsplit(proxy).hostname not in {None, "localhost", "127.0.0.1", "::1"}:
            found[name] = found[name.lower()] = proxy
    direct = environment.get("NO_PROXY") or environment.get("no_proxy")
    return found | ({"NO_PROXY": direct, "no_proxy": direct} if found and direct else {})


def _told(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return *read* with its error as a message of the command line."""

    def value(text: str) -> Any:
        try:
            return read(text)
        except (ValueError, InvalidError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return value


def _size(text: str) -> int:
    return size_bytes(text, "it")


def _region(text: str) -> str:
    if not text.isalnum():
        raise ValueError(f"a region such as eastus, not '{text}'")
    return text.lower()


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{', '.join(words[:-1])} or {words[-1]}, not '{text}'")
        return text

    return read


def _number(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = whole(text)
        if number is None or not low <= number <= high:
            raise ValueError(f"a number from {low} to {high}, not '{text}'")
        return number

    return read
