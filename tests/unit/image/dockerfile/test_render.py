from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.config.sections.image import CopyConfig, ImageConfig, RunStep
from aml_train.config.sections.image_ofed import OfedConfig
from aml_train.config.sections.image_packages import PipConfig
from aml_train.core.file_selection import FileEntry
from aml_train.core.files import FileSet
from aml_train.image.dockerfile.render import quote, render_dockerfile
from aml_train.image.inputs import ImageInputs
from tests.support.image_configs import BASE, DIGEST, FULL, INPUTS, OFED, plan

SMALL = ImageConfig(base=BASE.reference, repository="r", where="f:1")


def test_what_changes_rarely_stands_first() -> None:
    text = plan().dockerfile
    assert text.startswith(f"FROM nvcr.io/nvidia/pytorch@{DIGEST} AS base\n")
    order = [
        "update-ca-certificates", "FROM trusting AS conda", "micromamba create", "FROM trusting\n\nLABEL", "USER 0",
        "mlnxofedinstall", "libcap2=1:2.66-4", "COPY --from=conda", "azureml-mlflow==1.62.0", "        azureml-defaults\n",
        "--requirement=", "'numpy>=2'", "\"x; python_version < '3.12'\"", 'ENV A="1"', 'ENV B="say \\"\\$HOME\\""',
        'COPY ["copy/0/", "/opt/data/"]', "RUN make -C /opt/data", "fetch /run/secrets/token", "protect.py", "USER azureml\n",
    ]  # fmt: skip
    positions = [text.index(part) for part in order]
    assert positions == sorted(positions)
    assert "# syntax" not in text
    assert "<<" not in text


def test_minimal_dockerfile() -> None:
    assert render_dockerfile(SMALL, base="x:1") == (
        'FROM x:1 AS base\n\nFROM base\n\nLABEL org.opencontainers.image.created-by="aml-train" \\\n'
        '      org.opencontainers.image.base.name="x:1"\n'
    )


def test_large_requirements_have_a_layer_of_their_own_before_all_of_them() -> None:
    pip = PipConfig(requirements=Path("requirements.txt"), require_hashes=True)
    files = {"requirements.txt": b"torch==2.9.0\nsix==1.17.0\n", "requirements-large.txt": b"torch==2.9.0\n"}
    text = render_dockerfile(
        replace(SMALL, pip=pip), base="x:1", inputs=ImageInputs(files=files, requirements="requirements.txt")
    )
    large, whole = (step for step in text.split("\n\n") if "-m pip install" in step)
    assert "source=requirements-large.txt,target=/tmp/aml-train/requirements-large.txt" in large
    assert "source=requirements.txt," not in large  # a change of it would make the layer anew
    options = ["--require-hashes", "--no-deps", "--requirement=/tmp/aml-train/requirements-large.txt"]
    assert large.replace("\\\n", " ").split()[-3:] == options
    assert "--requirement=/tmp/aml-train/requirements.txt" in whole
    assert "--no-deps" not in whole


@pytest.mark.parametrize(
    "changes",
    [
        {"env": {"A": "1\n2"}},
        {"pip": PipConfig(packages=("a\nRUN evil",))},
        {"apt": ("a\0",)},
        {"run": (RunStep(command="a\rb"),)},
    ],
)
def test_what_a_dockerfile_cannot_carry(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="has a line break or NUL"):
        render_dockerfile(replace(SMALL, **changes), base="x:1")


@given(st.text(max_size=30).filter(lambda text: not set(text) & set("\r\n\0")))
def test_a_quoted_word_is_one_word(text: str) -> None:
    import shlex

    if "'" in text:  # shlex keeps the backslash before ` and $ in double quotes, which the shell takes
        text = text.replace("`", "").replace("$", "")
    assert shlex.split(quote(text)) == [text]


def test_secrets_are_mounted_where_they_are_used_and_nowhere_else() -> None:
    text = plan().dockerfile
    pip = [step for step in text.split("\n\n") if "-m pip install" in step]
    assert 'PIP_INDEX_URL="https://build:$(cat /run/secrets/token)@pypi.example.com/simple"' in text
    assert '"https://pypi.org/simple https://$(cat /run/secrets/other)@b.example.com/\\$x"' in text
    assert all("--mount=type=secret,id=logins,target=/root/.netrc,required=true" in step for step in pip)
    assert len(pip) == 3
    rest = [step for step in text.split("\n\n") if step not in pip and "fetch" not in step]
    assert "secret" not in "".join(rest)


