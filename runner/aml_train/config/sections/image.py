"""``image:``: the image that is built, tested, and replaces the job's environment.

To add a key, add a field to :class:`ImageConfig`: its grammar, its documentation and its default are one declaration. A
value that the grammar alone does not check gets a function that :func:`image_config` calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from aml_train.config.section import (
    PATH,
    VARIABLE_NAME,
    VARIABLES,
    CheckedTree,
    key,
    make,
    record,
    rendered_keys,
    section,
)
from aml_train.config.sections.image_builder import BUILDER, BuilderConfig, builder_config
from aml_train.config.sections.image_ofed import OFED, OfedConfig, ofed_config
from aml_train.config.sections.image_packages import (
    APT,
    CONDA,
    NAMED,
    PIP,
    PROTECT,
    REFERENCE,
    SECRET,
    SECRET_IN_URL,
    CondaConfig,
    PackageVersion,
    PipConfig,
    ProtectConfig,
    conda_config,
    pip_config,
)
from aml_train.config.yaml.nodes import Mark, shown
from aml_train.config.yaml.shapes import Choice, Duration, Flag, Text, nearest
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table
from aml_train.core.checks import CHECKS
from aml_train.core.references import ImageRef
from aml_train.core.release_tags import DEFAULT_TAGS, template_fault

PullPolicy = Literal["check", "always", "missing"]
"""When the registry is queried for a base that the engine has.

``check``, the default, is no value of the file.
"""

_REPOSITORY_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"


def _one_line(text: str) -> None:
    if "\n" in text.strip() or "\r" in text.strip():
        raise ValueError("it has a line break; give each command a separate item, or join them with `&&`")


def _below_root(text: str) -> None:
    if ".." in text.split("/"):
        raise ValueError(f"`{shown(text)}` has `..` in it")


def _release_tag(text: str) -> None:
    if wrong := template_fault(text):
        raise ValueError(f"`{shown(text)}` is no tag: {wrong}")


_COMMAND: Final = Text(noun="a shell command", rule=_one_line, convert=str.strip)


@section
class CopyConfig:
    """One of ``image.copy``: absolute paths in the project and in the image."""

    source: Path = key(PATH, "File or folder of the project.", name="from")
    target: str = key(
        Text(noun="an absolute path in the image", pattern=r"/[^\s].*", rule=_below_root),
        "Absolute path in the image; a folder if it ends with `/`.",
        name="to",
    )


@section
class RunStep:
    """One of ``image.run``: a command, and the secrets that it may read."""

    command: str = key(_COMMAND, "Shell command, on one line.")
    secrets: tuple[str, ...] = key(
        Items(item=SECRET, noun="a list of secrets' names"),
        "Secrets that the command finds as files in /run/secrets.",
        default=(),
    )


@section
class SecretConfig:
    """One of ``image.secrets``: its environment variable, never its value.

    *by_option*: ``--set`` names the variable, so the workflow does, and not the repository. *where* is ``file:line``.
    """

    env: str = key(
        Text(noun="a variable's name", pattern=VARIABLE_NAME), "Environment variable of the runner that holds it."
    )
    by_option: bool = False
    where: str = "image.secrets"


@section
class DockerfileConfig:
    """``image.dockerfile``: the project's own Dockerfile; paths are absolute."""

    file: Path = key(PATH, "Path of the Dockerfile.")
    context: Path = key(PATH, "Folder that is sent to the engine; that of the Dockerfile by default.", required=False)
    target: str | None = key(Text(noun="a stage's name"), "Stage to build; the last by default.", default=None)
    args: Mapping[str, str] = key(
        VARIABLES, "Build arguments. No secrets: they can be read from the image.", factory=dict
    )


