"""The grammar of ``image:`` in aml-train.yml. docs/configuration.md has the same keys, docs/image.md explains them."""

from __future__ import annotations

import re
from typing import Any, Final

from aml_train.config.sections.checks import CHECKS_KEY
from aml_train.config.yaml.nodes import Faults, Node, ScalarNode, shown
from aml_train.config.yaml.shapes import Choice, Duration, Flag, Text, Variable, mismatch, needs_quotes
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table
from aml_train.core.references import ImageRef
from aml_train.core.release_tags import template_fault

VARIABLES: Final = Table(
    value=Variable(),
    noun="a mapping of names to text",
    key=Text(noun="letters, digits and `_`", pattern=r"[A-Za-z_][A-Za-z0-9_]*"),
)
NAMED: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
SECRET_IN_URL: Final = re.compile(r"\$\{([^}]*)\}")
"""A secret's place in the address of a package index."""

_VERSION: Final = r"\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?"
_REPOSITORY_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_OFED_SOURCES: Final = ("mlnx_ofed", "doca", "distro", "none")


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


def _one_line(text: str) -> None:
    if "\n" in text.strip() or "\r" in text.strip():
        raise ValueError("it has a line break; give each command an item of its own, or join them with `&&`")


def _below_root(text: str) -> None:
    if ".." in text.split("/"):
        raise ValueError(f"`{shown(text)}` has `..` in it")


def _release_tag(text: str) -> None:
    if wrong := template_fault(text):
        raise ValueError(f"`{shown(text)}` is no tag: {wrong}")


def _url(text: str) -> None:
    rest = SECRET_IN_URL.sub("x", text)
    user, at, _ = rest.partition("://")[2].partition("/")[0].rpartition("@")
    if at and ":" in user and not re.search(r"://[^/@]*:\$\{[^}]*\}@", text):
        raise ValueError(
            "a password does not belong into a file: name it under `secrets`, and write `${NAME}` in its place"
        )


class _PackageVersion:
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


_REQUIREMENT: Final = Text(noun="a requirement (PEP 508), such as `scikit-learn>=1.7`", rule=_requirement)
_REQUIREMENTS: Final = Items(item=_REQUIREMENT, noun="a list of requirements")
_PATH: Final = Text(noun="a path")
_URL: Final = Text(noun="an address, such as `https://pypi.example.com/simple`", pattern=r"https?://\S+", rule=_url)
_REFERENCE: Final = Text(
    noun="an image reference, such as `python:3.11-slim`", rule=ImageRef.parse, convert=ImageRef.parse
)
_SECRET: Final = Text(noun="the name of a secret, as under `secrets`", pattern=NAMED)
_GLOB: Final = Text(noun="a package's name, perhaps with `*`", pattern=r"[A-Za-z0-9*][A-Za-z0-9.+_*-]*")
_GLOBS: Final = Items(item=_GLOB, noun="a list of packages' names")
_COMMAND: Final = Text(noun="a shell command", rule=_one_line)

