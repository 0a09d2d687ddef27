from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from aml_train.cli.main import cli
from aml_train.config.sections.image import ImageConfig
from aml_train.config.sections.image_packages import PipConfig
from aml_train.core.docker import buildkit_cli, connect_engine
from aml_train.core.errors import ImageError, InvalidError
from aml_train.image.inputs import ImageInputs
from tests.support.image_configs import BASE, FULL, OFED, plan

ROOT = Path(__file__).parents[3]


def test_engine_that_does_not_answer(tmp_path: Path) -> None:
    host = f"unix://{tmp_path}/no.sock"
    with pytest.raises(ImageError, match=r"no\.sock does not answer: No such file or directory") as caught:
        connect_engine({"DOCKER_HOST": host})
    assert "DOCKER_HOST" in (caught.value.hint or "")


def test_no_client_that_builds(tmp_path: Path) -> None:
    with pytest.raises(
        ImageError, match=r"no docker command can build with BuildKit \(tried: none on PATH\)"
    ) as caught:
        buildkit_cli({"PATH": str(tmp_path)})
    assert "Install Docker's client" in (caught.value.hint or "")
    (tmp_path / "docker").write_text("#!/bin/sh\ntest \"$1\" = --version && echo 'Docker version 28.1.0, build x'\n")
    (tmp_path / "docker").chmod(0o755)
    with pytest.raises(ImageError, match=rf"tried: {tmp_path}/docker") as caught:
        buildkit_cli({"PATH": f"{tmp_path}:/nowhere"})
    assert (caught.value.hint or "").startswith("Install the buildx plugin")


def test_the_command_gets_the_environment_it_is_given() -> None:
    cli = buildkit_cli({"PATH": os.environ["PATH"], "DOCKER_CONTEXT": "elsewhere", "A": "b"})
    assert cli.environ["DOCKER_BUILDKIT"] == "1"
    assert cli.environ["A"] == "b"
    assert "DOCKER_CONTEXT" not in cli.environ


@pytest.mark.parametrize("ofed", OFED)
def test_dockerfile_pleases_hadolint(ofed: str, tmp_path: Path) -> None:
    _please_hadolint(plan(replace(FULL, ofed=OFED[ofed])).dockerfile, tmp_path)


def test_small_dockerfile_pleases_hadolint(tmp_path: Path) -> None:
    config = ImageConfig(
        base=BASE.reference, pip=PipConfig(packages=("numpy",)), user="root", repository="r", where="f:1"
    )
    _please_hadolint(plan(config, inputs=ImageInputs()).dockerfile, tmp_path)


@pytest.mark.full
def test_the_tutorials_image_is_rendered_without_a_network(tmp_path: Path) -> None:
    """NGC's PyTorch, MLNX_OFED, azureml-defaults: what the tutorial does by hand."""
    options = [
        "image",
        "render",
        "-C",
        str(ROOT / "examples/ngc-maskrcnn"),
        "--offline",
        "--write",
        str(tmp_path / "build"),
    ]
    done = CliRunner().invoke(cli, options)
    assert (done.stderr, done.exit_code) == ("", 0)
    assert done.stdout.startswith("FROM nvcr.io/nvidia/pytorch:21.02-py3 AS base\n")
    order = [
        "https://content.mellanox.com/ofed/MLNX_OFED-5.8-2.0.3.0/MLNX_OFED_LINUX-5.8-2.0.3.0-ubuntu20.04-x86_64.tgz",
        "99aa2966ce260f3ca282e24a26c6f5302692f9072117626107aa599868208d8f",
        "--user-space-only --without-fw-update --all --without-neohost-backend --force",
        "libcap2",
        "azureml-defaults==1.25.0",
        "protect.py",
    ]
    positions = [done.stdout.index(part) for part in order]
    assert positions == sorted(positions)
    assert (tmp_path / "build/Dockerfile").read_text() == done.stdout
    assert [path.name for path in (tmp_path / "build/context").iterdir()] == ["protect.py"]
    _please_hadolint(done.stdout, tmp_path)
    again = CliRunner().invoke(cli, options)
    assert isinstance(again.exception, InvalidError)
    assert "cannot be made: File exists" in str(again.exception)


def _please_hadolint(text: str, folder: Path) -> None:
    file = folder / "Dockerfile"
    file.write_text(text)
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, "--no-color", file], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)
