"""Read an image's inputs: project files, the base's distribution, other images."""

from __future__ import annotations

import datetime
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aml_train.config.sections.image import CopyConfig, DockerfileConfig, ImageConfig
from aml_train.core.boundary import boundaries
from aml_train.core.errors import Combined, Fault, InvalidError
from aml_train.core.file_selection import CACHES, SECRETS, FileEntry, FileId, secret_rules
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.image.dockerfile.ofed import needs_base, plan_ofed
from aml_train.image.inputs import (
    CONSTRAINTS,
    ENVIRONMENT,
    PROTECT,
    BaseImage,
    ImageInputs,
    OwnDockerfile,
    build_script,
)
from aml_train.image.project_files import (
    conda_file,
    constraints_file,
    parsed_dockerfile,
    read_file,
    requirement_files,
)
from aml_train.image.requirements_file import ignore_patterns, normalised_ignore_file

if TYPE_CHECKING:
    from aml_train.image.base import BaseImages


def collect_inputs(
    config: ImageConfig,
    *,
    project: Path,
    platform: str,
    bases: BaseImages | None,
    now: datetime.datetime,
    own: Collection[FileId] = (),
) -> tuple[BaseImage, ImageInputs]:
    """Return the resolved base of *config*, and what its build needs.

    Args:
        project: the project folder, which reported paths are relative to.
        bases: looks up images; None where none is looked at: they are then only for display.
        now: the time, for ``refresh``.
        own: the run's own files, which are no part of the image.

    Raises:
        ImageError: if an image is not found, or the base does not name its distribution.
        InvalidError: if a file cannot be read, or cannot be used.
    """
    resolve_base = unresolved_base if bases is None else bases.resolve
    if config.dockerfile is not None:
        return _own(config.dockerfile, platform, resolve_base, own)
    if config.base is None:
        raise ValueError("an image has a base or a Dockerfile")
    files: dict[str, bytes] = {}
    trees: dict[str, FileSet] = {}
    requirements, places = None, dict[str, str]()
    together = Combined()
    with together.part():
        if config.pip.requirements is not None:
            requirements, found, places = requirement_files(config.pip.requirements, project)
            files |= found
    with together.part():
        if config.pip.constraints is not None:
            files[CONSTRAINTS] = constraints_file(config.pip.constraints, project)
    with together.part():
        if config.conda is not None:
            files[ENVIRONMENT] = conda_file(config.conda.file, project)
    for number, path in enumerate(config.ca_certificates):
        with together.part():
            files[f"ca-certificates/{number}-{re.sub(r'[^A-Za-z0-9._-]', '-', path.stem)}.crt"] = _certificate(path)
    for number, item in enumerate(config.copy):
        with together.part():
            trees[f"copy/{number}"] = _copied(item, project, own)
    with together.part():
        if config.ofed is not None and not needs_base(config.ofed):
            plan_ofed(config.ofed, None, platform)
    together.raise_if_any()
    base = resolve_base(config.base, platform)
    if config.protect.packages:
        files[PROTECT] = build_script(PROTECT)
    os_name = drivers = None
    if config.ofed is not None and needs_base(config.ofed):
        auto = config.ofed.source == "auto"
        if bases is None:
            what, remedy = "`image.ofed.os` is missing", "give it"
            if auto:
                what = "`image.ofed: auto` depends on the base"
                remedy = "write what it comes to: `ofed: none` for NVIDIA's images, or `ofed: distro`"
            where, why = config.ofed.where, "the base is not looked at"
            raise InvalidError([Fault(where=where, what=what, why=why, remedy=remedy)])
        if auto:
            drivers = bases.drivers(base, platform)
        else:
            os_name = bases.distribution(base, platform)
    return base, ImageInputs(
        files=files,
        trees=trees,
        requirements=requirements,
        os=os_name,
        drivers=drivers,
        micromamba=resolve_base(config.conda.micromamba, platform).pinned if config.conda is not None else None,
        refreshed=refreshed(config.refresh, now),
        places=places,
    )


def unresolved_base(reference: ImageRef, _platform: str) -> BaseImage:
    """Return *reference*, not looked up, as a base for display only."""
    if reference.digest is not None:
        return BaseImage(reference=reference, digest=reference.digest)
    return BaseImage(reference=reference, image_id=f"sha256:{'0' * 64}")


def refreshed(period: float | None, now: datetime.datetime) -> str | None:
    """Return when the current *period* (seconds) began, in UTC to the minute."""
    if period is None:
        return None
    start = now.timestamp() // period * period
    return datetime.datetime.fromtimestamp(start, datetime.UTC).strftime("%Y-%m-%dT%H:%MZ")


def _certificate(path: Path) -> bytes:
    """Return a PEM file that holds certificates and no private key."""
    content = read_file(path)
    if b"-----BEGIN CERTIFICATE-----" not in content:
        what = "the file has no `-----BEGIN CERTIFICATE-----`"
        raise InvalidError([Fault(where=str(path), what=what, remedy="convert it to PEM: openssl x509 -inform der")])
    if b"PRIVATE KEY-----" in content:
        what, why = "the file has a private key in it", "everybody can read it in an image"
        raise InvalidError([Fault(where=str(path), what=what, why=why, remedy="leave only the certificates in it")])
    return content


