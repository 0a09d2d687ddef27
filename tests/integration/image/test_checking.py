"""The readiness checks in the image stage: nothing is released that is not ready, and nothing is looked into twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.core.events import ImageChecked, TestsFinished
from aml_train.image.readiness import check as checking
from aml_train.image.readiness.check import probe_image
from aml_train.image.readiness.facts import Facts
from aml_train.image.registry.client import Registry
from aml_train.image.spec import CheckPolicy, ImageSpec, Tested, TestSpec
from tests.integration.conftest import Recorder

if TYPE_CHECKING:
    from docker import DockerClient

    from aml_train.core.threads import CancelToken

Ensure = Callable[..., Tested]
MakeTests = Callable[..., TestSpec]
STRICT = CheckPolicy(packages=("azureml-defaults",), where="aml-train.yml:2")


def _never() -> BuildCli:
    raise AssertionError("nothing may be built")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Image ids that were looked into."""
    seen: list[str] = []
    real = probe_image

    def look(engine: DockerClient, image: str, *, token: CancelToken | None = None) -> Facts:
        seen.append(image)
        return real(engine, image, token=token)

    monkeypatch.setattr(checking, "probe_image", look)
    return seen


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


@pytest.mark.full
def test_a_weakened_test_never_inherits_a_record(
    spec: ImageSpec, tests: MakeTests, ensure: Ensure, project: Path, recorder: Recorder, looks: list[str]
) -> None:
    """Whatever makes the tests say less is run, and has a record of its own; undone, the first record counts again."""
    strong = project / "tests" / "test_one.py"
    text = strong.read_text()
    first = ensure(spec, tests())
    recorder.events.clear()

    strong.write_text("def test_one():\n    pass\n")
    weakened = [ensure(spec, tests(), cli=_never)]
    strong.write_text(text)
    weakened += [
        ensure(spec, tests(command="python -m pytest -q tests --deselect tests/none.py"), cli=_never),
        ensure(spec, tests(env={"SKIP": "1"}), cli=_never),
        ensure(spec, tests(network=True), cli=_never),
        ensure(spec, tests(workdir="tests", command="python -m pytest -q ."), cli=_never),
    ]

    assert [event.cached for event in recorder.of(TestsFinished)] == [False] * len(weakened)
    keys = {one.record.key for one in (first, *weakened) if one.record is not None}
    assert len(keys) == len(weakened) + 1
    assert {one.digest for one in weakened} == {first.digest}
    assert ensure(spec, tests(), cli=_never).record == first.record
    assert len(looks) == 1
