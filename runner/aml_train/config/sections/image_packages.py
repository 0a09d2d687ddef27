"""The packages of ``image:``: apt, pip, conda, AzureML's own, protected ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aml_train.config.section import PATH, CheckedTree, key, make, record, section
from aml_train.config.yaml.nodes import Faults, Node, ScalarNode, shown
from aml_train.config.yaml.shapes import Flag, Text, mismatch, needs_quotes
from aml_train.config.yaml.structures import Either, Items
from aml_train.core.references import ImageRef

MICROMAMBA: Final = "mambaorg/micromamba:2.3.2"
"""The image that ``micromamba`` is copied from, unless the configuration names another."""

PROTECTED: Final = (
    "apex", "cupy*", "flash-attn", "jax", "jaxlib", "nvidia-*", "pytorch-triton", "tensorflow", "tensorrt*", "torch",
    "torchaudio", "torchtext", "torchvision", "transformer-engine*", "triton",
    "cuda-*", "libcublas*", "libcuda*", "libcudnn*", "libcufft*", "libcusolver*", "libcusparse*", "libnccl*", "libnvinfer*",
)  # fmt: skip
"""Packages of the base, of pip and of dpkg, that must not change, unless the configuration lists others."""

NAMED: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
SECRET_IN_URL: Final = re.compile(r"\$\{([^}]*)\}")
"""The name of a secret in the address of a package index."""

_VERSION: Final = r"\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?"


def _requirement(text: str) -> None:
    if text.startswith("-"):
        raise ValueError(f"`{shown(text)}` is an option of pip; options go into a requirements file")
    # A plain name, extras and versions need no parser, whose import would cost more than the rest of the check.
    if re.fullmatch(
        r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[a-z0-9,_-]+\])?(?:==[0-9]+(?:\.[0-9]+)*)?", text
    ):
        return
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"`{shown(text)}`: {str(error).splitlines()[0]}") from error


def _url(text: str) -> None:
    rest = SECRET_IN_URL.sub("x", text)
    user, at, _ = rest.partition("://")[2].partition("/")[0].rpartition("@")
    if at and ":" in user and not re.search(r"://[^/@]*:\$\{[^}]*\}@", text):
        raise ValueError(
            "a password does not belong into a file: name it under `secrets`, and write `${NAME}` in its place"
        )


class PackageVersion:
    """``true`` or ``latest`` for no pin, ``false`` for not at all, or a version."""

    noun = 'true, false, `latest`, or a version such as "1.62.0"'

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if not isinstance(node, ScalarNode) or node.kind == "null":
            return mismatch(node, name, self.noun, faults)
        if node.kind == "bool":
            return "latest" if node.value else None
        if node.kind != "text":
            return needs_quotes(node, name, self.noun, faults)
        return Text(noun=self.noun, pattern=f"latest|{_VERSION}").check(node, name, faults)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": f"^(?:latest|{_VERSION})$"}]}


REFERENCE: Final = Text(
    noun="an image reference, such as `python:3.11-slim`", rule=ImageRef.parse, convert=ImageRef.parse
)
SECRET: Final = Text(noun="the name of a secret, as under `secrets`", pattern=NAMED)
APT: Final = Items(
    noun="a list of Debian packages",
    item=Text(
        noun="a Debian package, such as `libgl1` or `libgl1=1.6.0-1`",
        pattern=r"[a-z0-9][a-z0-9+.-]+(?::[a-z0-9]+)?(?:=[A-Za-z0-9.+~:-]+)?",
    ),
)
_REQUIREMENT: Final = Text(noun="a requirement (PEP 508), such as `scikit-learn>=1.7`", rule=_requirement)
_REQUIREMENTS: Final = Items(item=_REQUIREMENT, noun="a list of requirements")
_URL: Final = Text(noun="an address, such as `https://pypi.example.com/simple`", pattern=r"https?://\S+", rule=_url)
_GLOB: Final = Text(noun="a package's name, perhaps with `*`", pattern=r"[A-Za-z0-9*][A-Za-z0-9.+_*-]*")
_GLOBS: Final = Items(item=_GLOB, noun="a list of packages' names")


@section
class PipConfig:
    """``image.pip``. Paths are absolute; ``${NAME}`` in an address is a secret."""

    requirements: Path | None = key(PATH, "Path of a requirements file inside the project.", default=None)
    packages: tuple[str, ...] = key(_REQUIREMENTS, "Requirements (PEP 508).", default=())
    constraints: Path | None = key(
        PATH, "Path of a constraints file inside the project, in addition to the base's own.", default=None
    )
    require_hashes: bool = key(
        Flag(), "Whether every requirement must carry its hash; false by default.", default=False
    )
    index_url: str | None = key(_URL, "Package index instead of PyPI; `${NAME}` stands for a secret.", default=None)
    extra_index_urls: tuple[str, ...] = key(
        Items(item=_URL, noun="a list of addresses"),
        "More package indexes; `${NAME}` stands for a secret.",
        default=(),
    )
    netrc: str | None = key(SECRET, "Secret that pip and git find as `.netrc`.", default=None)


@section
class CondaConfig:
    """``image.conda``: an environment that micromamba makes in a separate build stage."""

    file: Path = key(PATH, "Path of an environment file inside the project.")
    micromamba: ImageRef = key(
        REFERENCE,
        "Image that has /bin/micromamba; `mambaorg/micromamba` by default.",
        factory=lambda: ImageRef.parse(MICROMAMBA),
    )


@section
class ProtectConfig:
    """``image.protect``: *packages* must not change unless they match *allow*."""

    packages: tuple[str, ...] = key(
        _GLOBS,
        "Packages of the base that must not change; torch, CUDA, NCCL and their like by default.",
        default=PROTECTED,
    )
    allow: tuple[str, ...] = key(_GLOBS, "Packages among them that may change all the same.", default=())


PIP: Final = Either(
    noun="the path of a requirements file, a list of requirements, or both as {requirements, packages}",
    scalar=PATH,
    items=_REQUIREMENTS,
    keys=record(PipConfig, noun="a mapping with such keys as `requirements` and `packages`"),
    short="requirements",
)
CONDA: Final = Either(
    noun="the path of an environment file, or a mapping with `file`",
    scalar=PATH,
    keys=record(CondaConfig, noun="a mapping with `file`"),
    short="file",
)
PROTECT: Final = record(ProtectConfig, noun="a mapping with `packages` and `allow`")


def pip_config(image: CheckedTree, given: Any) -> PipConfig:
    """Make ``image.pip`` of its checked value."""
    if isinstance(given, list):
        return PipConfig(packages=tuple(given))
    if given.get("require-hashes") and given.get("packages"):
        what = "`image.pip.packages` and `image.pip.require-hashes` exclude each other"
        remedy = "put the packages into the requirements file, with their hashes"
        image.fault(what, "pip", "packages", why="a list has no hashes", remedy=remedy)
    text = given.get("requirements", ".txt")
    package = not text.endswith((".txt", ".in")) and "/" not in text
    remedy = f"for a package write a list: [{shown(text)}]" if package else "name a requirements file"
    requirements = image.path(given.get("requirements"), "pip", "requirements", remedy=remedy)
    constraints = image.path(given.get("constraints"), "pip", "constraints", remedy="name a constraints file")
    return make(PipConfig, given, requirements=requirements, constraints=constraints)


def conda_config(image: CheckedTree, given: Mapping[str, Any]) -> CondaConfig | None:
    """Make ``image.conda`` of its checked value; None without an environment file."""
    file = image.path(given.get("file"), "conda", "file", remedy="name an environment file")
    return make(CondaConfig, given, file=file) if file is not None else None
