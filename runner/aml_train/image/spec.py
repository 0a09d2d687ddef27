"""The values of an image: its parts, its tests, and what a job may run in.

Nothing is queried.

:func:`plan_image` turns configuration and a resolved base into an :class:`ImageSpec`; :mod:`aml_train.image.ensure` makes it real.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aml_train.config.sections.image import ImageConfig, SecretConfig
from aml_train.config.sections.image_packages import ProtectConfig
from aml_train.config.sections.tests import TestSettings
from aml_train.core.errors import InvalidError
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.core.trust import PROPOSALS_SUFFIX, PROTECTED, Trust
from aml_train.image.dockerfile.ofed import plan_ofed
from aml_train.image.dockerfile.render import render_dockerfile, render_solve
from aml_train.image.inputs import BaseImage, ImageInputs

FORMAT: Final = 1
"""Enters every address: raise it when an image is built differently from the same inputs."""

TEST_FORMAT: Final = 1
"""Enters every test key: raise it when the way tests are run changes what passing means."""

#: A line that names the frontend which reads a Dockerfile (BuildKit, ``frontend/dockerfile/parser/directives.go``).
_FRONTEND: Final = re.compile(r"(?im)^[ \t\ufeff]*(?:#|//)[ \t]*syntax[ \t]*=[ \t]*(\S+)")
_OFFICIAL: Final = re.compile(
    r"(?:(?:registry-1\.)?docker\.io/)?docker/dockerfile(?:-upstream)?(?:[:@].*)?|dockerfile\.v0"
)


@dataclass(frozen=True, kw_only=True)
class CheckPolicy:
    """The requirements of an image beyond a successful build. Enters no address.

    Attributes:
        ignore: names of checks whose errors and warnings are allowed.
        packages: Python distributions that must be there.
        infiniband: InfiniBand drivers were configured, so their absence is an error.
        several_nodes: the job runs on several nodes, so their absence is a warning.
        mpi: the job's processes are started by mpirun, so its absence is an error.
        where: ``file:line`` that findings are shown at; empty where there is none.
    """

    ignore: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    infiniband: bool = False
    several_nodes: bool = False
    mpi: bool = False
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class Release:
    """The names of an image after push and tests. They enter no address.

    Attributes:
        tags: more tags, see :mod:`aml_train.core.release_tags`.
        lock: the tag of its digest is made immutable, where the registry can do that.
    """

    tags: tuple[str, ...] = ()
    lock: bool = False


@dataclass(frozen=True, kw_only=True)
class ImageSpec:
    """An image to have, entirely described. Equal specs have equal addresses.

    Attributes:
        base: what it is built FROM; with a Dockerfile of the user's own, what the stage that is built goes back to.
        platform: ``linux/amd64`` or ``linux/arm64``.
        repository: the repository it is released to, or found in.
        dockerfile: the Dockerfile's text: rendered, or the user's own with its images pinned.
        address: the content address, 64 hexadecimal digits.
        name: its key below ``images``; empty for ``image``; not covered by the address.
        checks: the requirements of the readiness checks; not covered by the address.
        release: more names for it; not covered by the address.
        files: files of the build context in addition to the Dockerfile: path → contents.
        trees: folders of the build context: path → files; the whole context where the path is empty.
        secrets: the secrets that the build may read: name → its variable on the runner. The address covers neither.
        is_proposed: the commit is only proposed, so only secrets of ``--set`` are read; not covered by the address.
        build_args, target: of a Dockerfile of the user's own.
        named: every image of a Dockerfile of the user's own, as it is pinned.
        solve: a Dockerfile that asks the base's pip what it would install; empty if it cannot be asked. Not covered by the address.
        protect: the packages that the build of a user's Dockerfile must leave as in the base; None if the
            rendered text sees to it.
        provenance: whether a build states what went into it; not covered by the address.
        trust: of the run, which decides what it writes and reads; not covered by the address.
        places: normalised name of a package → ``file:line`` that requires it; the place of the image under the empty name; not covered by
            the address.
    """

    base: BaseImage
    platform: str
    repository: str
    dockerfile: str
    address: str
    name: str = ""
    checks: CheckPolicy = CheckPolicy()
    release: Release = Release()
    files: Mapping[str, bytes] = field(default_factory=dict)
    trees: Mapping[str, FileSet] = field(default_factory=dict)
    secrets: Mapping[str, SecretConfig] = field(default_factory=dict)
    is_proposed: bool = False
    build_args: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    named: tuple[str, ...] = ()
    solve: str = ""
    protect: ProtectConfig | None = None
    provenance: bool = True
    trust: Trust = PROTECTED
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def address_tag(self) -> str:
        """The tag that carries the content address in the registry."""
        return f"addr-{self.address[:40]}"

    def build_tag(self, digest: str) -> str:
        """Return the tag that says that *digest* is a build of this address."""
        return f"{self.address_tag}-{digest.removeprefix('sha256:')[:40]}"

    def rebuilt(self, digest: str) -> ImageSpec:
        """Return the image after *digest* was built in the place of an earlier build.

        It has another address, so that no job of the earlier build is its own.
        """
        address = hashlib.sha256(f"{self.address} {digest}".encode()).hexdigest()
        return dataclasses.replace(self, address=address)

    @property
    def own_repository(self) -> str:
        """The repository that the run writes to.

        It differs from that of a released image that a proposal uses.
        """
        return self.trust.repository(self.repository.removesuffix(PROPOSALS_SUFFIX))

    @property
    def released(self) -> ImageSpec | None:
        """The image as the protected branch releases it; None for that branch.

        A proposal uses it if it is in the registry.
        """
        if self.trust.protected:
            return None
        return dataclasses.replace(self, repository=self.repository.removesuffix(PROPOSALS_SUFFIX))

    @property
    def builder_args(self) -> dict[str, str]:
        """All build arguments, those that keep caches apart included."""
        return {**self.build_args, **self.trust.build_arguments(self.repository)}

    def trusted(self, trust: Trust) -> ImageSpec:
        """Return the image as a run of *trust* builds it.

        Raises:
            InvalidError: the repository's name is one of proposals, or a proposal names another frontend.
        """
        if re.search(rf"{PROPOSALS_SUFFIX}(-candidate)?$", self.repository):
            raise InvalidError(
                f"the image's repository {self.repository} has a name as those that proposed commits write to",
                hint=f"Give it a name that does not end with {PROPOSALS_SUFFIX}: image.repository.",
            )
        frontends = [*_FRONTEND.findall(self.dockerfile), self.build_args.get("BUILDKIT_SYNTAX", "dockerfile.v0")]
        other = next((one for one in frontends if not _OFFICIAL.fullmatch(one)), None)
        if other is not None and not trust.protected:
            raise InvalidError(
                f"the Dockerfile has the frontend {other} (`syntax=`), and this run is {trust}: such a frontend could "
                "write to the build caches of the protected branch",
                hint="Use docker/dockerfile, or leave the line out.",
            )
        return dataclasses.replace(self, repository=trust.repository(self.repository), trust=trust)

    def with_dockerfile(self, text: str, files: Mapping[str, bytes]) -> ImageSpec:
        """Return a helper's build beside that of the image: only the platform and the caches are the same."""
        without: dict[str, Any] = {"trees": {}, "secrets": {}, "build_args": {}, "places": {}}
        return dataclasses.replace(self, dockerfile=text, files=files, target=None, named=(), protect=None, **without)


