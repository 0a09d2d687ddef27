"""The image of the local AzureML where the engine lacks it: pulled, built, or an error with the reason."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docker import DockerClient
from docker.errors import APIError

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.core.events import Event, LogLine, Notice
from aml_train.local import image
from aml_train.local.settings import IMAGE, EmulatorSettings

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "runner/aml_emulator"


class Images:
    """Gives one answer to each pull."""

    def __init__(self, refusal: str | None) -> None:
        self.pulled: list[str] = []
        self._refusal = refusal

    def pull(self, name: str) -> None:
        self.pulled.append(name)
        if self._refusal is not None:
            raise APIError("refused", explanation=self._refusal)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Each build, with the names of the files in its context."""
    builds: list[dict[str, Any]] = []

    def build(context: Path, **options: Any) -> None:
        files = {str(path.relative_to(context)) for path in context.rglob("*") if path.is_file()}
        builds.append({**options, "files": files, "dockerfile": str(options["dockerfile"].relative_to(context))})
        options["listener"](LogLine(source="build", text="a step"))

    cli = BuildCli(path="docker", buildx=True, environ={"HTTPS_PROXY": "http://u:secret@proxy"})
    monkeypatch.setattr(image, "buildkit_cli", lambda _environ: cli)
    monkeypatch.setattr(image, "build_folder", build)
    return builds


def obtain(images: Images, name: str, *, published: bool) -> list[Event]:
    engine = SimpleNamespace(images=images, version=lambda: {"Os": "linux", "Arch": "arm64"})
    events: list[Event] = []
    client = cast("DockerClient", engine)
    image.obtain_image(client, EmulatorSettings(image=name), events.append, published=published)
    return events


@pytest.mark.parametrize(
    ("name", "published", "refusal", "pulls", "builds"),
    [
        (IMAGE, True, None, True, False),
        (IMAGE, True, "manifest unknown", True, True),
        (IMAGE, False, "it must not be pulled", False, True),
        ("other:1", False, None, True, False),
        ("other:1", True, None, True, False),
    ],
)
def test_the_image_is_built_only_if_it_is_ours_and_cannot_be_pulled(
    name: str, published: bool, refusal: str | None, pulls: bool, builds: bool, built: list[dict[str, Any]]
) -> None:
    images = Images(refusal)
    events = obtain(images, name, published=published)
    assert images.pulled == ([name] if pulls else [])
    assert [one["tag"] for one in built] == ([name] if builds else [])
    assert any(isinstance(event, LogLine) for event in events) == builds
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any(text.startswith(f"Building {name} from this installation") for text in notices) == builds
    assert any("manifest unknown" in text for text in notices) == (refusal == "manifest unknown")


def test_an_image_with_another_name_is_never_built(built: list[dict[str, Any]]) -> None:
    with pytest.raises(ImageError, match=r"other:1 is not on the engine and cannot be pulled: denied"):
        obtain(Images("denied"), "other:1", published=False)
    assert not built


def test_the_build_has_every_file_that_its_dockerfile_copies(built: list[dict[str, Any]]) -> None:
    obtain(Images(None), IMAGE, published=False)
    (build,) = built
    assert build["dockerfile"] == "runner/aml_emulator/Dockerfile"
    assert build["platform"] == "linux/arm64"
    dockerfile = (PACKAGE / "Dockerfile").read_text(encoding="utf-8")
    for copied in re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile, re.MULTILINE):
        for source in copied.split():
            assert any(f"{file}/".startswith(f"{source}/") for file in build["files"]), source
    assert "runner/aml_emulator/server.py" in build["files"]
    assert not any("__pycache__" in file for file in build["files"])


def installed(folder: Path) -> Path:
    """Copy the package to where pip would install it, with the lock files of the wheel."""
    package = folder / "site-packages/aml_emulator"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    (package / "requirements").mkdir()
    for lock in image.LOCKS:
        shutil.copy(ROOT / lock, package / lock)
    return package


def test_an_installation_gives_the_same_context_as_a_checkout(tmp_path: Path) -> None:
    package = installed(tmp_path)
    for name, source in (("wheel", package), ("checkout", PACKAGE)):
        image.write_context(source, tmp_path / name)
    contents = [
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path / "wheel", tmp_path / "checkout")
    ]
    more = {Path(image.SOURCES) / lock for lock in image.LOCKS}
    assert contents[0].keys() - contents[1].keys() == more
    assert {path: data for path, data in contents[0].items() if path not in more} == contents[1]


def test_a_build_that_fails_names_the_image_the_reason_and_the_remedy(
    built: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: Any, **_options: Any) -> None:
        raise ImageError("the image's step 'RUN pip install' failed", hint="Check image: in the configuration.")

    monkeypatch.setattr(image, "build_folder", fail)
    with pytest.raises(
        ImageError, match=f"image {re.escape(IMAGE)} cannot be built from this installation"
    ) as caught:
        obtain(Images(None), IMAGE, published=False)
    assert "the image's step 'RUN pip install' failed" in str(caught.value)
    assert "AML_TRAIN_EMULATOR_IMAGE" in str(caught.value)
    assert "configuration" not in str(caught.value)
    assert not built
