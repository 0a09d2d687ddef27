"""Checks and tests as a build: its files, its results, and what a service is never sent."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aml_train.core.errors import ImageError, InvalidError
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.image.builders.service import ServiceBuilder
from aml_train.image.builders.verification import (
    Findings,
    _files,
    parse_findings,
    verification_dockerfile,
    verification_files,
    verification_script,
)
from aml_train.image.spec import TestSpec
from aml_train.image.testing.container import End, Reports
from aml_train.image.testing.run import Written
from tests.support.image_configs import plan

DIGEST = "sha256:" + "d" * 64


def spec_of(folder: Path, **changes: Any) -> TestSpec:
    (folder / "test_x.py").write_text("def test(): pass\n")
    return TestSpec(files=FileSet.collect(folder), **{"command": "pytest -q", **changes})


def test_the_verified_image_is_named_by_its_digest() -> None:
    text = verification_dockerfile(ImageRef.parse(f"my.azurecr.io/x@{DIGEST}"), "candidate-1")
    assert text.startswith(f'FROM my.azurecr.io/x@{DIGEST} AS verified\nLABEL aml-train-verify="candidate-1"\n')
    assert text.endswith("FROM scratch\nCOPY --from=verified /aml-train-results/ /\n")


def test_files_that_any_user_may_use(tmp_path: Path) -> None:
    content = verification_files(spec_of(tmp_path), check=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = {member.name: member for member in archive}
    assert members["workspace/test_x.py"].mode == 0o644
    folders = {name for name, member in members.items() if member.isdir()}
    assert folders > {"workspace", "aml-train-verify", "aml-train-results", "aml-train-checks"}
    assert {members[name].mode for name in folders} == {0o777}
    assert any(re.fullmatch(r"aml-train-reports-\w+/aml_train_pytest_reports\.py", name) for name in members)
    assert "aml-train-checks/probe.py" in members


def test_without_tests_there_is_only_the_probe() -> None:
    with tarfile.open(fileobj=io.BytesIO(verification_files(None, check=True))) as archive:
        assert not any(name.startswith("workspace") for name in archive.getnames())
    script = verification_script(None, None, check=True)
    assert "probe.py" in script
    assert script.endswith("exit 0\n")


def test_values_of_the_tests_are_quoted(tmp_path: Path) -> None:
    tests = spec_of(tmp_path, command="pytest 'a b' && echo $X", env={"A": "it's $(id)"}, workdir="sub dir")
    script = verification_script(tests, Reports(folder="/r", named="/workspace/a b.xml"), check=False)
    assert "export A='it'\"'\"'s $(id)'\n" in script
    assert "/bin/sh -e -c 'pytest '\"'\"'a b'\"'\"' && echo $X' </dev/null &\n" in script
    assert "cd '/workspace/sub dir' || exit 1\n" in script
    assert "rm -rf -- '/workspace/a b.xml' || exit 1\n" in script
    assert "probe.py" not in script


def test_findings() -> None:
    files = {
        "facts.json": b"{}",
        "exit": b"3\n",
        "seconds": b"7\n",
        "timed-out": b"",
        "reports/pytest-1-0.xml": b"<x/>",
        "named": b"<y/>",
    }
    assert parse_findings(files) == Findings(
        facts=b"{}", end=End(exit_code=3, seconds=7.0, timed_out=True),
        written=Written(by_pytest={"reports/pytest-1-0.xml": b"<x/>"}, named={"named": b"<y/>"}),
    )  # fmt: skip
    assert parse_findings({}) == Findings()
    with pytest.raises(ImageError, match="`exit` is '-1'"):
        parse_findings({"exit": b"-1"})


def layer(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue())


def read(content: bytes) -> dict[str, bytes]:
    registry = SimpleNamespace(get_blob=lambda *_args, **_options: content)
    return _files(cast("Any", registry), "x", cast("Any", SimpleNamespace(blobs=["config", DIGEST])))


def test_only_known_files_of_the_results_are_read() -> None:
    assert read(layer(exit=b"0", other=b"x")) == {"exit": b"0"}


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"no tar" * 200), layer(exit=b"0")[:-9]],
    ids=["none", "plain", "other", "cut"],
)
def test_damaged_results_are_an_error(content: bytes) -> None:
    with pytest.raises(ImageError, match="cannot be read"):
        read(content)


def test_tests_that_need_this_machine_are_refused(tmp_path: Path) -> None:
    service = SimpleNamespace(title="ACR Tasks of my.azurecr.io", where="aml-train.yml:4")
    ctx = cast("Any", SimpleNamespace(spec=plan(), tests=spec_of(tmp_path, keep=True)))
    builder = ServiceBuilder(cast("Any", service), login=lambda _: None, timeout=None)
    with pytest.raises(
        InvalidError, match=r"aml-train\.yml:4: the tests' container cannot be kept: it is not on this"
    ):
        builder.verify(ctx, cast("Any", None), check=True, test=True)
