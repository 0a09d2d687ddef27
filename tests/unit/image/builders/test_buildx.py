"""The command of a builder of buildx, and the digest that it reports."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError, InvalidError
from aml_train.image.build.build import BuildOptions
from aml_train.image.build_secrets import BuildSecrets
from aml_train.image.builders.engine import BuildxBuilder, push_argv, pushed_digest
from tests.support.image_configs import plan

DIGEST = "sha256:" + "a" * 64
CLI = BuildCli(path="docker", buildx=True, environ={})


def test_the_command_pushes_and_names_no_secret() -> None:
    options = BuildOptions(
        build_args={"B": "2", "A": "1"},
        target="t",
        no_cache=True,
        secrets=BuildSecrets(options=("id=s,env=S",), values=("hidden",)),
    )
    argv = push_argv(CLI, "big", Path("/f"), name="r.test/x:t", platform="linux/amd64", options=options)
    assert argv == [
        *[
            "docker",
            "buildx",
            "build",
            "--builder=big",
            "--provenance=false",
            "--output=type=image,name=r.test/x:t,push=true",
        ],
        *["--progress=plain", "--platform=linux/amd64", "--metadata-file=/f/metadata.json", "--file=/f/Dockerfile"],
        *["--secret=id=s,env=S", "--build-arg=A=1", "--build-arg=B=2", "--target=t", "--no-cache", "/f/context"],
    ]


def test_a_check_is_built_and_pushed_nowhere() -> None:
    argv = push_argv(CLI, "big", Path("/f"), name=None, platform="linux/amd64", options=BuildOptions())
    assert "--output=type=cacheonly" in argv
    assert not any("push" in word for word in argv)


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
    ctx = cast("Any", SimpleNamespace(cli=lambda: BuildCli(path="docker", buildx=buildx, environ={})))
    ctx.spec = SimpleNamespace(base=base)
    with pytest.raises((ImageError, InvalidError)) as caught:
        BuildxBuilder("big", where="aml-train.yml:4").build(
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