@section
class ImageConfig:
    """``image:``. Either *base* or *dockerfile* is given.

    Attributes:
        azureml_mlflow, azureml_defaults: the version to install, ``latest`` for no pin, None for not at all.
        refresh: seconds; None for no bound.
        repository: None for the one that is named after the project.
        tags: templates of release tags, see :mod:`aml_train.core.release_tags`.
        ignored_checks: names of :data:`aml_train.core.checks.CHECKS`.
        where: ``file:line`` of ``image.base`` or ``image.dockerfile``.
    """

    base: ImageRef | None = key(
        REFERENCE,
        "Image to build from, with tag or digest; for GPUs such as `nvcr.io/nvidia/pytorch:26.03-py3`.",
        default=None,
    )
    pull: PullPolicy = key(
        Choice(words=("always", "missing")),
        "`always`: the registry must resolve the base's tag; `missing`: an image that the engine has is used without a "
        "request. By default the registry is queried, and the engine's image is used if it does not answer.",
        default="check",
    )
    ofed: OfedConfig | None = key(
        OFED, "User-space part of the InfiniBand drivers; none by default.", default=None, rendered=True
    )
    apt: tuple[str, ...] = key(APT, "Debian packages, optionally `name=version`.", default=(), rendered=True)
    pip: PipConfig = key(
        PIP,
        "Python packages: the path of a requirements file, a list of requirements, or a mapping.",
        default=PipConfig(),
        rendered=True,
    )
    constraints: Literal["base", "torch-only", "none"] = key(
        Choice(words=("base", "torch-only", "none")),
        "Which of the constraints that the base sets for pip (`PIP_CONSTRAINT`) hold: all, by default; those of torch and what is "
        "built for it; or none.",
        default="base",
        rendered=True,
    )
    conda: CondaConfig | None = key(
        CONDA,
        "Conda environment, made in a separate build stage: the path of its environment.yml, or a mapping.",
        default=None,
        rendered=True,
    )
    azureml_mlflow: str | None = key(
        PackageVersion(),
        "azureml-mlflow: a version, `latest` or true for no pin, false for none.",
        default=None,
        rendered=True,
    )
    azureml_defaults: str | None = key(
        PackageVersion(), "azureml-defaults, in the same way.", default=None, rendered=True
    )
    env: Mapping[str, str] = key(
        VARIABLES,
        "Environment variables of the image. No secrets: an image can be read.",
        factory=dict,
        rendered=True,
    )
    copy: tuple[CopyConfig, ...] = key(
        Items(noun="a list of {from, to}", item=record(CopyConfig, noun="a mapping with `from` and `to`")),
        "Files of the project that belong into the image. The job's own code is no such file.",
        default=(),
        rendered=True,
    )
    run: tuple[RunStep, ...] = key(
        Items(
            noun="a list of shell commands",
            item=Either(
                noun="a shell command, or a mapping with `command`",
                scalar=_COMMAND,
                keys=record(RunStep, noun="a mapping with `command`"),
                short="command",
            ),
        ),
        "Commands that change the image, after everything else is in it.",
        default=(),
        rendered=True,
    )
    user: str | None = key(
        Text(
            noun="a user, such as `azureml` or `1000:1000`",
            pattern=r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?::[A-Za-z0-9_][A-Za-z0-9_.-]*)?",
        ),
        "User that the image ends with; the base's by default. Give it if the base's is not root.",
        default=None,
        rendered=True,
    )
    ca_certificates: tuple[Path, ...] = key(
        Items(item=PATH, noun="a list of paths"),
        "PEM files of certification authorities to trust in addition to the public ones.",
        default=(),
        rendered=True,
    )
    secrets: Mapping[str, SecretConfig] = key(
        Table(
            noun="a mapping of names to {env}",
            key=Text(noun="letters, digits, `_`, `.` and `-`", pattern=NAMED),
            value=record(SecretConfig, noun="a mapping with `env`"),
        ),
        "Secrets that the build may read (BuildKit's secret mounts). They are in no layer, and not in the address.",
        factory=dict,
    )
    refresh: float | None = key(
        Duration(maximum=366 * 24 * 3600.0),
        "Age at which the packages of apt and pip are installed again, such as `7d`; never by default.",
        default=None,
        rendered=True,
    )
    protect: ProtectConfig = key(
        PROTECT, "Packages of the base that nothing above may change.", default=ProtectConfig()
    )
    dockerfile: DockerfileConfig | None = key(
        Either(
            noun="the path of a Dockerfile, or a mapping with `file`",
            scalar=PATH,
            keys=record(DockerfileConfig, noun="a mapping with `file`"),
            short="file",
        ),
        "The project's own Dockerfile instead of `base` and what is installed on it.",
        default=None,
    )
    repository: str | None = key(
        Text(
            noun="lower-case words joined by `/`, `-`, `_` or `.`",
            pattern=rf"{_REPOSITORY_PART}(?:/{_REPOSITORY_PART})*",
        ),
        "Repository in the registry; `owner/name` of the git remote by default, and the project's folder in it.",
        default=None,
    )
    tags: tuple[str, ...] = key(
        Items(noun="a list of tags", item=Text(noun="a tag, such as `v1-{short-commit}`", rule=_release_tag)),
        "Release tags in addition to those of address and digest; `git-{commit}` and `branch-{branch}` by default.",
        default=DEFAULT_TAGS,
    )
    lock: bool = key(
        Flag(),
        "Whether the tag of the digest is locked in an Azure Container Registry; true by default.",
        default=True,
    )
    provenance: bool = key(
        Flag(), "Whether the image gets a statement of what went into its build; true by default.", default=True
    )
    builder: BuilderConfig = key(
        BUILDER,
        "Builder of the image, which also runs its tests: `local` by default, `acr`, or a mapping.",
        default=BuilderConfig(),
    )
    nodes: tuple[str, ...] | Literal["all"] | None = key(
        Either(
            noun="`all`, or a list of nodes",
            scalar=Choice(words=("all",)),
            items=Items(item=Text(noun="a node's name"), noun="a list of nodes", least=1),
        ),
        "Nodes of a pipeline job that run in the image: names, or `all`; by default those without an environment.",
        default=None,
    )
    platform: str | None = key(
        Choice(words=("linux/amd64", "linux/arm64")),
        "`linux/amd64` or `linux/arm64`; the engine's by default.",
        default=None,
    )
    ignored_checks: tuple[str, ...] = key(
        Record(
            noun="a mapping with `ignore`",
            keys={
                "ignore": Key(
                    Items(noun="a list of checks", item=Choice(words=tuple(CHECKS))),
                    "Checks whose errors and warnings are allowed; docs/image.md names them.",
                )
            },
        ),
        "Readiness checks of the image for AzureML and InfiniBand.",
        default=(),
        name="checks",
    )
    where: str

    def named(self, name: str) -> ImageConfig:
        """Return the configuration with a repository: its own, else *name*."""
        return self if self.repository is not None else replace(self, repository=name)

    @property
    def azureml(self) -> dict[str, str]:
        """The packages of AzureML to install: name → version, or ``latest``."""
        wanted = {"azureml-mlflow": self.azureml_mlflow, "azureml-defaults": self.azureml_defaults}
        return {name: version for name, version in wanted.items() if version is not None}

    @property
    def title(self) -> str:
        """The base or the Dockerfile's name, in a few words."""
        if self.base is not None:
            return self.base.familiar
        return self.dockerfile.file.name if self.dockerfile is not None else "nothing"


