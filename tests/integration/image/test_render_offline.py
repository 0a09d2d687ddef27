"""``aml-train image render --offline``: no engine, no registry."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from aml_train.cli.main import cli
from aml_train.core.errors import InvalidError

DIGEST = "sha256:" + "b" * 64


@pytest.fixture(autouse=True)
def _no_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail any attempt to reach the engine or a registry."""
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")


def render(folder: Path, ofed: str, base: str = f"nvcr.io/nvidia/pytorch@{DIGEST}") -> str:
    (folder / "aml-train.yml").write_text(
        f"job: {{command: python train.py}}\nimage:\n  base: {base}\n  ofed: {ofed}\n  pip: [numpy]\n"
    )
    done = CliRunner().invoke(cli, ["image", "render", "-C", str(folder), "--offline"], catch_exceptions=False)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("ofed", "part"),
    [
        ('{source: doca, version: "3.2.3", os: ubuntu24.04}', "doca-host_3.2.3-019000-25.10-ubuntu2404_amd64.deb"),
        (
            '{source: mlnx_ofed, version: "5.8-2.0.3.0", os: ubuntu22.04}',
            "6ec0e1b6a8de6fbcc6d6bceaedf853f801003b0ee854f3b660e53bd2f73ef79a",
        ),
        ("distro", "ibverbs-providers"),
        ("none", "numpy"),
    ],
)
def test_a_digest_and_a_distribution_are_enough(tmp_path: Path, ofed: str, part: str) -> None:
    text = render(tmp_path, ofed)
    assert text.startswith(f"FROM nvcr.io/nvidia/pytorch@{DIGEST} AS base\n")
    assert f'org.opencontainers.image.base.digest="{DIGEST}"' in text
    assert part in text


@pytest.mark.parametrize(
    ("ofed", "message"),
    [
        ('{source: doca, version: "3.2.3"}', r"`image\.ofed\.os` is missing: the base is not looked at; give it"),
        ("auto", r"`image\.ofed: auto` depends on the base: the base is not looked at; write what it comes to"),
    ],
)
def test_what_only_the_base_knows_is_demanded(tmp_path: Path, ofed: str, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        render(tmp_path, ofed)
