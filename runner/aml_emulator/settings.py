"""Settings of ``serve``: the command line over the environment over defaults."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args
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
        quotas: how many vCPUs the clusters' nodes may have.
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
    quotas: Quotas
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

    def option(flag: str, default: str | None, help_: str) -> None:
        name = flag.removeprefix("--").replace("-", "_").upper()
        value = environment.get(PREFIX + name) or default
        serve.add_argument(flag, default=value, required=value is None and flag == "--data", help=help_)

    option("--data", None, "folder of all state (made if absent)")
    option("--host", "0.0.0.0", "address to listen on; jobs must reach it")  # noqa: S104 - jobs come in over a bridge
    option("--port", "7380", "port of proxy and admin; 0: a free one")
    option("--registry-port", "7381", "port of the registry; 0: a free one")
    option("--registry-tls-port", None, "port of the registry with TLS and Azure's sign-in; 0: a free one (none)")
    option("--registry-engine-name", None, "what the container engine calls the registry (localhost:<port>)")
    option("--page-address", None, "where a browser finds the page (http://127.0.0.1:<port>)")
    option("--max-jobs", "2", "at most so many jobs run at once")
    option("--job-memory", None, "the most memory of a job's node, such as 8g (seven eighths of the machine's)")
    option("--job-processes", str(JOB_PROCESSES), "the most processes and threads of a job's node")
    option("--node-start-seconds", "0", "how long a cluster's node takes to start")
    option("--quota", None, "vCPUs by family of sizes: standardNDASv4_A100Family=0,*=100 (300 of each)")
    option("--micromamba-url", MICROMAMBA_URL, "micromamba's package, for conda files over images without conda")
    serve.add_argument(
        "--environment",
        action="append",
        default=[],
        metavar="PATTERN=IMAGE",
        help=f"the image that plays a curated environment; may be repeated ({PREFIX}ENVIRONMENTS: separated by commas)",
    )
    option("--location", "eastus", "the Azure region that is played")
    option("--azurite", "azurite-blob", "the command that runs Azurite's Blob service")
    option("--registry", "docker-registry", "the command that runs the registry")
    option("--container", None, "the container that this process runs in (found out by itself)")
    option(
        "--clients", "host", "host: admin, page and open registry answer the host only; network: its network as well"
    )
    option("--fuse", "no", "yes: jobs may mount file systems (/dev/fuse, CAP_SYS_ADMIN)")
    option("--log-level", "info", "debug, info, warning or error")
    given = parser.parse_args(argv)
    if given.log_level not in ("debug", "info", "warning", "error"):
        parser.error(f"--log-level: debug, info, warning or error, not '{given.log_level}'")
    if given.fuse not in ("yes", "no"):
        parser.error(f"--fuse: yes or no, not '{given.fuse}'")
    if given.clients not in get_args(Clients):
        parser.error(f"--clients: {' or '.join(get_args(Clients))}, not '{given.clients}'")
    if not given.location.isalnum():
        parser.error(f"--location: a region such as eastus, not '{given.location}'")
    return Settings(
        data=Path(given.data).absolute(),
        host=given.host,
        port=_number(parser, "--port", given.port, 0, 65535),
        registry_port=_number(parser, "--registry-port", given.registry_port, 0, 65535),
        registry_tls_port=(
            _number(parser, "--registry-tls-port", given.registry_tls_port, 0, 65535)
            if given.registry_tls_port is not None
            else None
        ),
        registry_engine_name=given.registry_engine_name,
        page_address=given.page_address.rstrip("/") if given.page_address else None,
        max_jobs=_number(parser, "--max-jobs", given.max_jobs, 1, 64),
        job_memory=_size(parser, "--job-memory", given.job_memory) if given.job_memory else None,
        job_processes=_number(parser, "--job-processes", given.job_processes, 1, 2**22),
        node_start_seconds=_number(parser, "--node-start-seconds", given.node_start_seconds, 0, 86400),
        quotas=_quotas(parser, given.quota or ""),
        environments=_environments(
            parser, [*given.environment, *environment.get(f"{PREFIX}ENVIRONMENTS", "").split(",")]
        ),
        micromamba_url=given.micromamba_url,
        build_arguments=_proxies(environment),
        location=given.location.lower(),
        azurite=given.azurite,
        registry=given.registry,
        container=given.container or None,
        clients=given.clients,
        version=environment.get(f"{PREFIX}VERSION") or None,
        log_level=given.log_level,
        fuse=given.fuse == "yes",
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


def _quotas(parser: argparse.ArgumentParser, text: str) -> Quotas:
    try:
        return parse_quotas(text)
    except ValueError as error:
        parser.error(f"--quota: {error}")


def _size(parser: argparse.ArgumentParser, flag: str, text: str) -> int:
    try:
        return size_bytes(text, flag)
    except InvalidError as error:
        parser.error(error.message)


def _number(parser: argparse.ArgumentParser, flag: str, text: str, low: int, high: int) -> int:
    number = whole(text)
    if number is None or not low <= number <= high:
        parser.error(f"{flag}: a number from {low} to {high}, not '{text}'")
    return number