_OFED: Final = Either(
    noun="a mapping with `source`, or `distro` or `none` alone",
    scalar=Choice(words=_OFED_SOURCES),
    keys=Record(
        noun="a mapping with `source`",
        keys={
            "source": Key(
                Choice(words=_OFED_SOURCES),
                "`mlnx_ofed` (NVIDIA's tarball), `doca` (NVIDIA's apt repository), `distro` (the distribution's rdma-core) or "
                "`none`.",
                required=True,
            ),
            "version": Key(
                Text(
                    noun='a version such as "5.8-2.0.3.0" or "2.9.1"',
                    pattern=r"[0-9]+(?:\.[0-9]+)+(?:-[0-9]+(?:\.[0-9]+)+)?",
                ),
                "Version, for `mlnx_ofed` and `doca`.",
            ),
            "url": Key(
                Text(noun="an address, such as `https://mirror.example.com/ofed.tgz`", pattern=r"https?://[^\s@]+"),
                "Address of the tarball, or of the repository for `doca`, instead of NVIDIA's own.",
            ),
            "sha256": Key(
                Text(noun="64 hexadecimal digits, in lower case", pattern="[0-9a-f]{64}"),
                "SHA-256 of the tarball; needed where docs/image.md does not list the release.",
            ),
            "os": Key(
                Text(
                    noun="a distribution as NVIDIA names it, such as `ubuntu22.04`",
                    pattern=r"[a-z]+[0-9]+(?:\.[0-9]+)*",
                ),
                "Distribution of the base; read from the base by default.",
            ),
            "key-fingerprint": Key(
                Text(noun="40 hexadecimal digits", pattern="[0-9A-Fa-f]{40}"),
                "Fingerprint of the key that signs the `doca` repository, where it is not the one in docs/image.md.",
            ),
        },
    ),
)
_PIP: Final = Either(
    noun="the path of a requirements file, a list of requirements, or both as {requirements, packages}",
    scalar=_PATH,
    items=_REQUIREMENTS,
    keys=Record(
        noun="a mapping with such keys as `requirements` and `packages`",
        keys={
            "requirements": Key(_PATH, "Path of a requirements file inside the project."),
            "packages": Key(_REQUIREMENTS, "Requirements (PEP 508)."),
            "constraints": Key(
                _PATH, "Path of a constraints file inside the project, beside the base's own constraints."
            ),
            "require-hashes": Key(Flag(), "Whether every requirement must carry its hash; false by default."),
            "index-url": Key(_URL, "Package index instead of PyPI; `${NAME}` stands for a secret."),
            "extra-index-urls": Key(
                Items(item=_URL, noun="a list of addresses"), "More package indexes; `${NAME}` stands for a secret."
            ),
            "netrc": Key(_SECRET, "Secret that pip and git find as `.netrc`."),
        },
    ),
)
_DOCKERFILE: Final = Either(
    noun="the path of a Dockerfile, or a mapping with `file`",
    scalar=_PATH,
    keys=Record(
        noun="a mapping with `file`",
        keys={
            "file": Key(_PATH, "Path of the Dockerfile.", required=True),
            "context": Key(_PATH, "Folder that is sent to the engine; that of the Dockerfile by default."),
            "target": Key(Text(noun="a stage's name"), "Stage to build; the last by default."),
            "args": Key(VARIABLES, "Build arguments. No secrets: an image tells them."),
        },
    ),
)

