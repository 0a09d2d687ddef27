from __future__ import annotations

import datetime
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aml_train.config.sections.image import CopyConfig, DockerfileConfig, ImageConfig
from aml_train.config.sections.image_ofed import OfedConfig
from aml_train.config.sections.image_packages import CondaConfig, PipConfig
from aml_train.core.errors import InvalidError
from aml_train.core.references import ImageRef
from aml_train.image.collect import (
    collect_context,
    collect_inputs,
)
from aml_train.image.inputs import BaseImage, ImageInputs
from aml_train.image.project_files import requirement_files
from aml_train.image.spec import plan_image

NOW = datetime.datetime(2026, 11, 21, 12, 30, tzinfo=datetime.UTC)
PEM = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"


def resolve(reference: ImageRef, _platform: str) -> BaseImage:
    return BaseImage(reference=reference, digest="sha256:" + reference.repository[-1].encode().hex()[:2] * 32)


def collect(project: Path, **values: Any) -> tuple[BaseImage, ImageInputs]:
    values = {
        "repository": "r",
        "where": "f:1",
        **({} if "dockerfile" in values else {"base": ImageRef.parse("python:3.11")}),
        **values,
    }
    return collect_inputs(
        ImageConfig(**values),
        project=project,
        platform="linux/amd64",
        bases=cast("Any", SimpleNamespace(resolve=resolve, distribution=lambda *_: "ubuntu22.04")),
        now=NOW,
    )


def write(folder: Path, **files: str | bytes) -> None:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_everything_that_a_build_needs(tmp_path: Path) -> None:
    write(
        tmp_path,
        r_DOT_txt="numpy\n",
        c_DOT_txt="numpy<3\n",
        e_DOT_yml="dependencies: []\n",
        my_DOT_pem=PEM,
        data__a="1",
        data___DOT_env="S=1",
    )
    base, inputs = collect(
        tmp_path,
        pip=PipConfig(requirements=tmp_path / "r.txt", constraints=tmp_path / "c.txt"),
        conda=CondaConfig(file=tmp_path / "e.yml"),
        ca_certificates=(tmp_path / "my.pem",),
        copy=(CopyConfig(source=tmp_path / "data", target="/d"), CopyConfig(source=tmp_path / "r.txt", target="/r")),
        ofed=OfedConfig(source="mlnx_ofed", version="1"),
        refresh=7 * 86400.0,
    )
    assert base.pinned.startswith("python@sha256:")
    assert sorted(inputs.files) == [
        "ca-certificates/0-my.crt",
        "constraints.txt",
        "environment.yml",
        "protect.py",
        "requirements.txt",
    ]
    assert [entry.path for entry in inputs.trees["copy/0"].entries] == ["a"]
    assert [entry.path for entry in inputs.trees["copy/1"].entries] == ["r.txt"]
    assert (inputs.os, inputs.requirements) == ("ubuntu22.04", "requirements.txt")
    assert inputs.micromamba is not None
    assert inputs.micromamba.startswith("mambaorg/micromamba@sha256:")
    assert inputs.refreshed == "2026-11-19T00:00Z"


def test_included_requirements_come_along(tmp_path: Path) -> None:
    write(
        tmp_path,
        reqs__train_DOT_txt="-r../base.txt\n-cc.txt\n-r https://x/y.txt\n",
        base_DOT_txt="-r reqs/train.txt\na\n",
        reqs__c_DOT_txt="",
    )
    name, files, _ = requirement_files(tmp_path / "reqs/train.txt", tmp_path)
    assert name == "requirements/reqs/train.txt"
    assert sorted(files) == ["requirements/base.txt", "requirements/reqs/c.txt", "requirements/reqs/train.txt"]