def _copied(item: CopyConfig, project: Path, own: Collection[FileId]) -> FileSet:
    """Return the files of one of ``image.copy``: without ``.git``, secrets and caches."""
    leave_out = (*SECRETS, *CACHES)
    if item.source.is_dir():
        return FileSet.collect(item.source, ignore_files=(), leave_out=leave_out, own=own)
    found = FileSet.collect(
        item.source.parent,
        [f"/{_literal(item.source.name)}"],
        ignore_files=(),
        leave_out=leave_out,
        links="follow",
        within=boundaries(project),
        own=own,
    )
    if not found.entries:
        what = "the file is a secret, by its name or because `secrets` names it"
        why = "everybody can read it in an image"
        raise InvalidError(
            [Fault(where=str(item.source), what=what, why=why, remedy="use `secrets`, or another name")]
        )
    return found


def _literal(name: str) -> str:
    return re.sub(r"([\\*?\[\]!# ])", r"\\\1", name)


def _own(
    config: DockerfileConfig,
    platform: str,
    resolve_base: Callable[[ImageRef, str], BaseImage],
    own: Collection[FileId],
) -> tuple[BaseImage, ImageInputs]:
    """Read a user's Dockerfile and its context, and resolve every image that it names."""
    together = Combined()
    with together.part():
        parsed = parsed_dockerfile(config, platform)
    with together.part():
        context, files = _without_ignore_files(collect_context(config, own), config)
    together.raise_if_any()
    bases = {image.reference: resolve_base(image.reference, platform) for image in parsed.images}
    dockerfile = OwnDockerfile(
        text=parsed.pinned({reference: base.pinned for reference, base in bases.items()}),
        images={reference.familiar: base.identity for reference, base in bases.items()},
        pinned=tuple(base.pinned for base in bases.values()),
    )
    return bases[parsed.base.reference], ImageInputs(trees={"": context}, files=files, own=dockerfile)


def _without_ignore_files(context: FileSet, config: DockerfileConfig) -> tuple[FileSet, dict[str, bytes]]:
    """Return *context* without its ignore files, and these without their comments."""
    names = {".dockerignore", f"{os.path.relpath(config.file, config.context)}.dockerignore"}
    ours = {entry.path for entry in context.entries if entry.path in names and entry.link is None}
    files = {name: normalised_ignore_file(read_file(context.root / name)) for name in sorted(ours)}
    return replace(context, entries=tuple(entry for entry in context.entries if entry.path not in ours)), files


def collect_context(config: DockerfileConfig, own: Collection[FileId] = ()) -> FileSet:
    """Return what Docker would send of the context, never ``.git``, secrets or *own*.

    The ignore file is ``NAME.dockerignore`` next to the Dockerfile, else ``.dockerignore`` in the context. A line of it such as
    ``!ca.pem`` takes back what has the name of a secret.

    Raises:
        InvalidError: if there are devices, sockets or pipes, something cannot be read, or a pattern is none.
    """

    specific = config.file.with_name(f"{config.file.name}.dockerignore")
    ignore = specific if specific.is_file() else config.context / ".dockerignore"
    patterns = _dockerignore(ignore) if ignore.is_file() else []
    matcher = _matcher([*patterns, ".git"])
    secret = secret_rules(f"/{pattern[1:].strip('/')}" for pattern in patterns if pattern.startswith("!"))
    try:
        paths = sorted(matcher.walk(str(config.context)), key=os.fsencode)
        found = tuple(_entries(config.context, paths, own))
    except OSError as error:
        where, remedy = str(error.filename or config.context), "make it readable, or list it in .dockerignore"
        raise InvalidError(
            [Fault(where=where, what=f"it cannot be read: {error.strerror}", remedy=remedy)]
        ) from error
    secrets = tuple(entry.path for entry in found if secret.match_file(entry.path))
    entries = tuple(entry for entry in found if entry.path not in secrets)
    return FileSet(root=config.context, entries=entries, secrets=secrets)


def _dockerignore(file: Path) -> list[str]:
    """Return the patterns of a .dockerignore file.

    Raises:
        InvalidError: one of them is no pattern: Docker would not build either.
    """

    patterns = ignore_patterns(read_file(file))
    for number, pattern in patterns.items():
        try:
            _matcher([pattern]).matches("a")
        except re.error as error:
            fault = Fault(where=f"{file}:{number}", what=f"`{pattern[:60]}` is no pattern", why=str(error))
            raise InvalidError([fault]) from error
    return list(patterns.values())


def _matcher(patterns: list[str]) -> Any:
    """Return Docker's own reader of patterns; only images with a Dockerfile of their own need it."""
    from docker.utils.build import PatternMatcher

    return PatternMatcher(patterns)


def _entries(root: Path, paths: list[str], own: Collection[FileId]) -> Iterator[FileEntry]:
    for path in paths:
        file = root / path
        try:
            status = file.lstat()
        except FileNotFoundError:  # gone since it was listed
            continue
        if (status.st_dev, status.st_ino) in own:
            continue
        if stat.S_ISLNK(status.st_mode):
            yield FileEntry(path=path, executable=False, size=0, link=os.readlink(file))  # noqa: PTH115 - as it is written
        elif stat.S_ISREG(status.st_mode):
            yield FileEntry(path=path, executable=bool(status.st_mode & stat.S_IXUSR), size=status.st_size)
        elif not stat.S_ISDIR(status.st_mode):
            what = "it is a device, a socket or a pipe, not a file"
            raise InvalidError([Fault(where=str(file), what=what, remedy="remove it, or list it in .dockerignore")])
