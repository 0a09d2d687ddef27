"""Identities of the contents of a job's data. Pure.

An address says where data are, and data there may change: AzureML copies nothing when an asset is registered. An identity covers
the names, sizes, ETags and checksums of the files, as the storage lists them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aml_train.config.job.model import inner_mappings
from aml_train.config.job.paths import is_local
from aml_train.core.tags import VALUE_LENGTH, Tag

_DIGITS: Final = 16
MODEL_TYPES: Final = frozenset({"custom_model", "mlflow_model", "triton_model"})


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """The place of an input's data.

    Attributes:
        path: the address, as in a job's document.
        type: the input's type, such as ``uri_file``.
    """

    path: str
    type: str = "uri_folder"

    @property
    def is_model(self) -> bool:
        """Whether an asset at that address is a model."""
        return self.type in MODEL_TYPES or "/models/" in self.path


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file of an input.

    Attributes:
        tag: its ETag and checksum.
        modified: the time of its last writing in UTC, as sortable text.
    """

    name: str
    size: int
    tag: str
    modified: str


@dataclass(frozen=True, kw_only=True)
class DataIdentity:
    """The identity of an input's data at one moment.

    Attributes:
        mark: a digest of the files; empty if the data are not identified.
        files: how many there are.
        newest: when the newest of them was written, by the storage's clock; empty if that is not known.
        problem: why the data are not identified.
        listed: the files, of an identity that was read.
    """

    mark: str = ""
    files: int = 0
    newest: str = ""
    problem: str = ""
    listed: tuple[DataFile, ...] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        if not self.mark:
            return f"not identified: {self.problem}"
        newest = f", newest of {self.newest}" if self.newest else ""
        return f"{_files(self.files)}{newest}, {self.mark}"

    def change(self, now: DataIdentity) -> str | None:
        """Return in a few words how *now* differs from these data; None if it does not.

        Data that are not identified are not known to differ.

        The files that are named were written after the newest of these: nothing else is recorded of a job's data.
        """
        if not self.mark or not now.mark or self.mark == now.mark:
            return None
        late = [one.name for one in now.listed if self.newest and one.modified > self.newest]
        if late:
            return f"{_files(len(late))}, e.g. {late[0]}"
        if self.files != now.files:
            return f"{_files(now.files)} instead of {self.files}"
        return "other contents"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def identity_of(files: Iterable[DataFile]) -> DataIdentity:
    """Return the identity of data that have these *files*."""
    listed = tuple(sorted(files, key=lambda one: one.name))
    whole = hashlib.sha256()
    for one in listed:
        whole.update(f"{one.name}\0{one.size}\0{one.tag}\n".encode(errors="surrogatepass"))
    newest = max((one.modified for one in listed), default="")
    return DataIdentity(mark=whole.hexdigest()[:_DIGITS], files=len(listed), newest=newest, listed=listed)


def data_sources(document: Mapping[str, Any]) -> dict[str, DataSource]:
    """Return the data of a job, its nodes or its trial: place of the input → source.

    Local paths are not among them: their contents are sent with the job.
    """
    return dict(_sources(document, ""))


def _sources(document: Mapping[str, Any], before: str) -> Iterator[tuple[str, DataSource]]:
    for name, given in (document.get("inputs") or {}).items():
        path = given.get("path") if isinstance(given, Mapping) else None
        if isinstance(path, str) and path and not is_local(path) and not path.startswith("${{"):
            yield f"{before}inputs.{name}", DataSource(path=path, type=str(given.get("type") or "uri_folder"))
    if not before:
        for place, inner in inner_mappings(dict(document)):
            yield from _sources(inner, ".".join((*place, "")))


def input_name(place: str) -> str:
    """Return an input's name for messages: that of the job's own without ``inputs.``."""
    return place.removeprefix("inputs.")


def changed_data(then: Mapping[str, DataIdentity], now: Mapping[str, DataIdentity]) -> dict[str, str]:
    """Return how the data of each input differ from *then*: place → a few words."""
    changes = {place: found.change(now[place]) for place, found in then.items() if place in now}
    return {place: change for place, change in changes.items() if change is not None}


def change_text(changes: Mapping[str, str]) -> str:
    """Return *changes* in one line: ``images: 3 files, e.g. a.png``."""
    return "; ".join(f"{input_name(place)}: {change}" for place, change in changes.items())


def identity_marks(data: Mapping[str, DataIdentity]) -> dict[str, str]:
    """Return the property of a job that records *data*, as many inputs as fit."""
    kept = {place: [one.mark, one.files, one.newest] for place, one in data.items() if one.mark}
    while len(text := json.dumps(kept, separators=(",", ":"))) > VALUE_LENGTH:
        kept.popitem()
    return {Tag.DATA_IDENTITY: text} if kept else {}


def recorded_contents(marks: Mapping[str, str]) -> dict[str, str]:
    """Return what the data of a job's own inputs were, for people: input → identity."""
    recorded = recorded_data(marks).items()
    return {input_name(place): str(one) for place, one in recorded if place.startswith("inputs.")}


def recorded_data(marks: Mapping[str, str]) -> dict[str, DataIdentity]:
    """Return the identities that a job's properties or a model's tags record.

    They are by the place of the input.
    """
    try:
        found = json.loads(marks.get(Tag.DATA_IDENTITY, "{}"))
        return {
            str(place): DataIdentity(mark=str(mark), files=int(files), newest=str(newest))
            for place, (mark, files, newest) in found.items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):  # not as it was written
        return {}