def test_large_packages_that_are_required_have_a_file_of_their_own(tmp_path: Path) -> None:
    write(
        tmp_path,
        r_DOT_txt="-r more.txt\n-c limits.txt\nnumpy==2.3.0\nsix==1.17.0\n",
        more_DOT_txt="torch==2.9.0\n",
        limits_DOT_txt="scipy==1.16.0\n",
    )
    name, files, _ = requirement_files(tmp_path / "r.txt", tmp_path)
    assert name == "requirements/r.txt"
    assert files["requirements-large.txt"] == b"numpy==2.3.0\ntorch==2.9.0\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-r ../../out.txt", r"r\.txt:2: `../../out.txt` is outside the project"),
        ("-r missing.txt", r"\.txt:2: there is no `missing\.txt`"),
        ("-rmissing.txt", r"\.txt:2: there is no `missing\.txt`"),
        *(
            (line, rf"r\.txt:2: `{re.escape(line)}` is a file of the project: only the requirements are in the build")
            for line in (
                ".",
                "-e .",
                "./dist/a-1-py3-none-any.whl",
                "wheels/a-1-py3-none-any.whl",
                "a-1.tar.gz",
                "a @ file:///wheels/a-1.tar.gz",
                "file:a-1.tar.gz",
                "-f wheels",
                "--find-links=wheels",
                "--index-url file:///index",
            )
        ),
        ("a b c", r"r\.txt:2: pip cannot read `a b c`"),
    ],
)
def test_requirements_that_the_build_would_not_find(line: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, r_DOT_txt=f"a\n{line}\n")
    with pytest.raises(InvalidError, match=message):
        requirement_files(tmp_path / "r.txt", tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "-e git+https://github.com/a/b#egg=b",
        "a @ https://e.test/a-1.tar.gz",
        "https://${TOKEN}@e.test/a-1-py3-none-any.whl",
        "-f https://e.test/links",
        "-r https://e.test/more.txt",
        "a[b]>=1 ; python_version < '3.12' --hash=sha256:aa",
        "a==1 --config-settings x=y",
        "--extra-index-url https://e.test/simple",
    ],
)
def test_what_pip_finds_by_itself_is_left_to_it(line: str, tmp_path: Path) -> None:
    write(tmp_path, r_DOT_txt=f"a\n{line}\n")
    _, files, _ = requirement_files(tmp_path / "r.txt", tmp_path)
    assert line.encode() in files["requirements.txt"].splitlines()


@pytest.mark.parametrize(
    ("pip", "message"),
    [
        ("-r requirements.txt", r"e\.yml:5: `-r requirements.txt` names a file"),
        ("-e .", r"e\.yml:5: `-e \.` is a file of the project"),
        ("--find-links wheels", r"e\.yml:5: `--find-links wheels` is a file of the project"),
    ],
)
def test_files_that_a_conda_file_names_are_refused(pip: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, e_DOT_yml=f"dependencies:\n  - python=3.11\n  - pip:\n    - a\n    - {pip}\n")
    with pytest.raises(InvalidError, match=message):
        collect(tmp_path, conda=CondaConfig(file=tmp_path / "e.yml"))


def test_indexes_of_a_conda_file_stay(tmp_path: Path) -> None:
    text = "dependencies:\n- pip:\n  - --extra-index-url https://e.test/simple\n  - a==1\n"
    write(tmp_path, e_DOT_yml=text)
    _, inputs = collect(tmp_path, conda=CondaConfig(file=tmp_path / "e.yml"))
    assert inputs.files["environment.yml"] == text.encode()


