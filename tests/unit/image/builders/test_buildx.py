"""The command of a builder of buildx, and the digest that it reports."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.image.builders.engine import BuildxBuilder, push_command, pushed_digest

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


def test_without_the_plugin_it_is_named() -> None:
    cli = BuildCli(path="docker", buildx=False, environ={})
    builder = BuildxBuilder(lambda: cli, "big", where="aml-train.yml:4")
    with pytest.raises(ImageError, match=r"aml-train\.yml:4: the builder big needs the buildx plugin"):
        builder.build(cast("Any", None), cast("Any", SimpleNamespace(name="x", tag="t")), 0.0, force=False)
