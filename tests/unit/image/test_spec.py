from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aml_train.config.sections.image import ImageConfig, RunStep, SecretConfig
from aml_train.config.sections.image_ofed import OfedConfig
from aml_train.config.sections.image_packages import PipConfig
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.image.inputs import BaseImage, ImageInputs
from aml_train.image.spec import CheckPolicy, ImageSpec, TestSpec, plan_image

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
REF = ImageRef.parse("python:3.11-slim")
BASE = BaseImage(reference=REF, digest=DIGEST)
INPUTS = ImageInputs(files={"requirements.txt": b"scikit-learn\n"}, requirements="requirements.txt")
FULL = ImageConfig(
    base=REF,
    apt=("libfuse-dev", "curl=7.88"),
    pip=PipConfig(requirements=Path("/p/r.txt"), packages=("numpy>=2", "x; python_version < '3.12'")),
    azureml_mlflow="1.62.0",
    azureml_defaults="latest",
    env={"B": 'say "$HOME"', "A": "1"},
    repository="digits",
    where="aml-train.yml:2",
)


def _plan(config: ImageConfig = FULL, **changes: Any) -> ImageSpec:
    arguments: dict[str, Any] = {"base": BASE, "inputs": INPUTS, "platform": "linux/amd64"} | changes
    return plan_image(config, **arguments)


CHANGES: dict[str, dict[str, Any]] = {
    "base": {"base": BaseImage(reference=REF, digest=OTHER)},
    "local base": {"base": BaseImage(reference=REF, image_id=OTHER)},
    "other local base": {"base": BaseImage(reference=REF, image_id=DIGEST)},
    "requirements": {"inputs": replace(INPUTS, files={"requirements.txt": b"scikit-learn==1\n"})},
    "no requirements": {"inputs": None},
    "another file": {"inputs": replace(INPUTS, files={**INPUTS.files, "constraints.txt": b""})},
    "refreshed": {"inputs": replace(INPUTS, refreshed="2026-11-16T00:00Z")},
    "user": {"config": replace(FULL, user="azureml")},
    "run": {"config": replace(FULL, run=(RunStep(command="true"),))},
    "drivers": {"config": replace(FULL, ofed=OfedConfig(source="distro"))},
    "platform": {"platform": "linux/arm64"},
    "apt": {"config": replace(FULL, apt=("curl",))},
    "env": {"config": replace(FULL, env={"A": "2"})},
    "order of packages": {"config": replace(FULL, pip=PipConfig(packages=FULL.pip.packages[::-1]))},
}


def test_address_covers_what_decides_the_contents() -> None:
    addresses = {_plan().address, *(_plan(**change).address for change in CHANGES.values())}
    assert len(addresses) == len(CHANGES) + 1


@pytest.mark.parametrize(
    "config",
    [
        replace(FULL, repository="other"),
        replace(FULL, where="aml-train.yml:9"),
        replace(FULL, ignored_checks=("size",)),
        replace(FULL, apt=("curl=7.88", "libfuse-dev", "curl=7.88")),
        replace(FULL, pip=replace(FULL.pip, requirements=Path("/q/other.txt"))),
        replace(FULL, secrets={"token": SecretConfig(env="TOKEN")}),
    ],
)
def test_address_leaves_out_the_rest(config: ImageConfig) -> None:
    assert _plan(config).address == _plan().address


def test_address_of_this_format() -> None:
    """A change here makes every user's images anew: raise FORMAT, knowingly."""
    spec = plan_image(ImageConfig(base=REF, repository="r", where="f:1"), BASE, None, "linux/amd64")
    assert spec.address == "a0788a9b476d50fe0af42d3d79612b96fcc5bcda0238c04c99a0391fff723ed0"
    assert spec.address_tag == f"addr-{spec.address[:40]}"


def test_base_names() -> None:
    local = BaseImage(reference=REF, image_id=OTHER)
    assert (local.pinned, local.identity) == ("python:3.11-slim", OTHER)
    assert (BASE.pinned, BASE.identity) == (f"python@{DIGEST}", DIGEST)


def test_test_key(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("1")
    spec = TestSpec(command="pytest", files=FileSet.collect(tmp_path))
    keys = {
        spec.key(DIGEST),
        spec.key(OTHER),
        *(
            replace(spec, **change).key(DIGEST)
            for change in (
                {"command": "x"},
                {"env": {"A": "1"}},
                {"workdir": "tests"},
                {"timeout": 1.0},
                {"network": True},
                {"junit": "r"},
                {"allow_empty": True},
            )
        ),
    }
    assert len(keys) == 9
    assert spec.key(DIGEST) == replace(spec, files=FileSet.collect(tmp_path)).key(DIGEST)
    (tmp_path / "t.py").write_text("2")
    assert replace(spec, files=FileSet.collect(tmp_path)).key(DIGEST) not in keys


def test_what_the_checks_want_comes_from_the_configuration() -> None:
    assert _plan(replace(FULL, ignored_checks=("size",))).checks == CheckPolicy(
        ignore=("size",), packages=("azureml-mlflow", "azureml-defaults"), where="aml-train.yml:2"
    )
    assert _plan(replace(FULL, azureml_defaults=None, azureml_mlflow=None)).checks.packages == ()
