"""Which variables of the runner a build may read as secrets."""

from __future__ import annotations

import pytest

from aml_train.config.sections.image import SecretConfig
from aml_train.core.errors import ImageError, InvalidError
from aml_train.image.build.build import check_secrets


def test_a_proposed_commit_names_no_secret() -> None:
    secrets = {"x": SecretConfig(env="AZURE_CLIENT_SECRET")}
    with pytest.raises(
        InvalidError, match=r"secret `x` is not read .* only proposed: .*`set: image\.secrets\.x\.env="
    ):
        check_secrets(secrets, {"AZURE_CLIENT_SECRET": "value"}, proposed=True)


def test_the_workflow_names_secrets_for_a_proposed_commit() -> None:
    check_secrets({"a": SecretConfig(env="A", by_option=True)}, {"A": "value"}, proposed=True)


def test_a_secret_that_is_not_there() -> None:
    message = "f:3: the build needs the secret s, and the environment variable NONE is not set"
    with pytest.raises(ImageError, match=message):
        check_secrets({"s": SecretConfig(env="NONE", where="f:3")}, {}, proposed=False)
