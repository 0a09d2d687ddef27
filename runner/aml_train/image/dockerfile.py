"""Render an image's Dockerfile.

The text is deterministic and carries nothing that changes with the commit. It stays within what Docker 20.10's built-in
BuildKit frontend understands: no here-documents, no ``COPY --link``, and no ``# syntax=`` line, which would need a pull.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

REQUIREMENTS_NAME: Final = "requirements.txt"
"""Name of the user's requirements file in the build context."""

_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_REQUIREMENTS_TARGET: Final = "/tmp/aml-train-requirements.txt"  # noqa: S108 - a path in the image

# The configuration in Debian's images empties apt's usual archive folder after each run, so the cached one stands elsewhere.
_APT: Final = """\
RUN --mount=type=cache,target=/var/cache/aml-train-apt,sharing=locked \\
    --mount=type=cache,target=/var/lib/apt/lists,sharing=locked \\
    mkdir -p /var/cache/aml-train-apt/partial \\
    && apt-get update \\
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \\
        -o Dir::Cache::archives=/var/cache/aml-train-apt -o APT::Keep-Downloaded-Packages=true \\
"""

# Pythons of a distribution refuse an installation (PEP 668); inside an image that is ours to change it is wanted.
# Older pips ignore the variable, and PIP_CONSTRAINT of the base stays in force. Jobs say ``python``; where an image has
# only ``python3``, that is the one.
_PIP: Final = """\
RUN --mount=type=cache,target=/root/.cache/pip,sharing=locked \\
    PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore \\
    "$(command -v python || command -v python3)" -m pip install --no-warn-script-location \\
"""


def _words(words: Iterable[str]) -> str:
    """Return *words* quoted for the shell, one a line, the last without a continuation."""
    return " \\\n".join(f"        {_quote(word)}" for word in words)


def _quote(word: str) -> str:
    """Quote *word* for the shell. Double quotes where it has single ones: linters do not parse ``'"'"'``."""
    _check(word)
    if _PLAIN.fullmatch(word):
        return word
    if "'" not in word:
        return f"'{word}'"
    return '"' + re.sub(r'([\\"$`])', r"\\\1", word) + '"'


def _check(text: str) -> None:
    """Raise ValueError if *text* cannot stand in a Dockerfile."""
    if any(character in text for character in "\r\n\0"):
        raise ValueError(f"{text!r} has a line break or NUL, which a Dockerfile cannot carry")


def _env_value(value: str) -> str:
    """Quote *value* for ENV: inside double quotes backslash, quote and dollar keep their plain meaning."""
    _check(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def _azureml(name: str, version: str | None) -> list[str]:
    """Return the requirement for one of Azure's packages: none, unpinned, or pinned."""
    if version is None:
        return []
    return [name if version == "latest" else f"{name}=={version}"]


def render_dockerfile(
    *,
    base: str,
    apt: Iterable[str] = (),
    pip_packages: Iterable[str] = (),
    requirements: bool = False,
    azureml_mlflow: str | None = None,
    azureml_defaults: str | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Return the Dockerfile's text: base, labels, apt, Azure's packages, requirements, packages, environment.

    Args:
        base: the name after ``FROM``, pinned.
        apt: Debian packages, optionally ``name=version``.
        pip_packages: requirement specifiers.
        requirements: whether a requirements file of the user is in the context as :data:`REQUIREMENTS_NAME`.
        azureml_mlflow, azureml_defaults: version, ``latest``, or None for not at all.
        env: the image's environment.

    Raises:
        ValueError: if an environment value or a package holds a line break or NUL, which no Dockerfile can express.
    """
    blocks = [
        f"FROM {base}",
        'LABEL org.opencontainers.image.created-by="aml-train"',
    ]
    if packages := sorted(set(apt)):
        blocks.append(_APT + _words(packages))
    if azureml := [*_azureml("azureml-mlflow", azureml_mlflow), *_azureml("azureml-defaults", azureml_defaults)]:
        blocks.append(_PIP + _words(azureml))
    if requirements:
        mounted = f"    --mount=type=bind,source={REQUIREMENTS_NAME},target={_REQUIREMENTS_TARGET} \\\n"
        head, rest = _PIP.split("\n", 1)
        blocks.append(f"{head}\n{mounted}{rest}" + _words([f"--requirement={_REQUIREMENTS_TARGET}"]))
    if specifiers := list(pip_packages):
        blocks.append(_PIP + _words(specifiers))
    if lines := [f"ENV {name}={_env_value(value)}" for name, value in sorted((env or {}).items())]:
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"
