"""Docker's configuration file, read and checked: a damaged one is named before docker-py or the ``docker`` command stumble over it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aml_train.core.errors import ImageError

_TEXTS: Final = ("credsStore",)
#: Keys whose values are mappings, and what those hold (https://docs.docker.com/reference/cli/docker/#docker-cli-configuration-file-configjson-properties).
_MAPPINGS: Final[Mapping[str, type]] = {"auths": dict, "credHelpers": str, "HttpHeaders": str, "proxies": dict}
_WORDS: Final[Mapping[type, str]] = {dict: "an object", str: "text"}


def docker_configuration_file(environ: Mapping[str, str]) -> Path:
    """Return where Docker's clients have their configuration, whether it is there or not."""
    return Path(environ.get("DOCKER_CONFIG") or Path(environ.get("HOME", "/"), ".docker")) / "config.json"


def read_docker_configuration(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of Docker's clients; nothing where there is no file, or an empty one.

    Raises:
        ImageError: if the file cannot be read, or has another form than Docker gives it.
    """
    file = docker_configuration_file(environ)
    try:
        content = file.read_bytes() if file.is_file() else b""
        configuration = json.loads(content) if content.strip() else {}
        _check(configuration)
    except OSError as error:
        raise _damaged(f"{file} cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(f"{file} is not JSON: {error}") from error
    except ValueError as error:
        raise _damaged(f"{file} is damaged: {error}") from error
    return dict(configuration)


def _damaged(what: str) -> ImageError:
    return ImageError(
        what, hint="Correct or remove it, and sign in again where that is needed: docker login REGISTRY"
    )


def _check(configuration: Any) -> None:
    """Raise ValueError where *configuration* is none. No value is repeated: it may be a secret."""
    if not isinstance(configuration, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - foreign input
    for key in _TEXTS:
        if not isinstance(configuration.get(key, ""), str):
            raise ValueError(f"`{key}` must be text")  # noqa: TRY004
    for key, kind in _MAPPINGS.items():
        values = configuration.get(key)
        if values is None:
            continue
        if not isinstance(values, dict):
            raise ValueError(f"`{key}` must be an object")  # noqa: TRY004
        for name, value in values.items():
            if not isinstance(value, kind):
                raise ValueError(f"`{name}` of `{key}` must be {_WORDS[kind]}")  # noqa: TRY004
    for registry, entry in (configuration.get("auths") or {}).items():
        _check_entry(registry, entry)


def _check_entry(registry: str, entry: Mapping[str, Any]) -> None:
    """Raise ValueError where an entry of ``auths`` is none that docker-py can read; one with a token needs nothing else."""
    from docker.auth import decode_auth

    if "identitytoken" in entry or "auth" not in entry:
        return
    try:
        decode_auth(entry["auth"])
    except (ValueError, TypeError) as error:
        raise ValueError(f"`auth` of `{registry}` is not user and password in base64") from error
