from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.config.sections.image import ImageConfig, RunStep
from aml_train.config.sections.image_packages import PipConfig
from aml_train.image.dockerfile.render import quote, render_dockerfile
from aml_train.image.inputs import ImageInputs
from tests.support.image_configs import BASE, DIGEST, INPUTS, plan

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