def test_all_faults_of_the_files_are_reported_at_once(tmp_path: Path) -> None:
    write(tmp_path, r_DOT_txt="-r none.txt\n-e .\n-r more.txt\n", more_DOT_txt=".\n", c_DOT_pem="x", id_rsa="x")
    with pytest.raises(InvalidError) as raised:
        collect(
            tmp_path,
            pip=PipConfig(requirements=tmp_path / "r.txt"),
            ca_certificates=(tmp_path / "c.pem",),
            copy=(CopyConfig(source=tmp_path / "id_rsa", target="/k"),),
            ofed=OfedConfig(source="doca", version="2.5.0", os="ubuntu22.04", where="f:2"),
        )
    assert [fault.where for fault in raised.value.faults] == [
        "r.txt:1",
        "r.txt:2",
        "more.txt:1",
        str(tmp_path / "c.pem"),
        str(tmp_path / "id_rsa"),
        "f:2",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x30\x82", "has no `-----BEGIN CERTIFICATE"),
        (PEM + b"-----BEGIN PRIVATE KEY-----", "has a private key in it: everybody"),
    ],
)
def test_what_is_no_certificate(content: bytes, message: str, tmp_path: Path) -> None:
    write(tmp_path, a_DOT_pem=content)
    with pytest.raises(InvalidError, match=message):
        collect(tmp_path, ca_certificates=(tmp_path / "a.pem",))


def test_a_secret_is_not_copied(tmp_path: Path) -> None:
    write(tmp_path, id_rsa="x")
    with pytest.raises(
        InvalidError,
        match="is a secret, by its name or because `secrets` names it: everybody can read it in an image",
    ):
        collect(tmp_path, copy=(CopyConfig(source=tmp_path / "id_rsa", target="/x"),))


def test_the_context_of_ones_own_dockerfile(tmp_path: Path) -> None:
    write(
        tmp_path,
        Dockerfile="FROM python:3.11\nCOPY . /x\n",
        _DOT_dockerignore="*\n!keep\n!src/*.py\n# c\n",
        keep="1",
        drop="2",
        src__a_DOT_py="",
        src__b_DOT_txt="",
    )
    write(tmp_path / ".git", HEAD="x")
    (tmp_path / "keep").chmod(0o755)
    config = DockerfileConfig(file=tmp_path / "Dockerfile", context=tmp_path, args={"A": "b"})
    files = collect_context(config)
    assert [(entry.path, entry.executable) for entry in files.entries] == [
        (".dockerignore", False),
        ("keep", True),
        ("src/a.py", False),
    ]

    base, inputs = collect(tmp_path, dockerfile=config)
    assert inputs.own is not None
    assert inputs.own.text == f"FROM {base.pinned}\nCOPY . /x\n"
    spec = plan_image(ImageConfig(dockerfile=config, repository="r", where="f:1"), base, inputs, "linux/amd64")
    assert (spec.build_args, spec.target, spec.protect is not None) == ({"A": "b"}, None, True)
    write(tmp_path, keep="2")
    again = plan_image(
        ImageConfig(dockerfile=config, repository="r", where="f:1"),
        base,
        collect(tmp_path, dockerfile=config)[1],
        "linux/amd64",
    )
    assert again.address != spec.address
    write(tmp_path, keep="1", drop="3")
    same = plan_image(
        ImageConfig(dockerfile=config, repository="r", where="f:1"),
        base,
        collect(tmp_path, dockerfile=config)[1],
        "linux/amd64",
    )
    assert same.address == spec.address


@pytest.mark.parametrize(
    ("ignored", "sent"),
    [
        ("", ["Dockerfile", "a/x.py"]),
        ("*\n!a\n!x.pem\n", ["a/x.py", "x.pem"]),
        ("!**/*.pem\n", ["Dockerfile", "a/x.py", "a/y.pem", "x.pem"]),
    ],
)
def test_secrets_are_in_no_context_unless_the_ignore_file_names_them(
    ignored: str, sent: list[str], tmp_path: Path
) -> None:
    for name in ("Dockerfile", "a/x.py", "x.pem", "a/y.pem", "a/.env", "a/.docker/config.json", "gha-creds-1f.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("FROM x")
    (tmp_path / "Dockerfile.dockerignore").write_text(f"{ignored}*.dockerignore\n")
    files = collect_context(DockerfileConfig(file=tmp_path / "Dockerfile", context=tmp_path))
    assert [entry.path for entry in files.entries] == sent
    assert "a/.env" in files.secrets


def _address(project: Path, **values: Any) -> str:
    config = ImageConfig(**{"repository": "r", "where": "f:1", **values})
    base, inputs = collect(project, **values)
    return plan_image(config, base, inputs, "linux/amd64").address


def test_the_build_gets_the_very_bytes_that_the_address_covers(tmp_path: Path) -> None:
    write(tmp_path, r_DOT_txt="b # 1\na\n", c_DOT_txt="# c\nx<3\n")
    _, inputs = collect(tmp_path, pip=PipConfig(requirements=tmp_path / "r.txt", constraints=tmp_path / "c.txt"))
    assert (inputs.files["requirements.txt"], inputs.files["constraints.txt"]) == (b"a\nb\n", b"x<3\n")


@pytest.mark.parametrize("name", [".dockerignore", "Dockerfile.dockerignore"])
def test_comments_of_an_ignore_file_change_no_address_and_are_not_in_the_context(name: str, tmp_path: Path) -> None:
    write(tmp_path, Dockerfile="FROM python:3.11\nCOPY . /x\n", keep="1", drop="2")
    config = DockerfileConfig(file=tmp_path / "Dockerfile", context=tmp_path)
    (tmp_path / name).write_text("drop\n")
    first = _address(tmp_path, dockerfile=config)
    (tmp_path / name).write_bytes(b"# what the build does not need\r\n\r\ndrop\r\n")
    assert _address(tmp_path, dockerfile=config) == first
    _, inputs = collect(tmp_path, dockerfile=config)
    assert inputs.files == {name: b"drop\n"}
    assert [entry.path for entry in inputs.trees[""].entries] == ["Dockerfile", "keep"]
    (tmp_path / name).write_text("keep\n")
    assert _address(tmp_path, dockerfile=config) != first


def test_unknown_distribution_needs_to_be_given(tmp_path: Path) -> None:
    config = ImageConfig(
        base=ImageRef.parse("a"),
        ofed=OfedConfig(source="doca", version="2.9.1", where="f:3"),
        repository="r",
        where="f:1",
    )
    with pytest.raises(InvalidError, match=r"f:3: `image\.ofed\.os` is missing: the base is not looked at; give it"):
        collect_inputs(config, project=tmp_path, platform="linux/amd64", bases=None, now=NOW)


def test_auto_asks_for_the_drivers_of_the_base(tmp_path: Path) -> None:
    def drivers(base: BaseImage, platform: str) -> str:
        return f"drivers of {base.reference.familiar} for {platform}"

    _, inputs = collect_inputs(
        ImageConfig(base=ImageRef.parse("a"), ofed=OfedConfig(source="auto"), repository="r", where="f:1"),
        project=tmp_path,
        platform="linux/amd64",
        bases=cast("Any", SimpleNamespace(resolve=resolve, drivers=drivers)),
        now=NOW,
    )
    assert inputs.drivers == "drivers of a:latest for linux/amd64"
