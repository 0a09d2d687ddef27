"""The readiness checks in the image stage: nothing is released that is not ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from aml_train.core.errors import ImageError
from aml_train.core.events import ImageChecked
from aml_train.image.registry.client import Registry
from aml_train.image.spec import CheckPolicy, ImageSpec, Tested, TestSpec
from tests.integration.conftest import Recorder

if TYPE_CHECKING:
    pass

Ensure = Callable[..., Tested]
MakeTests = Callable[..., TestSpec]
STRICT = CheckPolicy(packages=("azureml-defaults",), where="aml-train.yml:2")


def test_what_is_not_ready_is_not_released(
    spec: ImageSpec, tests: MakeTests, ensure: Ensure, registry: Registry, recorder: Recorder
) -> None:
    with pytest.raises(
        ImageError, match=r"not ready for AzureML: 1 check fails\n  azureml-packages: the image lacks"
    ):
        ensure(replace(spec, checks=STRICT), tests(command="sleep 1; python -m pytest -q tests"))

    assert registry.tags(spec.repository) == []
    (checked,) = recorder.of(ImageChecked)
    assert (checked.findings[0].check, checked.findings[0].level) == ("azureml-packages", "error")
    assert (checked.cached, checked.where) == (False, "aml-train.yml:2")
