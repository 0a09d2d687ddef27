"""Download a model's files, whole or not at all, and check the signed digests."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from aml_train.core.errors import InvalidError, PassportError
from aml_train.core.tags import Tag
from aml_train.jobs.workspace import ModelView
from aml_train.models.catalogue import PassportStore, StoredFile
from aml_train.models.passport.envelope import BadBundleError, read_bundle
from aml_train.models.passport.issue import PASSPORT_FILE
from aml_train.models.passport.manifest import SIGNATURE_FILE, FileManifest, hash_files, read_manifest

_CHUNK: Final = 8 << 20
_STATE: Final = 12
_SIGNED: Final = "Verify it: aml-train verify {}. Download another version, or train it again."


@dataclass(frozen=True, kw_only=True)
class DownloadedModel:
    """The result of a download.

    >>> model = run(load_config()).model
    >>> Workspace.open().download_model(f"{model.name}:{model.version}", "here").size
    7

    Attributes:
        model: the version.
        folder: where its files are.
        files: their paths below the folder, with their digests (hexadecimal SHA-256).
        size: bytes.
        checked: whether the digests are those of the version's passport; False if it has none.
    """

    model: ModelView
    folder: Path
    files: FileManifest
    size: int
    checked: bool


def check_target(folder: Path, *, force: bool) -> None:
    """Return if a model may be downloaded to *folder*.

    Raises:
        InvalidError: something is there, and *force* is not given; or the folder is a file.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InvalidError(f"{folder} is there, and is no folder.", hint="Name another folder with -o.")
    if not force and folder.exists() and any(folder.iterdir()):
        raise InvalidError(
            f"The folder {folder} is there, and is not empty.",
            hint="Replace it with --force, or name another with -o.",
        )


def download_model(
    model: ModelView,
    folder: Path,
    *,
    store: PassportStore,
    fetch: Callable[[ModelView, Path], None],
    force: bool = False,
) -> DownloadedModel:
    """Download the files of *model* to *folder*.

    The files arrive in a hidden folder next to it, which becomes *folder* once all of them are there and their digests are
    checked. After an interruption the same call continues there.

    Args:
        model: the version.
        folder: the folder that gets exactly its files.
        store: has the passport.
        fetch: downloads the files into a folder, which has exactly these afterwards, and continues what is there.
        force: replace a folder that is not empty.

    Raises:
        InvalidError: the folder is not empty, or cannot be written to.
        PassportError: the files are not those that the passport states, or the passport is damaged.
        ServiceError: the storage refuses or does not answer.
    """
    folder = folder.absolute()
    check_target(folder, force=force)
    signed = signed_files(model, store)
    state = hashlib.sha256(f"{model.name}:{model.version}\n{model.path}".encode()).hexdigest()[:_STATE]
    staging = folder.with_name(f".{folder.name}.{state}.part")
    try:
        staging.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidError(f"The folder {folder.parent} cannot be written to: {error.strerror}.") from error
    fetch(model, staging)
    found = hash_files(_local(staging))
    title = f"{model.name}:{model.version}"
    if signed is not None and (difference := signed.difference(found)):
        shutil.rmtree(staging)
        raise PassportError(
            f"The files of {title} are not those that were signed: {difference}", hint=_SIGNED.format(title)
        )
    _put(staging, folder)
    return DownloadedModel(model=model, folder=folder, files=found, size=found.size, checked=signed is not None)


def signed_files(model: ModelView, store: PassportStore) -> FileManifest | None:
    """Return the digests that the version's passport states; None if it has none.

    Signatures are not checked here: ``aml-train verify`` does it, by a policy.

    Raises:
        PassportError: the version names a passport that is gone or another one, or it cannot be used.
        ServiceError: the storage refuses or does not answer.
    """
    title, tagged = f"{model.name}:{model.version}", model.tags.get(Tag.PASSPORT)
    passport = store.read(model.name, model.version, PASSPORT_FILE)
    content = store.read(model.name, model.version, SIGNATURE_FILE)
    if not passport and not content and tagged is None:
        return None
    try:
        return _stated(model.name, tagged, passport, content)
    except (BadBundleError, ValueError) as error:
        raise PassportError(f"The passport of {title} cannot be used: {error}", hint=_SIGNED.format(title)) from error


def _stated(name: str, tagged: str | None, passport: bytes, content: bytes) -> FileManifest:
    """Return the digests; raise ValueError if these documents do not belong together."""
    if not passport or not content:
        raise ValueError(f"{SIGNATURE_FILE if passport else PASSPORT_FILE} is gone from the workspace's storage")
    bundle = read_bundle(passport)
    if tagged is not None and tagged != f"sha256:{bundle.digest}":
        raise ValueError(f"the version names the passport {tagged}, and it is another one")
    manifest = read_manifest(read_bundle(content).statement, name)
    if bundle.statement.at("predicate").optional_text("files.sha256") != manifest.root:
        raise ValueError(f"{SIGNATURE_FILE} is about other files than the passport")
    return manifest


def _local(folder: Path) -> Iterator[StoredFile]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield StoredFile(
                path=path.relative_to(folder).as_posix(), size=path.stat().st_size, read=partial(_chunks, path)
            )


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            yield data


def _put(staging: Path, folder: Path) -> None:
    """Rename *staging* to *folder*; what was there is removed after that."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if folder.exists():
        folder.rename(old)
    staging.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
