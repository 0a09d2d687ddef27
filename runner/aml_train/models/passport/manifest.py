"""Digests of files: of a model (OpenSSF Model Signing), and of a code snapshot.

Format of the manifest: an in-toto statement whose predicate lists every file with its digest
(https://github.com/sigstore/model-transparency, ``model_signing/_signing/signing.py``, version 1.1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from aml_train.core.answers import Answer
from aml_train.core.references import is_digest
from aml_train.models.catalogue import StoredFile

MODEL_SIGNING: Final = "https://model_signing/signature/v1.0"
STATEMENT: Final = "https://in-toto.io/Statement/v1"
#: Name of the bundle next to a model's files, which verifiers ignore.
SIGNATURE_FILE: Final = "model.sig"
_WORKERS: Final = 8
_SERIALIZATION: Final[Mapping[str, Any]] = {
    "method": "files",
    "hash_type": "sha256",
    "allow_symlinks": False,
    "ignore_paths": [SIGNATURE_FILE],
}
_MOST_NAMED: Final = 5


@dataclass(frozen=True, kw_only=True)
class FileManifest:
    """The digests (hexadecimal SHA-256) of files, by their paths, in order."""

    digests: Mapping[str, str]
    size: int = 0

    @property
    def root(self) -> str:
        """One SHA-256 over all files' digests, as OpenSSF Model Signing computes it."""
        whole = hashlib.sha256()
        for digest in self.digests.values():
            whole.update(bytes.fromhex(digest))
        return whole.hexdigest()

    @property
    def listing(self) -> str:
        """One SHA-256 over the lines that ``sha256sum`` writes: names count, too."""
        lines = "".join(_line(path, digest) for path, digest in self.digests.items())
        return hashlib.sha256(lines.encode(errors="surrogatepass")).hexdigest()

    @property
    def fault(self) -> str | None:
        """Why these files cannot be signed; None if they can."""
        if not self.digests:
            return "there are none"
        return next((fault for path in self.digests if (fault := _fault_of_path(path))), None)

    def statement(self, name: str) -> dict[str, Any]:
        """Return the in-toto statement on the model *name*."""
        resources = [{"name": path, "algorithm": "sha256", "digest": digest} for path, digest in self.digests.items()]
        return {
            "_type": STATEMENT,
            "subject": [{"name": name, "digest": {"sha256": self.root}}],
            "predicateType": MODEL_SIGNING,
            "predicate": {"serialization": self.serialization, "resources": resources},
        }

    @property
    def serialization(self) -> dict[str, Any]:
        """How the files were read; a file of the model is never left out."""
        ignored = [path for path in _SERIALIZATION["ignore_paths"] if path not in self.digests]
        return {**_SERIALIZATION, "ignore_paths": ignored}

    def difference(self, other: FileManifest) -> str:
        """Return in words how *other*, the present state, differs; empty if it does not."""
        changed = [path for path in self.digests if other.digests.get(path, self.digests[path]) != self.digests[path]]
        kinds = {
            "changed": changed,
            "missing": [path for path in self.digests if path not in other.digests],
            "not signed": [path for path in other.digests if path not in self.digests],
        }
        return "; ".join(f"{word}: {_named(paths)}" for word, paths in kinds.items() if paths)


def hash_files(files: Iterable[StoredFile]) -> FileManifest:
    """Return the digests of *files*, which are read in parallel and never kept.

    Raises:
        ServiceError: the storage refuses or does not answer.
    """
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="digest") as pool:
        found = dict(pool.map(lambda file: (file.path, (_digest(file), file.size)), files))
    ordered = sorted(found, key=lambda path: PurePosixPath(path).parts)
    return FileManifest(
        digests={path: found[path][0] for path in ordered}, size=sum(size for _, size in found.values())
    )


def read_manifest(statement: Answer, model: str) -> FileManifest:
    """Return the manifest of a statement on the files of *model*.

    Raises:
        ValueError: it is none, is about another model, leaves files out, has names that verifiers could read in different
            ways, or its digests do not give the digest of its subject.
    """
    if statement.optional_text("predicateType") != MODEL_SIGNING:
        raise ValueError(f"its predicate is not {MODEL_SIGNING}")
    manifest = FileManifest(digests=_digests(statement.at("predicate")))
    if manifest.fault is not None:
        raise ValueError(f"its files cannot be verified: {manifest.fault}")
    right, given = manifest.serialization, statement.mapping("predicate.serialization")
    if odd := [name for name in {**right, **given} if given.get(name) != right.get(name)]:
        raise ValueError(f"its files were read with another {', '.join(odd)[:80]}: files could be left out")
    subjects = [(one.text("name"), one.text("digest.sha256")) for one in statement.each("subject")]
    if [digest for _, digest in subjects] != [manifest.root]:
        raise ValueError("its digests do not give the digest of its subject")
    if subjects[0][0] != model:
        raise ValueError(f"it is about the model {subjects[0][0][:80]!r}")
    return manifest


def _digests(predicate: Answer) -> dict[str, str]:
    """Return the digests of a predicate by their files' names, each once."""
    found: dict[str, str] = {}
    for one in predicate.each("resources"):
        name, digest = one.text("name"), one.text("digest")
        if one.text("algorithm") != "sha256":
            raise ValueError(f"a digest is of {one.text('algorithm')[:20]!r}, and not of SHA-256")
        if not is_digest(f"sha256:{digest}"):
            raise ValueError(f"the digest of {name[:80]!r} has not 64 hexadecimal digits")
        if name in found:
            raise ValueError(f"it has two digests of {name[:80]!r}")
        found[name] = digest
    return found


def _fault_of_path(path: str) -> str | None:
    """Return why a file's path is none below the model's folder."""
    if any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
        return f"{path[:80]!r} is no path below the model's folder"
    return None


def _line(path: str, digest: str) -> str:
    """Return the line of a file: a name cannot look like another line."""
    escaped = path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{digest}  {path}\n" if escaped == path else f"\\{digest}  {escaped}\n"


def _digest(file: StoredFile) -> str:
    found = hashlib.sha256()
    for chunk in file.read():
        found.update(chunk)
    return found.hexdigest()


def _named(paths: list[str]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return ", ".join(paths[:_MOST_NAMED]) + more
