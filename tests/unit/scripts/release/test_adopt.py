"""The project under the name of another repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.release.adopt import Adoption, adopted_files
from scripts.release.commands import ReleaseError, run
from scripts.release.sources import PLACEHOLDER, SETTING, own_name

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def contents() -> dict[str, bytes]:
    paths = run(["git", "ls-files", "-z"], cwd=ROOT).decode().split("\0")
    return {path: (ROOT / path).read_bytes() for path in paths if path and (ROOT / path).is_file()}


def test_every_place_gets_the_repositorys_name(contents: dict[str, bytes]) -> None:
    before = own_name(contents[SETTING].decode())
    files = contents | adopted_files(contents, Adoption(repository="Octo/Train", version="1.2.3"))
    assert [path for path, content in files.items() if before.encode() in content] == []
    assert b"uses: Octo/Train@v1\n" in files["README.md"]
    assert b'__version__ = "1.2.3"' in files[SETTING]
    assert b'REPOSITORY: Final[str] = "Octo/Train"' in files[SETTING]
    assert b'pip install "aml-train @ git+https://github.com/Octo/Train@v1"' in files["docs/tutorial.md"]


def test_a_second_adoption_replaces_the_first(contents: dict[str, bytes]) -> None:
    first = contents | adopted_files(contents, Adoption(repository="Octo/Train", version="1.0.0"))
    second = adopted_files(first, Adoption(repository="other/aml-train", version="1.0.1", package="other-train"))
    assert b"pip install other-train " in second["docs/tutorial.md"]
    assert b"pip install 'other-train[azure-v1]'" in second["docs/sdk-v1.md"]
    assert b"uses: other/aml-train@v1\n" in second["README.md"]
    assert b"Octo/Train" not in second["README.md"]


def test_a_version_before_the_first_moves_its_own_tag(contents: dict[str, bytes]) -> None:
    files = contents | adopted_files(
        contents, Adoption(repository="octo/train", version="0.3.0", package="octo-train")
    )
    assert b"uses: octo/train@v0\n" in files["README.md"]
    assert b'MAJOR: Final = "v0"' in files[SETTING]
    assert b'name = "octo-train"' in files["pyproject.toml"]
    assert b"pip install octo-train" in files["docs/tutorial.md"]


@pytest.mark.parametrize(
    ("repository", "version"), [("octo", "1.0.0"), (PLACEHOLDER, "1.0.0"), ("octo/train", "1.0")]
)
def test_what_cannot_be_released_is_refused(contents: dict[str, bytes], repository: str, version: str) -> None:
    with pytest.raises(ReleaseError):
        adopted_files(contents, Adoption(repository=repository, version=version))
