from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from aml_train.cli.main import cli
from aml_train.core.docker import buildkit_cli
from aml_train.core.errors import InvalidError
from tests.support.image_configs import FULL, OFED, plan

ROOT = Path(__file__).parents[3]


def test_the_command_gets_the_environment_it_is_given() -> None:
    cli = buildkit_cli({"PATH": os.environ["PATH"], "DOCKER_CONTEXT": "elsewhere", "A": "b"})
    assert cli.environ["DOCKER_BUILDKIT"] == "1"
    assert cli.environ["A"] == "b"
    assert "DOCKER_CONTEXT" not in cli.environ


@pytest.mark.parametrize("ofed", OFED)
def test_dockerfile_pleases_hadolint(ofed: str, tmp_path: Path) -> None:
    _please_hadolint(plan(replace(FULL, ofed=OFED[ofed])).dockerfile, tmp_path)


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