def plan_image(config: ImageConfig, base: BaseImage, inputs: ImageInputs | None, platform: str) -> ImageSpec:
    """Describe the image of *config* on *base*; read only the files of the trees.

    Args:
        config: the ``image:`` of the configuration.
        base: its base, resolved.
        inputs: further needs of the build; None for none.
        platform: what to build for; ``config.platform``, or the engine's own.

    Raises:
        InvalidError: if the drivers cannot be installed on this base.
    """
    if config.repository is None:
        raise ValueError("an image needs the name of its repository")
    inputs = inputs or ImageInputs()
    checks = CheckPolicy(
        ignore=config.ignored_checks,
        packages=tuple(config.azureml),
        infiniband=config.ofed is not None,
        where=config.where,
    )
    # Nothing that changes with the commit, the time, or the machine is covered by the address; and no secret's value.
    covered = {"format": FORMAT, "base": base.identity, "files": inputs.digests(), "platform": platform}
    build_args: Mapping[str, str] = {}
    target = None
    solve = ""
    if config.dockerfile is not None:
        if inputs.own is None:
            raise ValueError("a Dockerfile of the user's own must have been read")
        dockerfile = inputs.own.text
        build_args, target = dict(config.dockerfile.args), config.dockerfile.target
        covered["own"] = {
            "images": dict(inputs.own.images),
            "target": target,
            "protect": [config.protect.packages, config.protect.allow],
        }
    else:
        ofed = None if config.ofed is None else plan_ofed(config.ofed, inputs.os, platform, inputs.drivers)
        dockerfile = render_dockerfile(config, base=base.pinned, inputs=inputs, ofed=ofed)
        solve = render_solve(config, base=base.pinned, inputs=inputs)
    return ImageSpec(
        base=base,
        platform=platform,
        repository=config.repository,
        dockerfile=dockerfile,
        address=_digest_of({**covered, "dockerfile": dockerfile, "build_args": build_args}),
        files=inputs.files,
        trees=inputs.trees,
        secrets=config.secrets,
        build_args=build_args,
        target=target,
        named=inputs.own.pinned if inputs.own is not None else (),
        solve=solve,
        protect=config.protect if config.dockerfile is not None else None,
        checks=checks,
        provenance=config.provenance,
        places={"": config.where, **inputs.places},
    )


