"""The command of a builder of buildx, and the digest that it reports."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError, InvalidError
from aml_train.image.builders.engine import BuildxBuilder, push_command, pushed_digest
from tests.support.image_configs import plan

DIGEST = "sha256:" + "a" * 64
CLI = BuildCli(path="docker", buildx=True, environ={})


@pytest.mark.parametrize(
    ("name", "output"), [("r.test/x:t", "type=image,name=r.test/x:t,push=true"), (None, "type=cacheonly")]
)
def test_what_is_named_is_pushed(name: str | None, output: str) -> None:
    assert push_command(CLI, "big", Path("/f"), name) == [
        *("docker", "buildx", "build", "--builder=big", "--provenance=false"),
        *(f"--output={output}", "--metadata-file=/f/metadata.json"),
    ]


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        (f'{{"containerimage.digest": "{DIGEST}"}}', DIGEST),
        ("{}", ""),
        ("[]", ""),
        ("not JSON", ""),
        (None, ""),
        ('{"containerimage.digest": "latest"}', ""),
    ],
)
def test_the_digest_of_the_metadata_file(tmp_path: Path, text: str | None, digest: str) -> None:
    if text is not None:
        (tmp_path / "metadata.json").write_text(text)
    assert pushed_digest(tmp_path) == digest


def refused(*, local_only: bool, buildx: bool) -> Exception:
    spec = plan()
    reference = spec.base.reference
    base = SimpleNamespace(local_only=local_only, reference=reference)
    ctx = cast("Any", SimpleNamespace(spec=SimpleNamespace(base=base)))
    cli = BuildCli(path="docker", buildx=buildx, environ={})
    with pytest.raises((ImageError, InvalidError)) as caught:
        BuildxBuilder(lambda: cli, "big", where="aml-train.yml:4").build(
            ctx, cast("Any", SimpleNamespace(name="x", tag="t")), 0.0, force=False
        )
    return caught.value


def test_a_base_of_this_machine_alone_cannot_be_built_on() -> None:
    error = refused(local_only=True, buildx=True)
    assert isinstance(error, InvalidError)
    assert str(error).startswith("aml-train.yml:4: the base ")
    assert "push the base to a registry" in str(error)


def test_without_the_plugin_it_is_named() -> None:
    error = refused(local_only=False, buildx=False)
    assert isinstance(error, ImageError)
    assert "the builder big needs the buildx plugin" in str(error)