IMAGE: Final = Record(
    noun="a mapping with `base`",
    one_of=("base", "dockerfile"),
    keys={
        "base": Key(
            _REFERENCE,
            "Image to build from, with tag or digest; for GPUs such as `nvcr.io/nvidia/pytorch:24.10-py3`.",
        ),
        "pull": Key(
            Choice(words=("always", "missing")),
            "`always`: the registry must say where the base's tag points; `missing`: what the engine has is used unasked. By "
            "default the registry is asked, and the engine's is used where it gives no answer.",
        ),
        "ofed": Key(_OFED, "User-space part of the InfiniBand drivers; none by default."),
        "apt": Key(
            Items(
                noun="a list of Debian packages",
                item=Text(
                    noun="a Debian package, such as `libgl1` or `libgl1=1.6.0-1`",
                    pattern=r"[a-z0-9][a-z0-9+.-]+(?::[a-z0-9]+)?(?:=[A-Za-z0-9.+~:-]+)?",
                ),
            ),
            "Debian packages, optionally `name=version`.",
        ),
        "pip": Key(_PIP, "Python packages: the path of a requirements file, a list of requirements, or a mapping."),
        "conda": Key(
            Either(
                noun="the path of an environment file, or a mapping with `file`",
                scalar=_PATH,
                keys=Record(
                    noun="a mapping with `file`",
                    keys={
                        "file": Key(_PATH, "Path of an environment file inside the project.", required=True),
                        "micromamba": Key(
                            _REFERENCE, "Image that has /bin/micromamba; `mambaorg/micromamba` by default."
                        ),
                    },
                ),
            ),
            "Conda environment, made in a build stage of its own: the path of its environment.yml, or a mapping.",
        ),
        "azureml-mlflow": Key(
            _PackageVersion(), "azureml-mlflow: a version, `latest` or true for no pin, false for none."
        ),
        "azureml-defaults": Key(_PackageVersion(), "azureml-defaults, in the same way."),
        "env": Key(VARIABLES, "Environment variables of the image. No secrets: an image can be read."),
        "copy": Key(
            Items(
                noun="a list of {from, to}",
                item=Record(
                    noun="a mapping with `from` and `to`",
                    keys={
                        "from": Key(_PATH, "File or folder of the project.", required=True),
                        "to": Key(
                            Text(noun="an absolute path in the image", pattern=r"/[^\s].*", rule=_below_root),
                            "Absolute path in the image; a folder where it ends with `/`.",
                            required=True,
                        ),
                    },
                ),
            ),
            "Files of the project that belong into the image. The job's own code is no such file.",
        ),
        "run": Key(
            Items(
                noun="a list of shell commands",
                item=Either(
                    noun="a shell command, or a mapping with `command`",
                    scalar=_COMMAND,
                    keys=Record(
                        noun="a mapping with `command`",
                        keys={
                            "command": Key(_COMMAND, "Shell command, on one line.", required=True),
                            "secrets": Key(
                                Items(item=_SECRET, noun="a list of secrets' names"),
                                "Secrets that the command finds as files in /run/secrets.",
                            ),
                        },
                    ),
                ),
            ),
            "Commands that change the image, after everything else is in it.",
        ),
        "user": Key(
            Text(
                noun="a user, such as `azureml` or `1000:1000`",
                pattern=r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?::[A-Za-z0-9_][A-Za-z0-9_.-]*)?",
            ),
            "User that the image ends with; the base's by default. Give it where the base's is not root.",
        ),
        "ca-certificates": Key(
            Items(item=_PATH, noun="a list of paths"),
            "PEM files of certification authorities to trust beside the public ones.",
        ),
        "secrets": Key(
            Table(
                noun="a mapping of names to {env} or {file}",
                key=Text(noun="letters, digits, `_`, `.` and `-`", pattern=NAMED),
                value=Record(
                    noun="a mapping with `env` or `file`",
                    one_of=("env", "file"),
                    keys={
                        "env": Key(
                            Text(noun="a variable's name", pattern=r"[A-Za-z_][A-Za-z0-9_]*"),
                            "Environment variable of the runner that holds it.",
                        ),
                        "file": Key(
                            _PATH,
                            "File of the runner that holds it, in the workspace or below a path of `--secret-path`.",
                        ),
                    },
                ),
            ),
            "Secrets that the build may read (BuildKit's secret mounts). They are in no layer, and not in the address.",
        ),
        "refresh": Key(
            Duration(maximum=366 * 24 * 3600.0),
            "Age at which what apt and pip installed is installed anew, such as `7d`; never by default.",
        ),
        "protect": Key(
            Record(
                noun="a mapping with `packages` and `allow`",
                keys={
                    "packages": Key(
                        _GLOBS,
                        "Packages of the base that must not change; torch, CUDA, NCCL and their like by default.",
                    ),
                    "allow": Key(_GLOBS, "Packages among them that may change all the same."),
                },
            ),
            "Packages of the base that nothing above may change.",
        ),
        "dockerfile": Key(_DOCKERFILE, "The project's own Dockerfile instead of `base` and what is installed on it."),
        "repository": Key(
            Text(
                noun="lower-case words joined by `/`, `-`, `_` or `.`",
                pattern=rf"{_REPOSITORY_PART}(?:/{_REPOSITORY_PART})*",
            ),
            "Repository in the registry; `owner/name` of the git remote by default, and the project's folder in it.",
        ),
        "tags": Key(
            Items(
                noun="a list of tags",
                item=Text(noun="a tag, such as `v1-{short-commit}`", rule=_release_tag),
            ),
            "Release tags beside those of address and digest; `git-{commit}` and `branch-{branch}` by default.",
        ),
        "lock": Key(
            Flag(),
            "Whether an Azure Container Registry is told to keep the tag of the digest as it is; true by default.",
        ),
        "platform": Key(
            Choice(words=("linux/amd64", "linux/arm64")), "`linux/amd64` or `linux/arm64`; the engine's by default."
        ),
        "checks": CHECKS_KEY,
    },
)
RENDERED: Final = (
    "ofed", "apt", "pip", "conda", "azureml-mlflow", "azureml-defaults", "env", "copy", "run", "user", "ca-certificates",
    "refresh",
)  # fmt: skip
"""Keys that say what aml-train renders; beside ``dockerfile`` they have no meaning."""
