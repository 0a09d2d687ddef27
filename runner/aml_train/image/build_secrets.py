"""The secrets of a build: where they are, that they are there, and that nobody repeats them.

A secret reaches a build step as a file that BuildKit mounts (``RUN --mount=type=secret``): it is in no layer, no history and no
cache key. The ``docker`` command is told the name of a variable or file, never a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from aml_train.config.image_model import SecretConfig
from aml_train.errors import ImageError, InvalidError

_SHORTEST: Final = 4
"""Shorter values are no secrets, and masking them would make output illegible."""


def secret_options(secrets: Mapping[str, SecretConfig]) -> tuple[str, ...]:
    """Return the values of docker's ``--secret``. Pure; they hold no secret."""
    return tuple(
        f"id={name},env={secret.env}" if secret.env is not None else f"id={name},src={secret.file}"
        for name, secret in sorted(secrets.items())
    )


def read_secrets(secrets: Mapping[str, SecretConfig], environ: Mapping[str, str]) -> list[str]:
    """Return the values, to mask them.

    Raises:
        ImageError: if one is not there or is empty.
        InvalidError: if the path of one has a comma, which docker's options cannot carry.
    """
    values = []
    for name, secret in sorted(secrets.items()):
        if secret.env is not None:
            value = environ.get(secret.env, "")
            what, remedy = f"the environment variable {secret.env} is not set", f"Set it: {secret.env}=…"
        else:
            path = secret.file
            if path is None or "," in str(path):
                raise InvalidError(
                    f"{secret.where}: the path of the secret {name} has a comma", hint="Rename the file."
                )
            try:
                value = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise ImageError(f"{secret.where}: the secret {name} cannot be read from {path}: {reason}") from error
            what, remedy = f"the file {path} is empty", "Put the secret into it."
        if not value.strip():
            raise ImageError(f"{secret.where}: the build needs the secret {name}, and {what}", hint=remedy)
        values.append(value)
    return values


class Mask:
    """Replaces every known secret in a text by ``***``: as it is, line by line, and as a URL carries it.

    Attributes:
        longest: characters of the longest of them.
    """

    def __init__(self, values: Iterable[str]) -> None:
        found = {
            form
            for value in values
            for line in (value, *value.splitlines())
            for form in (line.strip(), quote(line.strip(), safe=""))
            if len(form) >= _SHORTEST
        }
        self._found = sorted(found, key=len, reverse=True)
        self.longest = max(map(len, found), default=0)

    def __call__(self, text: str) -> str:
        for secret in self._found:
            text = text.replace(secret, "***")
        return text
