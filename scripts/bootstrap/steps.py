"""Carry out one step on this machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.bootstrap import daemon, environment, services, stand_in
from scripts.bootstrap.commands import PAUSES, BootstrapError, CommandFailedError, Shell
from scripts.bootstrap.decisions import (
    AptInstall,
    AwaitDaemon,
    BuildEmulatorImage,
    CreateClientV1,
    CreateVenv,
    Host,
    ImportStandIn,
    InstallAzurite,
    InstallDevcontainers,
    InstallNode,
    PullImage,
    StartDaemon,
    Step,
)
from scripts.bootstrap.probes import Cli, find_docker_clis
from scripts.bootstrap.sources import SOURCE_LABEL, project_version

_POLICY = Path("/usr/sbin/policy-rc.d")
_APT = ("apt-get", "--quiet", "-o", "DPkg::Lock::Timeout=600")
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


def perform(step: Step, shell: Shell, host: Host) -> None:
    """Carry out *step*.

    Raises:
        BootstrapError: if it fails.
    """
    match step:
        case AptInstall():
            _apt_install(shell, step, host)
        case CreateVenv():
            environment.create_venv(shell, host.python)
        case CreateClientV1():
            environment.create_client_v1(shell, host.python)
        case StartDaemon(systemd=systemd):
            daemon.start_daemon(shell, systemd=systemd)
        case AwaitDaemon():
            daemon.await_daemon()
        case PullImage(reference=reference):
            # Not for long: where no registry is within reach, a stand-in is made.
            shell.run_patiently([_docker().path, "pull", "--quiet", reference], pauses=PAUSES[:2])
        case ImportStandIn(reference=reference):
            stand_in.import_stand_in(shell, _docker().path, reference)
        case BuildEmulatorImage():
            _build_emulator_image(shell, step)
        case InstallNode():
            services.install_node(shell)
        case InstallAzurite():
            services.install_azurite(shell)
        case InstallDevcontainers():
            services.install_devcontainers(shell)


def _docker(*, buildkit: bool = False) -> Cli:
    for cli in find_docker_clis():
        if cli.buildkit or not buildkit:
            return cli
    raise BootstrapError("no docker command on PATH" + (" can build with BuildKit" if buildkit else ""))


def _apt_install(shell: Shell, step: AptInstall, host: Host) -> None:
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        shell.run_patiently([*_APT, "update"], environment=quiet)
    except CommandFailedError as error:
        # One foreign source that cannot be reached is no reason not to try; the install reports it.
        shell.say(f"    apt-get update failed, and the lists may be old: {str(error).splitlines()[0]}")
    optional = [name for name in step.optional if _apt_knows(shell, name)]
    with _no_services_started():
        shell.run_patiently(
            [*_APT, "install", "--yes", "--no-install-recommends", *step.packages, *optional], environment=quiet
        )
    if host.systemd and "docker-registry" in step.packages:
        # The tests start separate registries; the package's would listen on every interface from boot on.
        shell.run(["systemctl", "disable", "docker-registry"])


def _apt_knows(shell: Shell, package: str) -> bool:
    try:
        shell.run(["apt-cache", "--quiet", "show", "--no-all-versions", package])
    except CommandFailedError:
        return False
    return True


@contextmanager
def _no_services_started() -> Iterator[None]:
    """Keep packages from starting services on installation; they are started by name."""
    if _POLICY.exists():
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    _POLICY.chmod(_POLICY.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    try:
        yield
    finally:
        _POLICY.unlink(missing_ok=True)


def _build_emulator_image(shell: Shell, step: BuildEmulatorImage) -> None:
    cli = _docker(buildkit=True)
    shell.run_patiently(
        emulator_build_argv(cli, step, version=project_version(shell.root), environment=os.environ),
        environment={"DOCKER_BUILDKIT": "1"},
    )


def emulator_build_argv(
    cli: Cli, step: BuildEmulatorImage, *, version: str, environment: os._Environ[str] | dict[str, str]
) -> list[str]:
    """Return the command that builds the local AzureML's image.

    It runs in the checkout with DOCKER_BUILDKIT=1.

    Proxy variables are handed on by name, so that their values are in no argument list; Docker keeps those out of
    the image's history as well.
    """
    build = [cli.path, "buildx", "build", "--load", "--provenance=false"] if cli.buildx else [cli.path, "build"]
    proxies = [word for name in _PROXY_VARIABLES if name in environment for word in ("--build-arg", name)]
    return [
        *build,
        "--progress=plain",
        "--file=runner/aml_emulator/Dockerfile",
        f"--build-arg=VERSION={version}",
        f"--label={SOURCE_LABEL}={step.source}",
        f"--tag={step.reference}",
        *proxies,
        ".",
    ]
