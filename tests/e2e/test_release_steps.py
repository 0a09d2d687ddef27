"""The steps of a release that need no engine: package, registry, index, verification, commit and tags."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from scripts.release.__main__ import main
from scripts.release.bases import look_up
from scripts.release.commands import ReleaseError
from scripts.release.commit import commit_release, push_release
from scripts.release.distributions import build_distributions
from scripts.release.layout import write_layout
from scripts.release.record import Image, Record
from scripts.release.sources import export
from tests.e2e.released import REPOSITORY, VERSION, flip_byte, git, make_repository, serve_index
from tests.support.registry_process import serve_registry
from tests.support.saved_images import layer, write_saved

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build whose package is real, and whose images have one small layer."""
    folder = tmp_path_factory.mktemp("built") / "release"
    folder.mkdir()
    sources = export(repository, "HEAD", REPOSITORY, tmp_path_factory.mktemp("sources"), version=VERSION)
    images = []
    for name, suffix in (("action", ""), ("emulator", "-emulator")):
        saved = tmp_path_factory.mktemp("saved") / "image"
        write_saved(saved, [layer({"name": name})])
        path = f"octo/train{suffix}"
        layout = write_layout(
            saved, folder / f"{name}.oci.tar", epoch=sources.epoch, base_layers=(), name=f"{path}:{VERSION}"
        )
        (folder / f"{name}.spdx.json").write_text('{"packages": []}')
        images.append(
            Image(
                name=name,
                repository=path,
                digest=layout.digest,
                config=layout.blobs[0].digest,
                archive=f"{name}.oci.tar",
                sbom=f"{name}.spdx.json",
                bases={},
            )
        )
    record = Record(
        repository=REPOSITORY,
        version=VERSION,
        commit=sources.commit,
        epoch=sources.epoch,
        images=tuple(images),
        distributions=build_distributions(sources, folder),
    )
    record.write(folder)
    return folder


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    with serve_registry(tmp_path) as port:
        yield f"127.0.0.1:{port}"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("UV_PUBLISH_USERNAME", "test")
    monkeypatch.setenv("UV_PUBLISH_PASSWORD", "test")
    with serve_index(tmp_path / "index") as address:
        yield address


def release(command: str, folder: Path, *args: str) -> int:
    return main([command, "--output", str(folder), *args])


def test_what_is_published_is_verified_byte_for_byte(
    built: Path, registry: str, index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ("--registry", registry, "--index", f"{index}simple")
    assert release("verify", built, *places) == 1
    assert "Publish it: python -m scripts.release publish" in capsys.readouterr().err
    assert release("publish", built, "--registry", registry, "--index", index) == 0
    assert release("publish", built, "--registry", registry) == 0, "the same images again change nothing"
    assert release("verify", built, *places) == 0
    said = capsys.readouterr().out
    assert said.count("is the build, byte for byte") == 4

    record = Record.read(built)
    image = record.image("emulator")
    assert look_up(f"{registry}/octo/train-emulator:{VERSION}", os.environ) == image.digest
    with pytest.raises(ReleaseError, match=r"octo/train-emulator:9 is not in the registry"):
        look_up(f"{registry}/octo/train-emulator:9", os.environ)

    blob = image.config.removeprefix("sha256:")
    stored = tmp_path / f"data/docker/registry/v2/blobs/sha256/{blob[:2]}/{blob}/data"
    flip_byte(stored)
    assert release("verify", built, "--registry", registry) == 1
    assert f"octo/train-emulator@{image.digest} is damaged" in capsys.readouterr().err
    flip_byte(stored)
    assert release("verify", built, "--registry", registry) == 0

    flip_byte(tmp_path / "index" / record.wheel.file)
    assert release("verify", built, "--index", f"{index}simple") == 1
    assert f"has another {record.wheel.file}" in capsys.readouterr().err


def test_a_version_that_is_published_is_never_replaced(
    built: Path, registry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release("publish", built, "--registry", registry) == 0
    other = tmp_path / "other"
    other.mkdir()
    write_saved(tmp_path / "saved", [layer({"name": "another build"})])
    layout = write_layout(tmp_path / "saved", other / "action.oci.tar", epoch=1, base_layers=(), name="x:1")
    record = Record.read(built)
    image = replace(record.image("action"), digest=layout.digest, config=layout.blobs[0].digest)
    replace(record, images=(image,)).write(other)
    assert release("publish", other, "--registry", registry) == 1
    assert "Release another version" in capsys.readouterr().err


def test_the_release_commit_names_image_and_action_by_digest_and_commit(repository: Path, built: Path) -> None:
    record = Record.read(built)
    before = git(repository, "rev-parse", "HEAD"), git(repository, "status", "--porcelain")
    made = commit_release(repository, record, "ghcr.io")
    assert commit_release(repository, record, "ghcr.io") == made, "the same build makes the same commits"
    assert (git(repository, "rev-parse", "HEAD"), git(repository, "status", "--porcelain")) == before

    assert git(repository, "rev-parse", f"v{VERSION}") == git(repository, "rev-parse", "v1") == made.release
    assert git(repository, "rev-parse", "v1~1", "v1~2").split() == [made.action, record.commit]
    action = yaml.safe_load(git(repository, "show", "v1:action.yml"))
    assert action["runs"]["image"] == f"docker://ghcr.io/octo/train@{record.image('action').digest}"
    for name in ("train", "promote"):
        workflow = yaml.safe_load(git(repository, "show", f"v1:.github/workflows/{name}.yml"))
        uses = [step.get("uses", "") for step in workflow["jobs"][name]["steps"]]
        assert f"{REPOSITORY}@{made.action}" in uses
    assert git(repository, "show", f"{made.action}:action.yml") == git(repository, "show", "v1:action.yml")
    assert 'REPOSITORY: Final[str] = "Octo/Train"' in git(repository, "show", "v1:runner/aml_train/core/version.py")
    modes = git(repository, "ls-tree", "-r", "--format=%(objectmode) %(path)", "v1")
    assert modes == git(repository, "ls-tree", "-r", "--format=%(objectmode) %(path)", record.commit)


def test_both_tags_are_pushed_and_a_versions_tag_never_moves(repository: Path, built: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", str(remote))
    record = Record.read(built)
    made = commit_release(repository, record, "ghcr.io")
    push_release(repository, str(remote), made)
    push_release(repository, str(remote), made)
    assert git(remote, "rev-parse", "v1", f"v{VERSION}").split() == [made.release] * 2

    with pytest.raises(ReleaseError, match=rf"The tag v{VERSION} names {made.release} already"):
        commit_release(repository, record, "elsewhere.example")
    git(repository, "tag", "--force", f"v{VERSION}", record.commit)
    git(repository, "tag", "--force", "v1", record.commit)
    with pytest.raises(ReleaseError, match="git push --atomic failed"):
        push_release(repository, str(remote), made)
    assert git(remote, "rev-parse", "v1", f"v{VERSION}").split() == [made.release] * 2
    git(repository, "tag", "--force", f"v{VERSION}", made.release)
