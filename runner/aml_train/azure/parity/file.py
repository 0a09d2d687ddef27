"""The file of a recording: lines of JSON, with a digest at the end."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aml_train.azure.parity.scrub import PLACEHOLDER
from aml_train.core.errors import InvalidError

FORMAT: Final = 1
_MOST: Final = 64 << 20
_LINES: Final = {
    "header": {"format", "script"},
    "exchange": {"step", "method", "url", "status"},
    "call": {"step"},
    "skipped": {"step"},
}


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A recording without names, ids and secrets.

    Attributes:
        header: versions, and the kind of the compute.
        lines: exchanges, calls and skipped steps, in their order.
    """

    header: Mapping[str, Any]
    lines: tuple[Mapping[str, Any], ...]

    def exchanges(self) -> list[Mapping[str, Any]]:
        """Return the lines that are exchanges."""
        return [one for one in self.lines if one["kind"] == "exchange"]

    def steps(self) -> list[str]:
        """Return the names of the steps that were taken."""
        return list(dict.fromkeys(one["step"] for one in self.lines if one["kind"] != "skipped"))

    def text_lines(self) -> list[str]:
        """Return the lines of the file, the digest included."""
        body = [json.dumps({"kind": "header", **self.header}), *map(json.dumps, self.lines)]
        digest = hashlib.sha256("\n".join(body).encode()).hexdigest()
        return [*body, json.dumps({"kind": "end", "lines": len(body), "sha256": digest})]


def write_recording(recording: Recording, file: Path) -> None:
    """Write a whole recording, readable by its owner alone; ``.gz`` compresses it."""
    data = "".join(f"{line}\n" for line in recording.text_lines()).encode()
    if file.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    part = file.with_name(f".{file.name}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as stream:  # noqa: PTH123 - of a descriptor with its mode
            stream.write(data)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InvalidError(f"{file} cannot be written: {error.strerror}.", hint="Choose another --output.") from error


def read_recording(file: Path) -> Recording:
    """Return the recording in a file.

    Raises:
        InvalidError: it cannot be read, is no recording, was cut off or changed, or is of another format.
    """
    try:
        data = file.read_bytes()
        if data[:2] == b"\x1f\x8b":
            with gzip.open(file) as stream:
                data = stream.read(_MOST + 1)
    except (OSError, EOFError) as error:
        raise InvalidError(f"{file} cannot be read: {error}.") from error
    if len(data) > _MOST:
        raise InvalidError(f"{file} is larger than {_MOST >> 20} MiB: it is no recording.")
    try:
        texts = data.decode().splitlines()
        lines = [json.loads(one) for one in texts]
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"{file} is no recording: a line is not JSON.") from error
    return _checked(file, texts, lines)


def _checked(file: Path, texts: Sequence[str], lines: Sequence[Any]) -> Recording:
    if len(lines) < 2 or not all(isinstance(one, dict) for one in lines) or lines[0].get("kind") != "header":
        raise InvalidError(f"{file} is no recording: it has no header.", hint="aml-train parity record writes one.")
    if lines[0].get("format") != FORMAT:
        raise InvalidError(f"{file} is of format {lines[0].get('format')!r}, and this release reads {FORMAT}.")
    digest = hashlib.sha256("\n".join(texts[:-1]).encode()).hexdigest()
    if lines[-1].get("kind") != "end" or lines[-1].get("sha256") != digest:
        raise InvalidError(f"{file} was cut off or changed.", hint="Record again; a reviewed file is sent as it is.")
    for number, line in enumerate(lines[:-1], 1):
        lacking = _LINES.get(str(line.get("kind")), {"kind"}) - line.keys()
        if lacking or line.get("kind") not in _LINES:
            raise InvalidError(f"{file}:{number}: it is no line of a recording.")
    header = {key: value for key, value in lines[0].items() if key != "kind"}
    return Recording(header=header, lines=tuple(lines[1:-1]))


def kept_texts(lines: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return every text and key that a recording has in clear, with its count."""
    counted: Counter[str] = Counter()

    def walk(value: Any) -> None:
        if isinstance(value, Mapping):
            counted.update(str(key) for key in value)
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)
        elif isinstance(value, str) and PLACEHOLDER.sub("", value).strip():
            counted[PLACEHOLDER.sub(lambda match: f"<{match[1]}>", value)] += 1

    for line in lines:
        walk(line)
    return sorted(counted.items())


def marks(lines: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many different values of each kind became placeholders."""
    found = {match[0] for line in lines for match in PLACEHOLDER.finditer(json.dumps(line))}
    return dict(sorted(Counter(one.strip("<>").partition(":")[0] for one in found).items()))