def _digest_of(parts: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what is covered, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":"), default=vars).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class TestSpec(TestSettings):
    """The user's tests, ready to run in an image.

    Attributes:
        files: what is copied into the container's working directory.
        keep: whether the container is kept afterwards, for people to look into; not covered by the key.
        group: of the proposal whose runs believe the record; empty for the protected branch.
    """

    files: FileSet
    keep: bool = False
    group: str = ""

    def key(self, digest: str) -> str:
        """Return the record's key, 64 hexadecimal digits, for the image *digest*.

        It covers the digest, the command, paths, contents and modes of the files, the settings, the group, and
        :data:`TEST_FORMAT`. Reads the files.
        """
        settings = {name: value for name, value in vars(self).items() if name != "keep"}
        return _digest_of({**settings, "format": TEST_FORMAT, "digest": digest, "files": self.files.digest()})


@dataclass(frozen=True, kw_only=True)
class TestRecord:
    """That tests passed in an image; see :mod:`aml_train.image.records`.

    Attributes:
        digest: manifest digest of the image.
        key: :meth:`TestSpec.key`.
        command: what was run.
        passed, failed, skipped: counts; None where nothing shows them. *failed* is never above zero.
        seconds: how long the tests ran.
        at: when they ended, ISO 8601 in UTC.
        commit: the commit whose tests ran, where known.
        format: version of this record.
    """

    __test__ = False
    digest: str
    key: str
    command: str
    passed: int | None
    failed: int | None
    skipped: int | None
    seconds: float
    at: str
    commit: str | None
    format: int = TEST_FORMAT


@dataclass(frozen=True, kw_only=True)
class Tested:
    """An image of ours, in the registry under an immutable tag, tested.

    Attributes:
        reference: the name that jobs and records carry, pinned to *digest*.
        digest: the manifest's digest.
        address: the content address.
        how: whether this run built it or found it.
        record: the record of the tests; None only if no tests are configured.
        compressed_bytes: sum of the layers' sizes in the registry.
    """

    reference: ImageRef
    digest: str
    address: str
    how: Literal["built", "found"]
    record: TestRecord | None
    compressed_bytes: int | None
