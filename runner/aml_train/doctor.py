"""Diagnose: the configuration, this machine, and the target. Changes nothing."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docker.errors import DockerException

from aml_train.azure.doctor import AzureChecks
from aml_train.azure.names import azure_names, find_workspace
from aml_train.core.diagnosis import (
    Check,
    CheckResult,
    Diagnosis,
    Outcome,
    failed,
    misconfigured,
    ok,
    run_checks,
    skipped,
    warning,
)
from aml_train.core.docker import buildkit_cli, in_container
from aml_train.core.errors import AmlTrainError, ImageError, InvalidError
from aml_train.core.masked_events import masked
from aml_train.core.masking import Masker
from aml_train.core.secrets import known_secrets
from aml_train.core.text import size
from aml_train.core.version import __version__
from aml_train.image.base import docker_registries
from aml_train.jobs.placement import placement_of
from aml_train.local.admin import emulator_info
from aml_train.local.settings import EmulatorSettings
from aml_train.pipeline.prepare import registry_logins
from aml_train.pipeline.resolve import read_project

if TYPE_CHECKING:
    from docker import DockerClient

    from aml_train.config.load import Targets
    from aml_train.config.model import Config
    from aml_train.config.sections.image_builder import BuilderConfig
    from aml_train.config.sections.targets import TargetConfig
    from aml_train.core.references import ImageRef
    from aml_train.image.registry.auth import Login, RegistryAuth
    from aml_train.pipeline.target import Host


@dataclass(frozen=True, kw_only=True)
class DoctorProject:
    """The project to diagnose.

    Attributes:
        load: loads the configuration.
        targets: loads its targets alone, if the rest has faults.
        target: the target's name; None for the configuration's.
    """

    load: Callable[[], Config]
    targets: Callable[[], Targets]
    target: str | None = None


def diagnose(
    project: DoctorProject, host: Host, report: Callable[[CheckResult], object], *, masker: Masker | None = None
) -> Diagnosis:
    """Run all checks, and return their results.

    Args:
        project: the project.
        host: this process.
        report: receives each result as soon as those before it are there.
        masker: hides secrets; by default those of the environment.
    """
    hide = masker or Masker(known_secrets(host.environ, identifiers=False))
    config, target, directory, outcome = _read(project)
    checks = [Check(name="configuration", run=lambda: outcome)]
    checks += machine_checks(config, host, _logins(config, host))
    if target is not None and directory is not None and target.kind == "azure":
        checks += _azure(config, target, directory, host)
    results = run_checks(checks, lambda result: report(masked(result, hide.mask, hide.mask)))
    name = target.name if target is not None else project.target or "unknown"
    return Diagnosis(target=name, results=masked(results, hide.mask, hide.mask))


def _logins(config: Config | None, host: Host) -> Logins:
    """Return the credentials for base images; Azure's checks report a wrong cloud."""
    try:
        return (lambda _registry: None) if config is None else registry_logins(config, host)
    except InvalidError:
        return lambda _registry: None


def _read(project: DoctorProject) -> tuple[Config | None, TargetConfig | None, Path | None, Outcome]:
    """Return the configuration and the target, as far as they can be read."""
    try:
        config = project.load()
    except AmlTrainError as error:
        outcome = _invalid(error)
    else:
        return config, config.target, config.directory, ok(config.describe())
    try:
        targets = project.targets()
        return None, targets.named(project.target), targets.directory, outcome
    except AmlTrainError:
        return None, None, None, outcome


def _invalid(error: AmlTrainError) -> Outcome:
    text = "; ".join(line.strip() for line in error.message.splitlines())
    return misconfigured(text, error.hint or "aml-train validate; aml-train init writes a first aml-train.yml.")


def _azure(config: Config | None, target: TargetConfig, directory: Path, host: Host) -> tuple[Check, ...]:
    """Return the checks of a workspace, or the one that it is not named."""
    document = config.job.document if config is not None else {}
    image = config.image if config is not None else None
    repository = None
    if image is not None:
        repository = image.named(read_project(directory, host.environ).repository).repository
    try:
        if config is not None:
            azure_names(config, host.environ)
        return AzureChecks(
            target=target,
            workspace=find_workspace(target, directory, host.environ),
            compute=target.compute or document.get("compute"),
            nodes=placement_of(document).nodes,
            repository=repository,
            environ=host.environ,
            assertion=host.assertion,
            fetched=host.on_token,
        ).checks()
    except InvalidError as error:
        outcome = _invalid(error)
        return (Check(name="workspace", run=lambda: outcome),)


_SDKS: Final = ("azure-ai-ml", "azure-identity", "azure-storage-blob")
_TIGHT: Final = 10_000_000_000
# The folder of containerd when it is the engine's image store (https://docs.docker.com/engine/storage/containerd/).
_CONTAINERD_ROOT: Final = "/var/lib/containerd"
_FULL: Final = 2_000_000_000
_FREE_SOME: Final = "docker system df; docker builder prune; docker image prune --all"

Logins = Callable[[str], "RegistryAuth | Login | None"]
"""Gives the credentials of a registry that Docker's configuration lacks."""


