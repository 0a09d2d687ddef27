"""Prepare a run: configuration → resolved → plan."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aml_train.azure.acr import logins_by_identity
from aml_train.azure.clouds import cloud_named
from aml_train.azure.sign_in import sign_in_to_azure
from aml_train.config.model import Config
from aml_train.core.errors import InvalidError
from aml_train.core.file_selection import FileId
from aml_train.core.git import Checkout
from aml_train.core.trust import Trust
from aml_train.image.base import BaseImages, docker_registries
from aml_train.image.solve import solve
from aml_train.image.spec import plan_image
from aml_train.jobs.code import unfetched
from aml_train.pipeline.plan import Plan, make_plan
from aml_train.pipeline.plan_values import render_plan
from aml_train.pipeline.resolve import (
    BRANCH_VARIABLE,
    RUN_URL_VARIABLE,
    Commit,
    Surroundings,
    read_commit,
    read_project,
    read_trust,
    resolve,
    resolve_image,
    target_names,
)
from aml_train.pipeline.run_files import file_ids, secret_files
from aml_train.pipeline.sdk import with_sdk
from aml_train.pipeline.target import Host, target_override

if TYPE_CHECKING:
    from aml_train.azure.sign_in import SignIn
    from aml_train.image.registry.auth import Login
    from aml_train.image.spec import ImageSpec


@dataclass(frozen=True, kw_only=True)
class PreparedRun:
    """A plan, and what its execution needs. It prints as what a run would do.

    >>> planned = plan(load_config())
    >>> run(planned).status
    'passed'
    """

    plan: Plan
    host: Host

    def __str__(self) -> str:
        return render_plan(self.plan)


def prepare_run(
    config: Config,
    host: Host,
    *,
    image: bool = True,
    commit: Callable[[Path], Commit | None] | None = None,
    own: Collection[FileId] = (),
    trust: Trust | None = None,
    proposed: bool = False,
) -> PreparedRun:
    """Resolve and plan. Changes nothing.

    It signs in only to look up a base image in one of Azure's registries.

    Args:
        config: the configuration.
        host: this process.
        image: whether the image matters; it does not to attach to a job by its name.
        commit: reads the commit of a folder; by default, ``AML_TRAIN_BRANCH`` names the branch of a detached checkout.
        own: files that this process writes to: they are no part of code, tests and image, nor are the configuration's secrets.
        trust: of the run, if an event decides it; by default the branch of the checkout does.
        proposed: the caller says that the commit is only proposed, whatever its branch.

    Raises:
        InvalidError: the target's workspace or compute is missing, or ``sdk: v1`` is configured and not installed.
        ImageError: the engine does not answer, or the base image is not found.
    """
    own = {*own, *file_ids(*secret_files(config))}
    if not image or target_override() is not None:
        config = dataclasses.replace(config, image=None, tests=None, images=())
    if image:  # else nothing is submitted
        config = with_sdk(config)
    environ = host.environ
    names = target_names(config, environ)
    remarks: list[str] = []
    checkout = Checkout(config.directory)
    read = commit or functools.partial(read_commit, branch=environ.get(BRANCH_VARIABLE) or None, checkout=checkout)
    lookup = _lookup(config, host, remarks.append)
    platform = host.place(config.builder).platform() if config.image is not None else ""
    resolved = resolve(config, Surroundings(platform=platform, lookup=lookup, commit=read, own=own, given=image))
    sent = (resolved.code, *resolved.folders.values())
    remarks += dict.fromkeys(remark for files in sent if files is not None for remark in unfetched(files))
    named, commit_read = environ.get(BRANCH_VARIABLE) or None, resolved.commit
    trust = trust or read_trust(config.directory, commit_read, named=named, proposed=proposed)
    resolved = dataclasses.replace(
        resolved, project=read_project(config.directory, environ, checkout=checkout), trust=trust
    )
    plan = make_plan(config, resolved, names, branch=named, run_url=environ.get(RUN_URL_VARIABLE) or None)
    plan = dataclasses.replace(plan, notices=(*plan.notices, *remarks))
    return PreparedRun(plan=plan, host=host)


def with_packages(prepared: PreparedRun) -> PreparedRun:
    """Return the plan with the packages that the base's pip would install, if the engine has the base: nothing is pulled.

    Secrets are read for the protected branch; a proposal's are those that ``--set`` names.

    Raises:
        ImageError: they do not fit together.
    """
    plan = prepared.plan
    images, remarks = [], list(plan.notices)
    for one in plan.images:
        spec, base = one.spec, one.spec.base
        if spec.solve and base.image_id is None:
            name = base.reference.familiar
            later = "" if plan.config.builder.kind == "acr" else " A run resolves them."
            remarks.append(f"The packages were not resolved: the engine does not have {name}.{later}")
            images.append(one)
            continue
        cli = prepared.host.place(plan.config.builder).cli
        spec = spec if plan.trust.protected else dataclasses.replace(spec, is_proposed=True)
        solution = solve(spec, cli=cli, listener=lambda _event: None)
        images.append(dataclasses.replace(one, packages=solution.versions))
        remarks += solution.remarks
    plan = dataclasses.replace(plan, images=tuple(images), notices=tuple(dict.fromkeys(remarks)))
    return dataclasses.replace(prepared, plan=plan)


def plan_image_only(
    config: Config, host: Host, *, remark: Callable[[str], object], offline: bool = False
) -> ImageSpec:
    """Plan the image of *config* and nothing else. Changes nothing.

    Args:
        config: the configuration.
        host: this process.
        remark: receives a sentence for each base image that may have moved, and on the drivers of ``ofed: auto``.
        offline: query neither engine nor registry; images are then in the Dockerfile as they are written, and the
            address means nothing.

    Raises:
        InvalidError: there is no ``image:``, or a file cannot be used.
        ImageError: an image is not found.
    """
    image = config.image
    if image is None:
        raise InvalidError("the configuration has no `image`", hint="Add it: image: {base: …}")
    platform = image.platform or ("linux/amd64" if offline else host.place(image.builder).platform())
    lookup = None if offline else _lookup(config, host, remark)
    here = Surroundings(platform=platform, own=file_ids(*secret_files(config)))
    found = resolve_image(image, None, config.directory, lookup, here)
    named = image.named(read_project(config.directory, host.environ).repository)
    branch = host.environ.get(BRANCH_VARIABLE) or None
    commit = read_commit(config.directory, branch=branch)
    trust = read_trust(config.directory, commit, named=branch, proposed=False)
    return plan_image(named, found.base, found.inputs, platform).trusted(trust)


def image_lookup(config: Config, host: Host) -> BaseImages:
    """Return what looks up images by their names, with the target's credentials."""
    return dataclasses.replace(_lookup(config, host, lambda _text: None), where="environment")


def _lookup(config: Config, host: Host, remark: Callable[[str], object]) -> BaseImages:
    image = config.image
    return BaseImages(
        engine=host.place(config.builder).resolving_engine,
        registries=docker_registries(host.environ, registry_logins(config, host)),
        where=image.where if image else "image.base",
        pull=image.pull if image else "check",
        remark=remark,
    )


def registry_logins(config: Config, host: Host) -> Callable[[str], Login | None]:
    """Return a function from a registry to credentials of the target's identity."""
    if config.target.kind != "azure":
        return lambda _registry: None

    environ, on_token = host.environ, host.on_token
    cloud = cloud_named(environ.get("AZURE_ENVIRONMENT", ""))

    def identity() -> SignIn:
        return sign_in_to_azure(
            environ,
            cloud=cloud,
            assertion=host.assertion,
            fetched=on_token,
            named=config.target.sign_in,
            subscription=config.target.subscription_id,
        )

    return logins_by_identity(identity, cloud.registry_scope, outer=environ, fetched=on_token)
