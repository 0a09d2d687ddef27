"""The secrets of a build: where they are, that they are there, and that nobody repeats them.

A secret reaches a build step as a file that BuildKit mounts (``RUN --mount=type=secret``): it is in no layer, no history and no
cache key. The arguments of the ``docker`` command name variables, never a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aml_train.config import SecretConfig
from aml_train.core.errors import Fault, ImageError, InvalidError
from aml_train.image.build.secret_files import SecretAccess, read_secret_file

_VARIABLE: Final = "AML_TRAIN_BUILD_SECRET_"


@dataclass(frozen=True, kw_only=True)
class BuildSecrets:
    """The secrets of one build.

    Attributes:
        options: values of docker's ``--secret``; they name variables and hold no secret.
        variables: what the ``docker`` command finds in its environment beyond what is there: the contents of files.
        values: every secret, to mask it.
    """

    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    values: tuple[str, ...] = field(default=(), repr=False)


def build_secrets(
    secrets: Mapping[str, SecretConfig], environ: Mapping[str, str], access: SecretAccess
) -> BuildSecrets:
    """Read the secrets of a build.

    A file is read here, once, and reaches the ``docker`` command as a variable: that command would follow whatever the path
    has become by then.

    Raises:
        ImageError: if one is not there or is empty.
        InvalidError: if one may not be read.
    """
    options, variables, values = [], {}, []
    for number, (name, secret) in enumerate(sorted(secrets.items())):
        if access.proposed and not secret.by_option:
            raise _refusal(name, secret)
        variable = secret.env or f"{_VARIABLE}{number}"
        value = _value(name, secret, environ, access)
        if secret.env is None:
            variables[variable] = value
        options.append(f"id={name},env={variable}")
        values.append(value)
    return BuildSecrets(options=tuple(options), variables=variables, values=tuple(values))


def _refusal(name: str, secret: SecretConfig) -> InvalidError:
    what = f"the secret `{name}` is not read for a run of a commit that is only proposed"
    why = "its author could name any secret of the runner"
    key = f"image.secrets.{name}"
    example = f"{key}.env={secret.env}" if secret.env is not None else f"{key}.file=PATH"
    remedy = f"let the workflow name it: `set: {example}` (`--set` on the command line)"
    return InvalidError([Fault(where=secret.where, what=what, why=why, remedy=remedy)])


def _value(name: str, secret: SecretConfig, environ: Mapping[str, str], access: SecretAccess) -> str:
    if secret.env is not None:
        value = environ.get(secret.env, "")
        what, remedy = f"the environment variable {secret.env} is not set", f"Set it: {secret.env}=…"
    elif secret.file is not None:
        value = read_secret_file(secret.file, access, name=name, where=secret.where)
        what, remedy = f"the file {secret.file} is empty", "Put the secret into it."
    else:
        raise ValueError(f"the secret {name} is neither a variable nor a file")
    if not value.strip():
        raise ImageError(f"{secret.where}: the build needs the secret {name}, and {what}", hint=remedy)
    return value