def machine_checks(config: Config | None, host: Host, logins: Logins) -> tuple[Check, ...]:
    """Return the checks of this machine that a run of *config* needs."""
    local = config is not None and config.target.kind == "local"
    image = config.image if config is not None else None
    builder = image.builder if image is not None else None
    elsewhere = builder is not None and (builder.is_service or builder.names_engine)
    wants_engine = local or config is None or (image is not None and not elsewhere)
    base = image.base if image is not None else None
    engines: list[Callable[[], DockerClient]] = [host.engine] if wants_engine else []
    checks = [Check(name="versions", run=check_versions)]
    if wants_engine:
        checks.append(Check(name="engine", run=partial(check_engine, host.engine)))
        checks.append(Check(name="disk", run=partial(check_disk_space, host), needs=("engine",)))
    else:
        why = "no image is built" if image is None else "the image is built elsewhere"
        checks.append(Check(name="engine", run=lambda: skipped(why)))
    if builder is not None and builder.names_engine:
        engines = [partial(_engine_of, host, builder)]
        checks.append(Check(name="builder", run=partial(check_engine, engines[0])))
    if builder is not None and not builder.is_service:
        checks.append(Check(name="build-client", run=partial(check_build_client, host.environ)))
    if base is not None:
        asked = engines[0] if engines and builder is not None and builder.has_engine else None
        checks.append(Check(name="base-image", run=partial(check_base, base, asked, host.environ, logins)))
    if local:
        checks.append(Check(name="local-azureml", run=partial(check_local, host.environ)))
    return tuple(checks)


def _engine_of(host: Host, builder: BuilderConfig) -> DockerClient:
    """Return the engine that *builder* names.

    Raises:
        ImageError: it does not answer.
    """
    engine = host.place(builder).engine
    if engine is None:
        raise ValueError("this builder has no engine")
    return engine


def check_versions() -> Outcome:
    """Show the versions in use; whether they fit each other is what ``pip check`` says."""
    found = [f"{name} {metadata.version(name)}" for name in _SDKS]
    return ok(", ".join([f"aml-train {__version__}", f"Python {platform.python_version()}", *found]))


def check_engine(connect: Callable[[], DockerClient]) -> Outcome:
    """Connect to a Docker engine."""
    version = connect().version()
    return ok(f"Docker {version.get('Version', 'unknown')}, {version.get('Os', '')}/{version.get('Arch', '')}")


def check_build_client(environ: Mapping[str, str]) -> Outcome:
    """Find a client that can build with BuildKit."""
    cli = buildkit_cli(environ)
    return ok(f"{cli.path}, {'buildx' if cli.buildx else 'without buildx'}")


def check_disk_space(host: Host) -> Outcome:
    """Look at the free space in a local engine's folder, without a container.

    A container of that engine does not have the folder; the container's own file system is the same one.
    """
    info, found = host.engine().info(), None
    local = host.environ.get("DOCKER_HOST", "unix://").startswith("unix://")
    if local and "Docker Desktop" not in info.get("OperatingSystem", ""):
        containerd = "io.containerd" in dict(info.get("DriverStatus") or ()).get("driver-type", "")
        path = _CONTAINERD_ROOT if containerd else str(info["DockerRootDir"])
        with contextlib.suppress(OSError):
            found = os.statvfs("/" if in_container() and not Path(info["DockerRootDir"]).is_dir() else path)
    if found is None:
        return warning("the engine's free space is not known from here", "docker system df")
    free = found.f_bavail * found.f_frsize
    text = f"{size(free)} free under {path}"
    if free < _FULL:
        return misconfigured(text, _FREE_SOME)
    return warning(f"{text}; a base with CUDA takes about 20 GB", _FREE_SOME) if free < _TIGHT else ok(text)


def check_base(
    base: ImageRef, engine: Callable[[], DockerClient] | None, environ: Mapping[str, str], logins: Logins
) -> Outcome:
    """Look the base image up in its registry, else in the engine that builds.

    *engine* is None for a builder that pulls every base.
    """
    name = base.familiar
    try:
        with docker_registries(environ, logins)(base.registry, attempts=2) as registry:
            head = registry.head_manifest(base.repository, base.digest or base.tag or "latest")
    except ImageError as error:
        if _in_engine(name, engine):
            return warning(
                f"{name} is in the engine; its registry: {error.message}",
                error.hint or f"docker login {base.registry}",
            )
        return failed(error.message, error.hint or f"docker login {base.registry}; docker pull {name}")
    if head is not None:
        return ok(f"{name} is at {head[:19]}")
    if _in_engine(name, engine):
        return ok(f"{name} is in the engine alone")
    return misconfigured(
        f"{name} is {'not' if engine is None else 'neither in the engine nor'} in {base.registry}",
        f"docker manifest inspect {name}; correct image.base.",
    )


def _in_engine(name: str, engine: Callable[[], DockerClient] | None) -> bool:
    if engine is None:
        return False
    try:
        engine().images.get(name)
    except (DockerException, ImageError):
        return False
    return True


def check_local(environ: Mapping[str, str]) -> Outcome:
    """Look whether the local AzureML runs; a run starts it."""
    settings = EmulatorSettings.from_environment(environ)
    info = emulator_info(settings)
    if info is None:
        return ok(f"{settings.name} does not run; `aml-train run` starts it")
    return ok(f"{settings.name} runs at {info.host}:{info.port}")