IMAGE: Final = record(ImageConfig, noun="a mapping with `base`", one_of=("base", "dockerfile"))


def image_config(checked: CheckedTree) -> ImageConfig | None:
    """Make ``image`` and check its files.

    None if there is none, or after a fault in its base or Dockerfile.
    """
    found = checked.values.get("image")
    if not isinstance(found, dict):
        return None
    image = checked.within("image")
    config = make(
        ImageConfig,
        found,
        ofed=ofed_config(image, found.get("ofed", {})),
        pip=pip_config(image, found.get("pip", {})),
        conda=conda_config(image, found.get("conda", {})),
        copy=_copies(image, found.get("copy", ())),
        ca_certificates=_certificates(image, found.get("ca-certificates", ())),
        secrets=_secrets(image, found.get("secrets", {})),
        dockerfile=_dockerfile(image, found.get("dockerfile", {})),
        builder=builder_config(image, found.get("builder", {})),
        ignored_checks=tuple(found.get("checks", {}).get("ignore", ())),
        where=image.mark("base" if "base" in found else "dockerfile").where,
    )
    _check_secrets(image, config)
    if config.dockerfile is not None:
        why, remedy = "nothing is added to the image of a Dockerfile", "write it into the Dockerfile"
        for name in sorted(found.keys() & rendered_keys(ImageConfig)):
            image.fault(f"`image.{name}` and `image.dockerfile` exclude each other", name, why=why, remedy=remedy)
    return config if (config.base is None) != (config.dockerfile is None) else None


def _copies(image: CheckedTree, items: list[dict[str, str]]) -> tuple[CopyConfig, ...]:
    made = []
    for index, item in enumerate(items):
        path = image.path(item.get("from"), "copy", item=f".{index}.from", kinds=("file", "folder"))
        if path is not None and "to" in item:
            made.append(make(CopyConfig, item, source=path))
    return tuple(made)


def _certificates(image: CheckedTree, items: list[str]) -> tuple[Path, ...]:
    paths = (image.path(text, "ca-certificates", item=f".{index}") for index, text in enumerate(items))
    return tuple(path for path in paths if path is not None)


def _secrets(image: CheckedTree, items: Mapping[str, Mapping[str, str]]) -> dict[str, SecretConfig]:
    made = {}
    for name, given in items.items():
        if "env" in given:
            by_option, where = image.mark("secrets", name, "env").option, image.mark("secrets", name).where
            made[name] = make(SecretConfig, given, by_option=by_option, where=where)
    return made


def _dockerfile(image: CheckedTree, given: Mapping[str, Any]) -> DockerfileConfig | None:
    file = image.path(given.get("file"), "dockerfile", "file")
    context = image.path(given.get("context"), "dockerfile", "context", kinds=("folder",))
    if file is None:
        return None
    return make(DockerfileConfig, given, file=file, context=context or file.parent)


def _check_secrets(image: CheckedTree, config: ImageConfig) -> None:
    """Check that each secret that is used is declared."""
    used: list[tuple[Mark, str]] = []
    for name, urls in (("index-url", (config.pip.index_url,)), ("extra-index-urls", config.pip.extra_index_urls)):
        used += [(image.mark("pip", name), secret) for url in urls if url for secret in SECRET_IN_URL.findall(url)]
    if config.pip.netrc is not None:
        used.append((image.mark("pip", "netrc"), config.pip.netrc))
    used += [(image.mark("run"), secret) for step in config.run for secret in step.secrets]
    for mark, name in used:
        if name not in config.secrets:
            near = nearest(name, tuple(config.secrets))
            remedy = f"did you mean `{near}`?" if near else f"declare it: secrets: {{{shown(name)}: {{env: …}}}}"
            image.faults.add(mark, f"the secret `{shown(name)}` is not declared", remedy=remedy)
