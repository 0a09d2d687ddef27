"""JSON in tags that anyone with the workspace may change: nested too deeply, it is no value of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.azure.names import find_config_json
from aml_train.core.tags import TAG_DIGEST, TAG_IMAGES, TAG_RULES
from aml_train.jobs.workspace import ModelView
from aml_train.pipeline.graph import images_of
from aml_train.pipeline.report.images import further_images
from aml_train.pipeline.report.parts import recorded_rules

DEEP = "[" * 100_000


def test_images() -> None:
    tags = {TAG_DIGEST: "sha256:00", f"{TAG_IMAGES}one": DEEP}
    found = images_of(tags)
    assert found is not None
    assert not found.complete
    assert list(further_images(tags)) == []


def test_rules() -> None:
    model = ModelView(name="m", version="1", path="azureml://x", tags={TAG_RULES: DEEP})
    assert list(recorded_rules(model, lambda _metric: ())) == []


@pytest.mark.parametrize("content", [DEEP, "[", "5"])
def test_a_config_json_of_another_tool(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    assert find_config_json(tmp_path) != tmp_path / "config.json"
