"""Put a run together: configuration → resolved → plan → execution, with the listeners that show it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from aml_train.config import Config, PullPolicy, TargetConfig, secrets_in
from aml_train.core.clock import Clock, elapsed
from aml_train.core.errors import InvalidError
from aml_train.core.events import Broadcast, Event, Listener, to_json
from aml_train.core.files import FileId
from aml_train.core.masking import Masker, known_secrets
from aml_train.core.streams import lasting_output
from aml_train.image import secret_access
from aml_train.jobs import TargetNames
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.plan import Plan, make_plan
from aml_train.pipeline.resolve import BRANCH_VARIABLE, RUN_URL_VARIABLE, Commit, read_commit, read_project, resolve
from aml_train.pipeline.result import RunOptions, RunResult
from aml_train.pipeline.run import run
from aml_train.pipeline.sdk import SdkLoader, with_sdk
from aml_train.pipeline.target import Target

if TYPE_CHECKING:
    from docker import DockerClient

    from aml_train.azure import Assertion, AzureV2, Fetched, SignIn
    from aml_train.core.references import ImageRef
    from aml_train.image import BaseImage, ImageSpec, Login, MovedTags
    from aml_train.jobs import JobService


@dataclass(frozen=True, kw_only=True)
class PreparedRun:
    """A plan and what its execution needs.

    Attributes:
        engine: connects to the engine, once; it is not needed where nothing is built and the jobs run in Azure.
        outer: the process's environment as it was found: the target adds its own variables to the process later.
        assertion: fetches federated assertions to sign in to Azure with; None where the caller cannot.
        fetched: is told each token that Azure and its registry give, before it is used.
    """

    plan: Plan
    config: Config
    engine: Callable[[], DockerClient]
    outer: Mapping[str, str]
    assertion: Assertion | None = None
    fetched: Fetched = lambda _token: None


def prepare_run(
    config: Config,
    *,
    environment: Mapping[str, str],
    assertion: Assertion | None = None,
    fetched: Fetched = lambda _token: None,
    image: bool = True,
    commit: Callable[[Path], Commit | None] | None = None,
    own: Collection[FileId] = (),
) -> PreparedRun:
    """Resolve and plan. Changes nothing, and signs in only to look at a base in one of Azure's registries.

    Args:
        config: what the user said.
        environment: the process's environment.
        assertion, fetched: see :class:`PreparedRun`.
        image: whether the image matters. It does not to who attaches to a job by its name.
        commit: reads the commit around a folder; by default with the branch's name of ``AML_TRAIN_BRANCH`` for a detached checkout.
        own: files that this process writes to: they are no part of code, tests and image.

    Raises:
        InvalidError: if the target's workspace or compute is not said, or ``sdk: v1`` is asked for and not installed.
        ImageError: if the engine does not answer or the base image is nowhere to be found.
    """
    if not image:
        config = dataclasses.replace(config, image=None, tests=None)
    if image:  # else nothing is submitted
        config = with_sdk(config)
    names = _names(config, environment)
    engine = _engine(environment)
    remarks: list[str] = []
    look = _Look(
        engine=engine,
        environment=environment,
        where=config.image.where if config.image else "image.base",
        pull=config.image.pull if config.image else "check",
        remark=remarks.append,
        logins=_logins(config, environment, assertion, fetched),
    )
    platform = _platform(engine()) if config.image is not None else ""
    read = commit or functools.partial(read_commit, branch=environment.get(BRANCH_VARIABLE) or None)
    resolved = resolve(config, platform=platform, resolve_base=look.base, read_os=look.os, commit=read, own=own)
    resolved = dataclasses.replace(resolved, project=read_project(config.directory, environment))
    plan = make_plan(config, resolved, names, run_url=environment.get(RUN_URL_VARIABLE) or None)
    return PreparedRun(
        plan=dataclasses.replace(_with_access(plan, config, environment), notices=(*plan.notices, *remarks)),
        config=config,
        engine=engine,
        outer=environment,
        assertion=assertion,
        fetched=fetched,
    )


def plan_image_only(
    config: Config, *, environment: Mapping[str, str], remark: Callable[[str], object], offline: bool = False
) -> ImageSpec:
    """Plan the image of *config* and nothing else. Changes nothing.

    Args:
        config: what the user said.
        environment: the process's environment.
        remark: is given a sentence for each base that may have moved.
        offline: ask neither engine nor registry; images then stand in the Dockerfile as they are written, and the
            address means nothing.

    Raises:
        InvalidError: if there is no ``image:``, or a file cannot be used.
        ImageError: if an image is nowhere to be found.
    """
    from aml_train.image import collect_inputs, plan_image, unresolved

    image = config.image
    if image is None:
        raise InvalidError("the configuration has no `image`", hint="Add it: image: {base: …}")
    engine = _engine(environment)
    platform = image.platform or ("linux/amd64" if offline else _platform(engine()))
    look = _Look(
        engine=engine,
        environment=environment,
        where=image.where,
        pull=image.pull,
        remark=remark,
        logins=_logins(config, environment, None, _unheard),
    )
    base, inputs = collect_inputs(
        image,
        project=config.directory,
        platform=platform,
        resolve_base=unresolved if offline else look.base,
        read_os=None if offline else look.os,
        now=datetime.datetime.now(datetime.UTC),
    )
    named = image.named(read_project(config.directory, environment).repository)
    spec = plan_image(named, base, inputs, platform)
    return dataclasses.replace(spec, secret_access=secret_access(environment, config.directory))


def _with_access(plan: Plan, config: Config, environment: Mapping[str, str]) -> Plan:
    """Return *plan* with what its build may read of this machine."""
    if plan.image is None:
        return plan
    image = dataclasses.replace(plan.image, secret_access=secret_access(environment, config.directory))
    return dataclasses.replace(plan, image=image)


@dataclass(frozen=True, kw_only=True)
class _Look:
    """Looks at images, in the engine and in their registries; *remark* is given a sentence for each base that may have moved."""

    engine: Callable[[], DockerClient]
    environment: Mapping[str, str]
    where: str
    pull: PullPolicy
    logins: Callable[[str], Login | None]
    remark: Callable[[str], object]

    def base(self, reference: ImageRef, platform: str) -> BaseImage:
        from aml_train.image import docker_registries, resolve_base

        return resolve_base(
            reference,
            platform=platform,
            engine=self.engine(),
            registries=docker_registries(self.environment, self.logins),
            pull=self.pull,
            check=self._check,
            where=self.where,
        )

    @functools.cached_property
    def _check(self) -> MovedTags:
        from aml_train.image import MovedTags, docker_registries

        return MovedTags(docker_registries(self.environment, self.logins, attempts=1), remark=self.remark)

    def os(self, base: BaseImage, platform: str) -> str:
        from aml_train.image import docker_registries, read_os

        registries = docker_registries(self.environment, self.logins)
        return read_os(base, platform=platform, engine=self.engine(), registries=registries)


def _logins(
    config: Config, environment: Mapping[str, str], assertion: Assertion | None, fetched: Fetched
) -> Callable[[str], Login | None]:
    """Return what gives the credentials for a base's registry by the target's identity, where the target has one."""
    if config.target.kind != "azure":
        return lambda _registry: None
    from aml_train.azure import cloud_named, logins_by_identity, sign_in_to_azure

    cloud = cloud_named(environment.get("AZURE_ENVIRONMENT", ""))

    def identity() -> SignIn:
        return sign_in_to_azure(environment, cloud=cloud, assertion=assertion, fetched=fetched)

    return logins_by_identity(identity, cloud.registry_scope, outer=environment, fetched=fetched)


def _unheard(_token: str) -> None:
    """Hear of a token, and do nothing with it: on the command line nothing masks."""


def _engine(environment: Mapping[str, str]) -> Callable[[], DockerClient]:
    @functools.cache
    def connected() -> DockerClient:
        from aml_train.core.engine import connect

        return connect(environment)

    return connected


def _platform(engine: DockerClient) -> str:
    version = engine.version()
    return f"{version['Os']}/{version['Arch']}"


def _names(config: Config, environment: Mapping[str, str]) -> TargetNames:
    if config.target.kind == "azure":
        from aml_train.azure import azure_names

        return azure_names(config, environment)
    from aml_train.local import EmulatorSettings, local_names

    return local_names(EmulatorSettings.from_environment(environment), config.target.name)


@contextlib.contextmanager
def json_listener(path: Path | None) -> Iterator[list[Listener]]:
    """Give a listener that writes each event as a line of JSON to *path*, or none.

    Raises:
        InvalidError: if the file cannot be written.
    """
    if path is None:
        yield []
        return
    try:
        file: TextIO = path.open("w", encoding="utf-8")
    except OSError as error:
        raise InvalidError(f"--json {path}: cannot be written: {error.strerror}") from error
    lasting = lasting_output(file, sys.stderr, name=f"--json {path}")

    def write(event: Event) -> None:
        lasting.write(to_json(event) + "\n")
        lasting.flush()

    try:
        yield [write]
    finally:
        lasting.close()


def run_prepared(
    prepared: PreparedRun, options: RunOptions, *, listeners: Sequence[Listener], masker: Masker | None = None
) -> RunResult:
    """Execute the plan; each of *listeners* is told everything that happens, in their order.

    *masker* knows the secrets that a job's logs are not to show: by default those of the environment and the configuration.
    """
    if masker is None:
        known = known_secrets(prepared.outer, identifiers=False)
        masker = Masker({*known, *secrets_in(prepared.config)})
    sdk = SdkLoader()
    emit = Broadcast(*listeners, sdk)
    return run(
        RunContext(
            plan=prepared.plan,
            options=options,
            open_target=lambda: _open_target(prepared, emit),
            emit=emit,
            clock=Clock(now=elapsed, sleep=time.sleep),
            secrets=masker,
            sdk=sdk,
        )
    )


def open_service(
    config: Config,
    *,
    environment: Mapping[str, str],
    assertion: Assertion | None = None,
    fetched: Fetched = lambda _token: None,
) -> JobService | None:
    """Return the workspace's jobs, to look at and to cancel. Nothing is started and nothing checked.

    Returns:
        None where there can be no live job: the local AzureML does not run.

    Raises:
        InvalidError: the target's workspace is not said.
        ServiceError: the sign-in fails.
    """
    if config.target.kind == "azure":
        from aml_train.azure import connect_azure, find_workspace

        where = find_workspace(config.target, config.directory, environment)
        service, _ = connect_azure(where, outer=environment, assertion=assertion, fetched=fetched)
        return service
    from aml_train.local import EmulatorSettings, connect_local, find_running

    settings = EmulatorSettings.from_environment(environment)
    info = find_running(settings)
    return None if info is None else connect_local(info, environment, page=settings.page_origin)


def open_workspace(
    target: TargetConfig, directory: Path, *, environment: Mapping[str, str], listener: Listener
) -> AzureV2:
    """Return the workspace of a target, to browse; the local AzureML is started where it does not run.

    Args:
        target: which.
        directory: the project folder, where config.json may stand.
        environment: the process's environment.
        listener: told what is started.

    Raises:
        InvalidError: the target's workspace is not said.
        ServiceError: the sign-in fails, or the local AzureML does not start.
    """
    if target.kind == "azure":
        from aml_train.azure import connect_azure, find_workspace

        where = find_workspace(target, directory, environment)
        return connect_azure(where, outer=environment, assertion=None, fetched=lambda _token: None)[0]
    from aml_train.local import EmulatorSettings, connect_local, find_running, start

    settings = EmulatorSettings.from_environment(environment)
    info = find_running(settings) or start(settings, listener)
    return connect_local(info, environment, page=settings.page_origin)


def sweep_engine(environment: Mapping[str, str], listener: Listener) -> None:
    """Remove what killed runs left on the engine of *environment*; see :func:`aml_train.image.leftovers.sweep`.

    Raises:
        ImageError: the engine does not answer.
    """
    from aml_train.core.engine import connect
    from aml_train.core.temporary import sweep_folders
    from aml_train.image import sweep

    sweep_folders(listener)
    engine = connect(environment)
    try:
        sweep(engine, listener)
    finally:
        engine.close()


def _open_target(prepared: PreparedRun, listener: Listener) -> Target:
    from aml_train.core.temporary import sweep_folders

    sweep_folders(listener)
    if prepared.plan.image is not None:
        from aml_train.image import sweep

        sweep(prepared.engine(), listener)
    if prepared.config.target.kind == "azure":
        from aml_train.azure import find_workspace, open_azure

        return open_azure(
            prepared.config.target,
            find_workspace(prepared.config.target, prepared.config.directory, prepared.outer),
            prepared.plan.job.document.get("compute"),
            engine=prepared.engine,
            outer=prepared.outer,
            assertion=prepared.assertion,
            fetched=prepared.fetched,
            listener=listener,
        )
    from aml_train.azure import without_secrets
    from aml_train.local import EmulatorSettings, open_local

    return open_local(
        EmulatorSettings.from_environment(prepared.outer),
        engine=prepared.engine(),
        outer=without_secrets(prepared.outer),
        names=prepared.plan.names,
        listener=listener,
        environments=prepared.config.target.environments,
    )
