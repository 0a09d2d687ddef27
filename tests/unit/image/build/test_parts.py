"""Secrets, cache, context and the comparison with the base: the pure parts of a build."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from aml_train.config.sections.image_packages import PROTECTED
from aml_train.core.errors import ImageError
from aml_train.image.build.build import docker_config, secret_masker
from aml_train.image.build.progress import PlainProgress
from aml_train.image.dockerfile.in_build import protect
from aml_train.image.registry.auth import RegistryAuth


def test_secrets_are_masked() -> None:
    mask = secret_masker(["pa$$word", "line one\nline/two\n"]).mask
    assert mask("x pa$$word y line one line%2Ftwo z") == "x *** y *** *** z"
    assert secret_masker(["test"]).mask("a test") == "a ***"
    assert secret_masker(["ab", ""]).mask("ab") == "ab"


def test_the_credentials_of_a_build_are_in_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "home/.docker/cli-plugins").mkdir(parents=True)
    (tmp_path / "home/.docker/config.json").write_text(
        '{"credsStore": "pass", "auths": {"a": {}}, "currentContext": "x"}'
    )
    auth = RegistryAuth(username="u", password="p", identity_token="t")
    folder = docker_config(tmp_path / "docker", {"HOME": str(tmp_path / "home")}, {"r:1": auth})
    config = json.loads((folder / "config.json").read_text())
    assert config == {
        "credsStore": "pass",
        "auths": {"a": {}, "r:1": {"auth": "dTpw", "identitytoken": "t"}},
        "credHelpers": {"r:1": ""},
    }
    assert stat.S_IMODE((folder / "config.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "cli-plugins").is_dir()
    (tmp_path / "home/.docker/config.json").write_text("{")
    with pytest.raises(ImageError, match=r"config\.json is damaged"):
        docker_config(tmp_path / "other", {"HOME": str(tmp_path / "home")}, {"r:1": auth})


def test_a_step_of_ours_speaks_for_itself() -> None:
    progress = PlainProgress()
    for line in (
        "#7 [stage-1 3/3] RUN --mount=type=bind,from=base python protect.py",
        "#7 0.4 noise",
        "#7 0.5 aml-train: error: protected packages of the base have changed:",
        "#7 0.5 aml-train: error:   torch 2.1.0 became 2.2.0 (pip)",
        "#7 0.5 aml-train: remedy: Ask for others.",
        "#7 ERROR: executor failed",
    ):
        list(progress.feed(line))
    error = progress.error(1)
    assert error.message == "protected packages of the base have changed:\n  torch 2.1.0 became 2.2.0 (pip)"
    assert error.hint == "Ask for others."


@pytest.fixture
def root(tmp_path: Path) -> Callable[..., Path]:
    """Make a file system with Python's and Debian's records of what is installed."""

    def make(name: str, pip: dict[str, str], dpkg: dict[str, str], record: str = "a.py,sha256=1,2\n") -> Path:
        folder = tmp_path / name
        for distribution, version in pip.items():
            info = folder / f"lib/site/{distribution}-{version}.dist-info"
            info.mkdir(parents=True)
            (info / "RECORD").write_text(record + f"{distribution}.dist-info/INSTALLER,sha256={name},3\n")
        (folder / "var/lib/dpkg").mkdir(parents=True)
        paragraphs = [
            f"Package: {one}\nStatus: install ok installed\nVersion: {version}\n" for one, version in dpkg.items()
        ]
        (folder / "var/lib/dpkg/status").write_text(
            "\n".join([*paragraphs, "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n"])
        )
        return folder

    return make


def test_what_changed_of_the_base(root: Callable[..., Path]) -> None:
    before = root(
        "before",
        {"torch": "2.1.0+nv", "nvidia_cuda_x": "1", "numpy": "1", "triton": "3"},
        {"libnccl2": "2.18", "curl": "7"},
    )
    after = root("after", {"torch": "2.2.0", "numpy": "2", "triton": "3"}, {"libnccl2": "2.19", "curl": "8"})
    pip = protect.changes(
        protect.pip_packages(before, ["/lib/site"]), protect.pip_packages(after, ["lib/site"]), list(PROTECTED), []
    )
    assert pip == ["nvidia-cuda-x 1 was removed", "torch 2.1.0+nv became 2.2.0"]
    dpkg = (protect.dpkg_packages(before), protect.dpkg_packages(after))
    assert protect.changes(*dpkg, list(PROTECTED), []) == ["libnccl2 2.18 became 2.19"]
    assert protect.changes(*dpkg, list(PROTECTED), ["libnccl*"]) == []
    assert protect.changes(*dpkg, [], []) == []


TOO_OLD = (
    "Error response from daemon: client version 1.41 is too old. Minimum supported API version is 1.44, "
    "please upgrade your client to a newer version"
)


@pytest.mark.parametrize("line", [TOO_OLD, f"ERROR: {TOO_OLD}"])
def test_an_engine_that_refuses_an_old_client_is_named(line: str) -> None:
    progress = PlainProgress()
    list(progress.feed(line))
    error = progress.error(1)
    assert error.message == (
        "the docker command is too old for the engine: it speaks API 1.41, and the engine none below 1.44"
    )
    assert "docker-buildx" in str(error.hint)
