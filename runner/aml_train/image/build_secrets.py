"""The variables that a build reads as secrets, and how steps get them.

A secret reaches a build step as a file that BuildKit mounts (``RUN --mount=type=secret``): it is in no layer, no history and no
cache key. The arguments of the ``docker`` command name variables, never a value.
"""

from __future__ import annotations

from collections.abc import Mapping

from aml_train.config.sections.image import SecretConfig
from aml_train.core.errors import Fault, ImageError, InvalidError


def check_secrets(secrets: Mapping[str, SecretConfig], environ: Mapping[str, str], *, proposed: bool) -> None:
    """Check that a build can, and may, read its secrets.

    Args:
        secrets: the secrets by their names.
        environ: of the command that builds.
        proposed: the commit is only proposed, so only secrets that ``--set`` names are read.

    Raises:
        ImageError: if one is not there or is empty.
        InvalidError: if one may not be read.
    """
    for name, secret in sorted(secrets.items()):
        if proposed and not secret.by_option:
            what = f"the secret `{name}` is not read for a run of a commit that is only proposed"
            why = "its author could name any secret of the runner"
            example = f"image.secrets.{name}.env={secret.env}"
            remedy = f"let the workflow name it: `set: {example}` (`--set` on the command line)"
            raise InvalidError([Fault(where=secret.where, what=what, why=why, remedy=remedy)])
        if not environ.get(secret.env, "").strip():
            raise ImageError(
                f"{secret.where}: the build needs the secret {name}, and the environment variable {secret.env} is not set",
                hint=f"Set it: {secret.env}=…",
            )
