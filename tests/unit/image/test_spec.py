from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aml_train.config.model import ImageConfig, PipConfig
from aml_train.files import FileSet
from aml_train.image.dockerfile import render_dockerfile
from aml_train.image.spec import BaseImage, CheckPolicy, ImageSpec, TestSpec, plan_image
from aml_train.references import ImageRef

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
REF = ImageRef.parse("python:3.11-slim")
BASE = BaseImage(reference=REF, digest=DIGEST)
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
    arguments: dict[str, Any] = {"base": BASE, "requirements": b"scikit-learn\n", "platform": "linux/amd64"} | changes
    return plan_image(config, **arguments)


def test_dockerfile() -> None:
    text = _plan().dockerfile
    assert text.startswith(f"FROM python@{DIGEST}\n")
    order = [
        "FROM", "LABEL", "apt-get install", "curl=7.88", "libfuse-dev", "azureml-mlflow==1.62.0", "        azureml-defaults\n",
        "--requirement=", "'numpy>=2'", "\"x; python_version < '3.12'\"", 'ENV A="1"', 'ENV B="say \\"\\$HOME\\""',
    ]  # fmt: skip
    positions = [text.index(part) for part in order]
    assert positions == sorted(positions)
    assert "# syntax" not in text
    assert "<<" not in text


def test_minimal_dockerfile() -> None:
    assert render_dockerfile(base="x:1") == 'FROM x:1\n\nLABEL org.opencontainers.image.created-by="aml-train"\n'


@pytest.mark.parametrize("arguments", [{"env": {"A": "1\n2"}}, {"pip_packages": ["a\nRUN evil"]}, {"apt": ["a\0"]}])
def test_what_a_dockerfile_cannot_carry(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="has a line break or NUL"):
        render_dockerfile(base="x:1", **arguments)


CHANGES: dict[str, dict[str, Any]] = {
    "base": {"base": BaseImage(reference=REF, digest=OTHER)},
    "local base": {"base": BaseImage(reference=REF, image_id=OTHER, local_only=True)},
    "other local base": {"base": BaseImage(reference=REF, image_id=DIGEST, local_only=True)},
    "requirements": {"requirements": b"scikit-learn==1\n"},
    "no requirements": {"requirements": None},
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
    ],
)
def test_address_leaves_out_the_rest(config: ImageConfig) -> None:
    assert _plan(config).address == _plan().address


def test_address_of_this_format() -> None:
    """A change here makes every user's images anew: raise FORMAT, knowingly."""
    spec = plan_image(ImageConfig(base=REF, repository="r", where="f:1"), BASE, None, "linux/amd64")
    assert spec.address == "809bc006bd29a811f780d226443daaa247df57bfbddccc4c5eaf0ecade8107d7"
    assert spec.address_tag == f"addr-{spec.address[:40]}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "has neither a manifest digest nor an image id"),
        ({"digest": "sha256:1"}, "digest 'sha256:1' of python:3.11-slim is not"),
        ({"image_id": DIGEST}, "is local_only exactly where"),
        ({"digest": DIGEST, "local_only": True}, "is local_only exactly where"),
    ],
)
def test_base_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BaseImage(reference=REF, **arguments)


def test_base_names() -> None:
    local = BaseImage(reference=REF, image_id=OTHER, local_only=True)
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
            for change in ({"command": "x"}, {"env": {"A": "1"}}, {"timeout": 1.0}, {"network": True}, {"junit": "r"})
        ),
    }
    assert len(keys) == 7
    assert spec.key(DIGEST) == replace(spec, files=FileSet.collect(tmp_path)).key(DIGEST)
    (tmp_path / "t.py").write_text("2")
    assert spec.key(DIGEST) not in keys


def test_what_the_checks_want_comes_from_the_configuration() -> None:
    assert _plan(replace(FULL, ignored_checks=("size",))).checks == CheckPolicy(
        ignore=("size",), packages=("azureml-mlflow", "azureml-defaults"), where="aml-train.yml:2"
    )
    assert _plan(replace(FULL, azureml_defaults=None, azureml_mlflow=None)).checks.packages == ()
