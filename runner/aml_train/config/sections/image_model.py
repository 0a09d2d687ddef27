"""What ``image:`` says, as values. Frozen; made by :mod:`aml_train.config.sections.image_assemble` only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from aml_train.core.references import ImageRef
from aml_train.core.release_tags import DEFAULT_TAGS

OfedSource = Literal["mlnx_ofed", "doca", "distro"]

PullPolicy = Literal["check", "always", "missing"]
"""When a registry is asked for a base that the engine has; ``check``, the default, is not written in the file."""

MICROMAMBA: Final = "mambaorg/micromamba:2.3.2"
"""The image that ``micromamba`` is taken from, unless the configuration names another."""

PROTECTED: Final = (
    "apex",
    "cupy*",
    "flash-attn",
    "jax",
    "jaxlib",
    "nvidia-*",
    "pytorch-triton",
    "tensorflow",
    "tensorrt*",
    "torch",
    "torchaudio",
    "torchtext",
    "torchvision",
    "transformer-engine*",
    "triton",
    "cuda-*",
    "libcublas*",
    "libcuda*",
    "libcudnn*",
    "libcufft*",
    "libcusolver*",
    "libcusparse*",
    "libnccl*",
    "libnvinfer*",
)
"""Packages of the base, of pip and of dpkg, that must stay as they are, unless the configuration says otherwise."""


@dataclass(frozen=True, kw_only=True)
class OfedConfig:
    """``image.ofed``: the user-space part of the InfiniBand drivers.

    Attributes:
        source: where from; ``none`` is no OfedConfig at all.
        version: such as ``5.8-2.0.3.0`` (mlnx_ofed) or ``2.9.1`` (doca); None for ``distro``.
        url: address of the tarball or repository instead of NVIDIA's own; None for that.
        sha256: SHA-256 of the tarball, 64 hexadecimal digits; None where the table of known releases has it.
        os: the distribution in NVIDIA's words, such as ``ubuntu22.04``; None to read it from the base.
        key_fingerprint: of the key that signs DOCA's repository; None for the known one.
        where: ``file:line``, for errors that show later.
    """

    source: OfedSource
    version: str | None = None
    url: str | None = None
    sha256: str | None = None
    os: str | None = None
    key_fingerprint: str | None = None
    where: str = "image.ofed"


@dataclass(frozen=True, kw_only=True)
class PipConfig:
    """``image.pip``: a requirements file, a list of requirements, or both, and where pip looks.

    Attributes:
        requirements: absolute path of a requirements file inside the project, or None.
        packages: requirement specifiers (PEP 508), in the order of the file.
        constraints: absolute path of a constraints file inside the project, or None.
        require_hashes: whether every requirement must carry its hash.
        index_url, extra_index_urls: package indexes; ``${NAME}`` stands for a secret.
        netrc: name of the secret that is pip's and git's ``.netrc``, or None.
    """

    requirements: Path | None = None
    packages: tuple[str, ...] = ()
    constraints: Path | None = None
    require_hashes: bool = False
    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    netrc: str | None = None


@dataclass(frozen=True, kw_only=True)
class CondaConfig:
    """``image.conda``: an environment that micromamba makes in a build stage of its own.

    Attributes:
        file: absolute path of the environment file inside the project.
        micromamba: the image that ``/bin/micromamba`` is taken from.
    """

    file: Path
    micromamba: ImageRef = field(default_factory=lambda: ImageRef.parse(MICROMAMBA))


@dataclass(frozen=True, kw_only=True)
class CopyConfig:
    """One of ``image.copy``: a file or folder of the project (absolute), and its absolute path in the image."""

    source: Path
    target: str


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One of ``image.run``: a shell command line, and the names of the secrets that it may read."""

    command: str
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SecretConfig:
    """One of ``image.secrets``: the environment variable or the file (absolute) that holds it. Never its value.

    Attributes:
        env: the variable; None for a file.
        file: the file, absolute; None for a variable.
        by_option: ``--set`` names the variable or file, so the workflow does, and not the repository.
        where: ``file:line``, for errors that show later.
    """

    env: str | None = None
    file: Path | None = None
    by_option: bool = False
    where: str = "image.secrets"


@dataclass(frozen=True, kw_only=True)
class ProtectConfig:
    """``image.protect``: glob patterns of package names. What matches *packages* must not change unless it matches *allow*."""

    packages: tuple[str, ...] = PROTECTED
    allow: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DockerfileConfig:
    """``image.dockerfile``: the user's own.

    Attributes:
        file: absolute path.
        context: the folder that is sent to the engine, absolute.
        target: the stage to build; None for the last.
        args: build arguments, which are no secrets.
    """

    file: Path
    context: Path
    target: str | None = None
    args: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ImageConfig:
    """``image:``.

    Attributes:
        base: what the image is built FROM; None exactly where *dockerfile* is given.
        ofed: the InfiniBand drivers; None for none.
        apt: Debian package names, optionally ``name=version``.
        pip: the user's Python packages.
        conda: a conda environment.
        azureml_mlflow: version of azureml-mlflow to install, ``latest`` for no pin, None for not at all.
        azureml_defaults: the same for azureml-defaults.
        env: environment variables of the image.
        copy: files of the project that belong into the image.
        run: commands, in the order of the file.
        user: the user that the image ends with; None for the base's.
        ca_certificates: absolute paths of PEM files.
        secrets: name → where the runner has it.
        refresh: seconds; what apt and pip install is at most this old. None for no bound.
        protect: packages of the base that must not change.
        dockerfile: the user's own Dockerfile.
        repository: the repository in the registry; None for the one that is called like the project.
        tags: templates of release tags, see :mod:`aml_train.core.release_tags`.
        lock: the tag of the image's digest is made immutable, where the registry can do that.
        pull: when the registry is asked for a base that the engine has.
        platform: ``linux/amd64`` or ``linux/arm64``; None for the engine's own.
        ignored_checks: readiness checks whose errors and warnings are allowed, names of :data:`aml_train.core.checks.CHECKS`.
        where: ``file:line`` of ``image.base`` or ``image.dockerfile``, for errors that show later.
    """

    base: ImageRef | None = None
    ofed: OfedConfig | None = None
    apt: tuple[str, ...] = ()
    pip: PipConfig = PipConfig()
    conda: CondaConfig | None = None
    azureml_mlflow: str | None = None
    azureml_defaults: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    copy: tuple[CopyConfig, ...] = ()
    run: tuple[RunConfig, ...] = ()
    user: str | None = None
    ca_certificates: tuple[Path, ...] = ()
    secrets: Mapping[str, SecretConfig] = field(default_factory=dict)
    refresh: float | None = None
    protect: ProtectConfig = ProtectConfig()
    dockerfile: DockerfileConfig | None = None
    repository: str | None
    tags: tuple[str, ...] = DEFAULT_TAGS
    lock: bool = True
    pull: PullPolicy = "check"
    platform: str | None = None
    ignored_checks: tuple[str, ...] = ()
    where: str

    def named(self, name: str) -> ImageConfig:
        """Return the configuration with a repository: the configured one, else *name*, the project's."""
        return self if self.repository is not None else replace(self, repository=name)

    @property
    def title(self) -> str:
        """What the image is made from, in a few words."""
        if self.base is not None:
            return self.base.familiar
        return self.dockerfile.file.name if self.dockerfile is not None else "nothing"
