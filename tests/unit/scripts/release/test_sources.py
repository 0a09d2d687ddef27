"""The repository's name in the sources, bases by digest, and the record of a build."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.release.bases import find_bases, pin_bases
from scripts.release.commands import ReleaseError
from scripts.release.commit import pin_workflows, release_files
from scripts.release.distributions import find_links
from scripts.release.images import RECIPES
from scripts.release.record import Distribution, Image, Record
from scripts.release.sources import PLACEHOLDER, SETTING, check_repository, check_version, own_name, rename

ROOT = Path(__file__).parents[4]
FILES = {
    path: (ROOT / path).read_bytes()
    for path in (
        SETTING,
        "action.yml",
        "Dockerfile",
        "runner/aml_emulator/Dockerfile",
        "README.md",
        "docs/emulator.md",
    )
} | {str(file.relative_to(ROOT)): file.read_bytes() for file in (ROOT / ".github/workflows").glob("*.yml")}
DIGEST = "sha256:" + "a" * 64


def record(**changes: object) -> Record:
    image = Image(
        name="action",
        repository="octo/train",
        digest=DIGEST,
        config="sha256:" + "b" * 64,
        archive="action.oci.tar",
        sbom="action.spdx.json",
        bases={"python:3.11-slim-bookworm": DIGEST},
    )
    values: dict[str, object] = {
        "repository": "Octo/Train",
        "version": "1.2.3",
        "commit": "c" * 40,
        "epoch": 1_700_000_000,
        "images": (image,),
        "distributions": (Distribution(file="aml_train-1.2.3-py3-none-any.whl", sha256="d" * 64),),
    }
    return Record(**{**values, **changes})  # type: ignore[arg-type]


def test_the_name_replaces_the_placeholder_everywhere() -> None:
    changed = rename(FILES, "Octo/Train")
    assert b'REPOSITORY: Final[str] = "Octo/Train"' in changed[SETTING]
    assert b"https://github.com/Octo/Train" in changed["Dockerfile"]
    assert b"ghcr.io/octo/train-emulator:" in changed["docs/emulator.md"]
    assert b"uses: Octo/Train@v1" in changed[".github/workflows/train.yml"]
    for path, content in {**FILES, **changed}.items():
        assert own_name(FILES[SETTING].decode()).encode() not in content, path
    assert "action.yml" not in changed


def test_sources_without_the_setting_are_refused() -> None:
    with pytest.raises(ReleaseError, match=r"version\.py has 0 lines that set REPOSITORY"):
        rename({SETTING: b"nothing\n"}, "octo/train")


@pytest.mark.parametrize("name", ["octo", "octo/", "/train", "octo/tr ain", "-o/t", "a/b/c", PLACEHOLDER])
def test_what_is_no_repository_is_refused(name: str) -> None:
    with pytest.raises(ReleaseError, match="is not OWNER/NAME"):
        check_repository(name)
    check_repository("octo/train.x-y_z")


@pytest.mark.parametrize(
    ("version", "wanted", "problem"),
    [
        ("1.2.3", "1.2.3", None),
        ("1.2.3", None, None),
        ("1.2", None, "three numbers"),
        ("1.2.3rc1", None, "three numbers"),
        ("1.2.3", "1.2.4", r"asks for 1\.2\.4, and __version__ of the commit is 1\.2\.3"),
        ("2.0.0", None, r"MAJOR = 'v1', and the version 2\.0\.0 moves v2"),
    ],
)
def test_the_version_agrees_with_tag_and_setting(version: str, wanted: str | None, problem: str | None) -> None:
    setting = FILES[SETTING].decode()
    if problem is None:
        check_version(version, setting, wanted=wanted)
    else:
        with pytest.raises(ReleaseError, match=problem):
            check_version(version, setting, wanted=wanted)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_base_of_a_dockerfile_is_pinned(recipe: object) -> None:
    text = FILES[recipe.dockerfile].decode()  # type: ignore[attr-defined]
    assert find_bases(text) == ["python:3.11-slim-bookworm"]
    pinned = pin_bases(text, {"python:3.11-slim-bookworm": DIGEST})
    assert pinned.count(f"python:3.11-slim-bookworm@{DIGEST}") == text.count("FROM python:3.11-slim-bookworm") > 1
    assert find_bases(pinned) == [f"python:3.11-slim-bookworm@{DIGEST}"]


def test_stages_are_no_bases() -> None:
    text = "FROM --platform=linux/amd64 a:1 AS one\nFROM one AS two\nFROM b:2\nCOPY --from=one /x /x\n"
    assert find_bases(text) == ["a:1", "b:2"]
    assert pin_bases(text, {"a:1": DIGEST}).startswith(
        f"FROM --platform=linux/amd64 a:1@{DIGEST} AS one\nFROM one AS"
    )


def test_the_release_commit_names_the_image_by_digest() -> None:
    changed = release_files(FILES, record(), "ghcr.io")
    text = changed["action.yml"].decode()
    assert f"  using: docker\n  image: docker://ghcr.io/octo/train@{DIGEST}\n" in text
    assert text.replace(f"docker://ghcr.io/octo/train@{DIGEST}", "Dockerfile") == FILES["action.yml"].decode()
    with pytest.raises(ReleaseError, match=r"action\.yml has 0 lines"):
        release_files({**FILES, **changed}, record(), "ghcr.io")


def test_the_workflows_name_the_commit_of_their_action() -> None:
    files = {**FILES, **release_files(FILES, record(), "ghcr.io")}
    changed = pin_workflows(files, "Octo/Train", "e" * 40, "1.2.3")
    assert sorted(changed) == [f".github/workflows/{name}.yml" for name in ("promote", "report", "train")]
    for content in changed.values():
        assert content.count(f"uses: Octo/Train@{'e' * 40} # v1.2.3\n".encode()) == 1
        assert b"uses: Octo/Train@v1\n" not in content
    with pytest.raises(ReleaseError, match="No workflow"):
        pin_workflows({}, "Octo/Train", "e" * 40, "1.2.3")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "action.oci.tar").write_bytes(b"image")
    record().write(tmp_path)
    found = Record.read(tmp_path)
    assert found == record()
    assert found.wheel.file == "aml_train-1.2.3-py3-none-any.whl"
    assert found.image("action").digest == DIGEST


@pytest.mark.parametrize("change", ["byte", "added", "removed"])
def test_a_changed_build_is_refused(tmp_path: Path, change: str) -> None:
    file = tmp_path / "action.oci.tar"
    file.write_bytes(b"image")
    record().write(tmp_path)
    if change == "removed":
        file.unlink()
    else:
        (file if change == "byte" else tmp_path / "more").write_bytes(b"imagf")
    with pytest.raises(ReleaseError, match=r"is not what was built: (action\.oci\.tar|more) changed since"):
        Record.read(tmp_path)


def test_the_links_of_an_index_are_found() -> None:
    page = '<html><a href="../files/x-1.whl#sha256=ab">x</a> <a href="https://e.org/y&amp;z/x-1.tar.gz">y</a><a>n</a>'
    assert find_links(page, "https://i.org/simple/x/") == {
        "x-1.whl": "https://i.org/simple/files/x-1.whl",
        "x-1.tar.gz": "https://e.org/y&z/x-1.tar.gz",
    }