def test_refresh_is_in_the_commands_that_install() -> None:
    with_it = plan().dockerfile
    without = plan(inputs=replace(INPUTS, refreshed=None)).dockerfile
    assert with_it.count(': "installed since 2026-11-16T00:00Z" && \\') == 5
    assert with_it.replace('    : "installed since 2026-11-16T00:00Z" && \\\n', "") == without


def test_a_file_is_copied_under_its_new_name_and_a_folder_as_its_contents() -> None:
    entry = FileEntry(path="a.txt", executable=False, size=0, link="b")
    config = replace(
        SMALL,
        copy=(CopyConfig(source=Path("/p/a.txt"), target="/x/b.txt"), CopyConfig(source=Path("/p/d"), target="/y")),
    )
    trees = {
        "copy/0": FileSet(root=Path("/p"), entries=(entry,)),
        "copy/1": FileSet(root=Path("/p/d"), entries=(entry,)),
    }
    text = render_dockerfile(config, base="x:1", inputs=ImageInputs(trees=trees))
    assert 'COPY ["copy/0/a.txt", "/x/b.txt"]\n\nCOPY ["copy/1/", "/y/"]\n' in text


def test_nothing_is_compared_where_nothing_changes() -> None:
    inputs = ImageInputs(files={"protect.py": b""})
    assert "protect.py" not in plan(SMALL, inputs=inputs).dockerfile
    assert "protect.py" not in plan(replace(SMALL, env={"A": "b"}), inputs=inputs).dockerfile
    assert "protect.py" in plan(replace(SMALL, apt=("git",)), inputs=inputs).dockerfile


def test_the_tarball_is_checked_and_leaves_with_its_layer() -> None:
    text = plan(replace(FULL, ofed=OFED["mirror"])).dockerfile
    [step] = [step for step in text.split("\n\n") if "mlnxofedinstall" in step]
    assert "--user-space-only --without-fw-update --all --without-neohost-backend --force" in step
    assert (
        step.index("1" * 64)
        < step.index("tar --extract")
        < step.index("mlnxofedinstall")
        < step.index("rm -rf /tmp/aml-train")
    )
    assert "--proto =http,https" in step
    assert "--proto =https " in plan().dockerfile


def test_the_repository_is_trusted_by_the_pinned_key_alone() -> None:
    text = plan(replace(FULL, ofed=OFED["doca"])).dockerfile
    assert "--export --output /usr/share/keyrings/aml-train-doca.gpg 70454E6BF5D9C2D3B78709E8DC726C5E41B9CC50" in text
    assert (
        "signed-by=/usr/share/keyrings/aml-train-doca.gpg] https://linux.mellanox.com/public/repo/doca/2.9.1/ubuntu22.04/x86_64/ ./"
        in text
    )
    assert "doca-ofed-userspace" in text


def test_the_package_is_checked_unpacked_and_leaves_with_its_layer() -> None:
    text = plan(replace(FULL, ofed=OFED["package"])).dockerfile
    [step] = [step for step in text.split("\n\n") if "doca-ofed-userspace" in step]
    order = [
        "https://www.mellanox.com/downloads/DOCA/DOCA_v3.2.1/host/doca-host_3.2.1-044000-25.10-ubuntu2404_amd64.deb",
        "f16f08572b3b2f513b80af66c881c6a60c19e74f0da50afafaa42b0c34116533",
        "dpkg-deb --extract /tmp/aml-train/doca.deb",
        'echo "deb [trusted=yes] file:${list%/*} ./"',
        "Pin: release l=DOCA-HOST*",
        "doca-ofed-userspace",
        "rm -rf /etc/apt/sources.list.d/aml-train-doca.list /etc/apt/preferences.d/aml-train-doca /tmp/aml-train",
    ]
    positions = [step.index(part) for part in order]
    assert positions == sorted(positions)
    assert "--proto =https " in step
    assert "dpkg --install" not in step


def test_nothing_is_installed_where_auto_finds_drivers() -> None:
    config = replace(FULL, ofed=OfedConfig(source="auto"))
    found = plan(config, inputs=replace(INPUTS, drivers="rdma-core 56.0 (RDMACORE_VERSION)"))
    assert "ibverbs-providers" not in found.dockerfile
    assert (found.checks.infiniband, found.checks.installs_ofed) == (True, False)
    none = plan(config)
    assert "ibverbs-providers" in none.dockerfile
    assert (none.checks.infiniband, none.checks.installs_ofed) == (True, True)
    assert none.address != found.address
