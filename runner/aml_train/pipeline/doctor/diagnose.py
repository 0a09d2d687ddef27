"""Diagnose: the configuration, this machine, and the target. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aml_train.azure.doctor.checks import azure_checks
from aml_train.azure.doctor.probe import Wanted
from aml_train.azure.names import find_workspace
from aml_train.core.diagnosis import Check, CheckResult, Diagnosis, Outcome, misconfigured, ok, run_checks
from aml_train.core.errors import AmlTrainError, InvalidError
from aml_train.core.masking import Masker
from aml_train.core.secrets import known_secrets
from aml_train.pipeline.doctor.machine import Logins, machine_checks
from aml_train.pipeline.prepare import registry_logins
from aml_train.pipeline.resolve import read_project

if TYPE_CHECKING:
    from pathlib import Path

    from aml_train.config.load import Targets
    from aml_train.config.model import Config
    from aml_train.config.sections.targets import TargetConfig
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
    results = run_checks(checks, lambda result: report(_masked(result, hide)))
    name = target.name if target is not None else project.target or "unknown"
    return Diagnosis(target=name, results=tuple(_masked(result, hide) for result in results))


def _logins(config: Config | None, host: Host) -> Logins:
    """Return the credentials for base images; Azure's checks report a wrong cloud."""
    try:
        return (lambda _registry: None) if config is None else registry_logins(config, host)
    except InvalidError:
        return lambda _registry: None


def _masked(result: CheckResult, masker: Masker) -> CheckResult:
    found = result.outcome
    outcome = Outcome(
        status=found.status,
        found=masker.mask(found.found),
        remedy=masker.mask(found.remedy),
        exit_code=found.exit_code,
    )
    return CheckResult(name=result.name, outcome=outcome, blocked=result.blocked)


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
    resources = document.get("resources") or {}
    nodes = resources.get("instance_count", 1)
    image = config.image if config is not None else None
    repository = None
    if image is not None:
        repository = image.named(read_project(directory, host.environ).repository).repository
    try:
        wanted = Wanted(
            target=target,
            workspace=find_workspace(target, directory, host.environ),
            compute=target.compute or document.get("compute"),
            size=resources.get("instance_type"),
            nodes=nodes if isinstance(nodes, int) else 1,
            repository=repository,
            tasks=image is not None and image.builder.kind == "acr",
            needs_compute=config is not None and (config.sdk == "v1" or config.job.runconfig is not None),
        )
        return azure_checks(wanted, environ=host.environ, assertion=host.assertion, fetched=host.on_token)
    except InvalidError as error:
        outcome = _invalid(error)
        return (Check(name="workspace", run=lambda: outcome),)
