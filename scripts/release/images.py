"""Build the release's images on the Docker engine, each into an OCI layout."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aml_train.core.docker import buildkit_cli, engine_platform
from aml_train.core.events import Event, LogLine
from aml_train.image.build.build import build_folder
from scripts.release.bases import Source, find_bases, pin_bases, prepare_base
from scripts.release.commands import ReleaseError, run, tool
from scripts.release.layout import Layout, write_layout
from scripts.release.record import Image
from scripts.release.sources import Sources, image_repository

if TYPE_CHECKING:
    from docker import DockerClient

PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """An image that a release has.

    Attributes:
        name: of the image in the record.
        dockerfile: its path in the sources.
        suffix: what its path in a registry has after ``OWNER/NAME``.
    """

    name: str
    dockerfile: str
    suffix: str


RECIPES: Final = (
    Recipe(name="action", dockerfile="Dockerfile", suffix=""),
    Recipe(name="emulator", dockerfile="runner/aml_emulator/Dockerfile", suffix="-emulator"),
)


@dataclass(frozen=True, kw_only=True)
class Builder:
    """Builds images of one release.

    Attributes:
        engine: the Docker engine.
        environ: the process's environment.
        bases: where the digests of bases are looked up.
        no_cache: build each step again.
        say: shows a line to the user.
    """

    engine: DockerClient
    environ: Mapping[str, str]
    bases: Source
    no_cache: bool
    say: Callable[[str], None]

    def build(self, recipe: Recipe, sources: Sources, output: Path) -> Image:
        """Build an image; write its layout and the list of its packages into *output*."""
        repository = image_repository(sources.repository, recipe.suffix)
        name = f"{repository}:{sources.version}"
        archive, sbom = f"{recipe.name}.oci.tar", f"{recipe.name}.spdx.json"
        self.say(f"Building the image {name} from {recipe.dockerfile}")
        with tempfile.TemporaryDirectory(prefix="aml-train-release-") as folder:
            saved = Path(folder, "saved.tar")
            digests, base_layers = self._build(recipe, sources, Path(folder), name)
            self._save(name, saved)
            layout = write_layout(saved, output / archive, epoch=sources.epoch, base_layers=base_layers, name=name)
        # npm's packages are bundled into one file of the image, so that they are read from the lock file next to it.
        argv = [tool("syft"), "scan", f"oci-archive:{layout.file}", f"--output=spdx-json={output / sbom}"]
        argv += [f"--source-name={repository}", f"--source-version={sources.version}"]
        argv.append("--select-catalogers=+javascript-lock-cataloger")
        run(argv, cwd=output, environ={"SYFT_CHECK_FOR_APP_UPDATE": "false"})
        size = sum(blob.size for blob in layout.blobs)
        self.say(f"  {layout.digest}, {size / 1e6:.0f} MB, its packages in {sbom}")
        return Image(
            name=recipe.name,
            repository=repository,
            digest=layout.digest,
            config=layout.blobs[0].digest,
            archive=archive,
            sbom=sbom,
            bases=digests,
        )

    def _build(self, recipe: Recipe, sources: Sources, folder: Path, tag: str) -> tuple[dict[str, str], list[str]]:
        """Build under *tag*; return the bases' digests and the last one's layers."""
        source = sources.folder / recipe.dockerfile
        text = source.read_text(encoding="utf-8")
        digests: dict[str, str] = {}
        layers: list[str] = []
        for base in find_bases(text):
            digests[base], layers = prepare_base(self.engine, base, self.bases, self.environ)
            self.say(f"  FROM {base}: {digests[base]}")
        dockerfile = folder / "Dockerfile"
        dockerfile.write_text(pin_bases(text, digests) if self.bases == "registry" else text, encoding="utf-8")
        ignored = source.with_name("Dockerfile.dockerignore")
        if ignored.exists():
            shutil.copy(ignored, folder / "Dockerfile.dockerignore")
        build_folder(
            sources.folder,
            dockerfile=dockerfile,
            tag=tag,
            build_args={
                "VERSION": sources.version,
                "REVISION": sources.commit,
                "SOURCE_DATE_EPOCH": str(sources.epoch),
                **{name: None for name in PROXIES if self.environ.get(name)},
            },
            cli=buildkit_cli(self.environ),
            platform=engine_platform(self.engine),
            listener=self._show,
            no_cache=self.no_cache,
        )
        return digests, layers

    def _show(self, event: Event) -> None:
        if isinstance(event, LogLine):
            self.say(f"  | {event.text}")

    def _save(self, tag: str, target: Path) -> None:
        """Write the engine's image into *target*; the engine keeps its build cache."""
        with target.open("wb") as file:
            for chunk in self.engine.images.get(tag).save(named=True):
                file.write(chunk)
        self.engine.images.remove(tag)


def load_image(engine: DockerClient, folder: Path, image: Image) -> str:
    """Load a layout into the engine; return the id that the image has there.

    Raises:
        ReleaseError: the file is damaged.
    """
    layout = Layout.open(folder / image.archive)
    for blob in layout.blobs:
        layout.read(blob)
    with layout.file.open("rb") as file:
        loaded = [str(one.id) for one in engine.images.load(file)]
    for known in loaded:
        if known in (image.digest, image.config):
            return known
    raise ReleaseError(f"The engine loaded {image.archive} as {', '.join(loaded)}, not as {image.config}.")
