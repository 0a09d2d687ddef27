"""The secrets that a configuration holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aml_train.config.model import Config
from aml_train.core.secrets import identifier, named_secret


def secrets_in(config: Config) -> Iterator[str]:
    """Yield the values of variables in *config*, of the job, the image and the tests, whose names say that they are secret.

    References of AzureML (``${{…}}``) are none.
    """
    written: Sequence[Mapping[str, object]] = (
        config.job.document.get("environment_variables") or {},
        config.image.env if config.image else {},
        config.tests.env if config.tests else {},
    )
    for variables in written:
        for name, value in variables.items():
            if named_secret(name) and not identifier(name) and "${{" not in str(value):
                yield str(value)
