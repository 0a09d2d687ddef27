"""The readiness checks on real images: each kind that is not ready. test_specification.py builds one that is."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from aml_train.cli.main import cli
from aml_train.core.checks import Finding
from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.image.leftovers import LABEL_KIND, LABEL_OWNER, this_owner
from aml_train.image.readiness.check import judge_facts, probe_image
from aml_train.image.spec import CheckPolicy
from tests.integration.conftest import BASE

if TYPE_CHECKING:
    from docker import DockerClient

MakeImage = Callable[[str], str]

DRIVERS = f"""\
FROM {BASE}
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \\
    ca-certificates ibverbs-providers ibverbs-utils infiniband-diags libfuse2 libibverbs1 librdmacm1 rdma-core
"""
LIB = "/usr/lib/$(uname -m)-linux-gnu"


@pytest.fixture
def make_image(cli: BuildCli, engine: DockerClient, tmp_path: Path) -> Iterator[MakeImage]:
    """Build an image from a Dockerfile's text; it is removed afterwards, what it is made of stays in the build cache."""
    names: list[str] = []

    def make(dockerfile: str) -> str:
        name = f"aml-train-test:{secrets.token_hex(6)}"
        context = tmp_path / "context"
        context.mkdir(exist_ok=True)
        argv = [
            cli.path,
            *(["buildx"] if cli.buildx else []),
            "build",
            "--quiet",
            f"--tag={name}",
            "--file=-",
            str(context),
        ]
        # Standard input carries the Dockerfile; the context is an empty folder.
        done = subprocess.run(
            argv, input=dockerfile, env=dict(cli.environ), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        names.append(name)
        return name

    yield make
    for name in names:
        engine.images.remove(name, force=True, noprune=True)


@pytest.fixture(autouse=True)
def _nothing_left(engine: DockerClient) -> Iterator[None]:
    yield
    ours = [f"{LABEL_OWNER}={this_owner(engine)}", f"{LABEL_KIND}=checks"]
    assert engine.containers.list(all=True, filters={"label": ours}) == []


def _look(engine: DockerClient, image: str, policy: CheckPolicy) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in judge_facts(probe_image(engine, image), policy):
        found.setdefault(finding.check, []).append(finding)
    return found


def _errors(found: dict[str, list[Finding]]) -> set[str]:
    return {name for name, findings in found.items() if any(finding.level == "error" for finding in findings)}


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "check", "text"),
    [
        (f"truncate -s 4096 $(readlink -f {LIB}/libibverbs.so.1)", "libibverbs", "is there and does not load: "),
        (f"truncate -s 4096 $(readlink -f {LIB}/libmlx5.so.1)", "mlx5", "libmlx5-rdmav34.so is there and does not load: "),
        (f"mv {LIB}/libibverbs/libmlx5-rdmav34.so {LIB}/libibverbs/libmlx5-rdmav25.so", "mlx5", "but the image has /usr/lib/"),
        (f"rm -r {LIB}/libibverbs", "mlx5", "without its provider libmlx5-rdmav34.so"),
        ("rm /etc/libibverbs.d/mlx5.driver", "mlx5", "no file in /etc/libibverbs.d names the driver mlx5"),
        ("dpkg --purge --force-depends libibverbs1", "libibverbs", "the image has no InfiniBand drivers"),
        ("rm -rf /etc/ssl/certs", "certificates", "Python finds no certificate authorities"),
        ("rm /bin/bash", "shell", "the image has no bash"),
        ("chmod 755 /tmp && useradd me", "user", "may not write to /tmp"),
    ],
)  # fmt: skip
def test_what_is_broken_is_told(
    engine: DockerClient, make_image: MakeImage, change: str, check: str, text: str
) -> None:
    user = "USER me\n" if "useradd" in change else ""
    found = _look(engine, make_image(f"{DRIVERS}RUN {change}\n{user}"), CheckPolicy(infiniband=True))

    assert any(finding.level == "error" and text in finding.what for finding in found[check]), found[check]
    # Nothing else is blamed.
    assert _errors(found) == {check}


@pytest.mark.full
def test_the_entrypoint_is_left_out_and_no_user_is_no_crash(engine: DockerClient, make_image: MakeImage) -> None:
    image = make_image(f'{DRIVERS}ENTRYPOINT ["/bin/false"]\nUSER 12345\n')
    found = _look(engine, image, CheckPolicy(infiniband=True))

    assert "(uid 12345) has no entry in /etc/passwd" in found["user"][0].what
    assert _errors(found) == set()


OLD = (
    "printf '#!/bin/sh\\ntest \"$1\" = --version && echo Python 2.7.18 && exit 0; exit 1\\n' > /old && chmod 755 /old"
)


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("rm -f $(which -a python python3)", "the image has no Python 3 on PATH"),
        (
            f"{OLD} && for name in python python3; do cp -f /old $(command -v $name); done",
            "the image has no Python 3 on PATH",
        ),
    ],
)
def test_without_a_usable_python(engine: DockerClient, make_image: MakeImage, change: str, text: str) -> None:
    found = _look(engine, make_image(f"FROM {BASE}\nRUN {change}\n"), CheckPolicy(infiniband=True))

    assert _errors(found) == {"python"}
    assert found["python"][0].what == text


@pytest.mark.full
def test_nccl_and_mpi(engine: DockerClient, make_image: MakeImage) -> None:
    image = make_image(
        f"{DRIVERS}RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends openmpi-bin\n"
        f"RUN head -c 500 /dev/zero > {LIB}/libnccl.so.2 && cp {LIB}/libnccl.so.2 {LIB}/libnccl-net.so\nENV NCCL_IB_DISABLE=1\n"
    )
    found = _look(engine, image, CheckPolicy(infiniband=True, mpi=True))

    assert "mpi" not in found
    assert found["nccl"][0].what.startswith("NCCL is there and does not load: ")
    assert found["nccl-plugin"][0].what.startswith("NCCL's network plugin libnccl-net.so does not load: ")
    assert _errors(found) == {"nccl", "nccl-sockets"}


@pytest.mark.full
def test_the_command(make_image: MakeImage) -> None:
    image = make_image(DRIVERS)
    ready = CliRunner().invoke(cli, ["image", "check", image, "--infiniband", "--json"])
    lacking = CliRunner().invoke(cli, ["image", "check", image, "--require", "azureml_defaults"])
    allowed = CliRunner().invoke(
        cli, ["image", "check", image, "--require", "azureml-defaults", "--ignore", "azureml-packages"]
    )

    assert (ready.exit_code, ready.stderr.splitlines()[-1]) == (0, f"{image} is ready")
    assert "· mlx5: the mlx5 provider loads: " in ready.stderr
    document = json.loads(ready.stdout)
    assert document["image"] == image
    assert {"check", "level", "what"} <= document["findings"][0].keys()
    assert document["facts"]["python_packages"]["pip"]
    assert lacking.exit_code == 3
    assert "✗ azureml-packages: the image lacks azureml-defaults: " in lacking.stdout
    assert f"{image} is not ready: 1 error" in lacking.stderr
    assert allowed.exit_code == 0

    unknown = CliRunner().invoke(cli, ["image", "check", "no-such-image:x"])
    assert isinstance(unknown.exception, ImageError)
    assert unknown.exception.message == "the engine does not have no-such-image:x"
