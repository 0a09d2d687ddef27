"""Masks: the filter that keeps secrets out of everything that is written.

GitHub masks what ``::add-mask::`` named; this filter does the same again, because the command comes too late for output that
is already on its way, and nothing outside GitHub obeys it.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from aml_train.core.secrets import (
    derive,
    identifier,
    maskable,
    named_secret,
    parts_of,
    plain_forms,
    without_identifiers,
)

MASK: Final = "***"
#: A secret of so many bytes is in no name by chance.
_LONGEST_CHANCE: Final = 16
#: What is a secret by its shape: the signature of a SAS address, and a JSON Web Token, such as a job's own ``AZUREML_RUN_TOKEN``.
_SHAPED: Final = re.compile(r"(?P<kept>(?i:[?&]sig=))[^&\s\"'<>]+|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+")


@dataclass(frozen=True, kw_only=True)
class _Known:
    """The patterns to search for.

    Replaced as a whole: another thread may be searching.

    Attributes:
        patterns: all of them, shortest first; the values are None.
        kept: identifiers that are shown, whatever they hold.
        heads: patterns and *kept* by their first byte.
        longest: length in bytes of the longest of all these.
    """

    patterns: Mapping[bytes, None] = field(default_factory=dict)
    kept: tuple[bytes, ...] = ()
    heads: Mapping[int, list[bytes]] = field(default_factory=dict)
    longest: int = 0


def _known(patterns: Iterable[bytes], kept: Iterable[bytes]) -> _Known:
    ordered = dict.fromkeys(sorted(set(patterns), key=len))
    # A name that is a secret as a whole is one.
    kept = tuple(dict.fromkeys(one for one in kept if one not in ordered))
    heads: dict[int, list[bytes]] = {}
    for pattern in (*ordered, *kept):
        heads.setdefault(pattern[0], []).append(pattern)
    return _Known(patterns=ordered, kept=kept, heads=heads, longest=max(map(len, (*ordered, *kept)), default=0))


def _occurrences(patterns: Iterable[bytes], data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where *data* holds *patterns*, which come in the order of their lengths."""
    for pattern in patterns:
        if len(pattern) > len(data):
            return
        start = data.find(pattern)
        while start >= 0:
            end = start + len(pattern)
            # One that repeats itself ("aaaa") is one span, however long the text.
            after = data.find(pattern, start + 1)
            while 0 <= after < end:
                end = after + len(pattern)
                after = data.find(pattern, after + 1)
            yield start, end
            start = after


class Masker:
    """Replaces secrets by ``***`` in texts.

    Args:
        secrets: values as they are; what is derived from them is masked as well.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._known = _Known()
        self._added = set[str]()
        #: The parts of the given secrets that GitHub must mask.
        self.parts = [part for secret in sorted(secrets) for part in self.add(secret)]

    def add(self, secret: str) -> list[str]:
        """Mask *secret* from now on. Other threads may be masking meanwhile.

        Returns:
            the new parts that GitHub must mask. It derives encoded forms itself (``ValueEncoders.cs``).
        """
        with self._lock:
            if secret in self._added:
                return []
            self._added.add(secret)
            known = self._known
            new = [part for part in sorted(parts_of(secret)) if _encode(part) not in known.patterns]
            self._known = _known((*known.patterns, *map(_encode, derive(secret))), known.kept)
        return new

    def add_declared(self, secret: str) -> None:
        """Mask *secret*, which the user calls one, even if it is an ordinary word."""
        self.add(secret)
        with self._lock:
            known = self._known
            self._known = _known((*known.patterns, *map(_encode, plain_forms(secret))), known.kept)

    def keep(self, identifier: str) -> None:
        """Show *identifier* from now on, although a short secret occurs in it.

        A secret that begins or ends outside of it is masked all the same, and so is one that is too long for chance.
        """
        with self._lock:
            if maskable(identifier) and not {"\n", "\r"} & set(identifier):
                self._known = _known(self._known.patterns, (*self._known.kept, _encode(identifier)))

    @property
    def longest(self) -> int:
        """Length in bytes of the longest pattern."""
        return self._known.longest

    def holds(self, text: str) -> bool:
        """Return whether there is a secret in *text*, in an identifier or not."""
        data = _encode(text)
        return next(_occurrences(self._known.patterns, data), None) is not None

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return where *data* holds secrets, in order; those that overlap are one."""
        known = self._known
        found = list(_occurrences(known.patterns, data))
        return _merged(self._without_kept(found, data) if found and known.kept else found)

    def _without_kept(self, found: list[tuple[int, int]], data: bytes) -> list[tuple[int, int]]:
        """Leave out what is inside of an identifier by chance."""
        kept = list(_occurrences(sorted(self._known.kept, key=len), data))
        return [
            (start, end)
            for start, end in found
            if end - start >= _LONGEST_CHANCE or not any(first <= start and end <= last for first, last in kept)
        ]

    def unfinished(self, data: bytes) -> int:
        """Return the start of the longest ending of *data* that may grow into a secret.

        It is the length of *data* if there is none. Nothing grows behind the end of a line.
        """
        known = self._known
        for start in range(max(0, len(data) - known.longest + 1, data.rfind(b"\n") + 1), len(data)):
            tail = data[start:]
            if any(len(one) > len(tail) and one.startswith(tail) for one in known.heads.get(data[start], ())):
                return start
        return len(data)

    def mask(self, text: str) -> str:
        """Return *text* with its secrets, signatures and tokens replaced."""
        data = _encode(text)
        # Both in the text as it is: neither hides a part of the other.
        return _replaced(data, _merged([*self.spans(data), *_shaped(text, data)]))

    def mask_name(self, text: str) -> str:
        """Return *text*, a computed name, without masking short secrets found by chance.

        See :meth:`keep`.
        """
        data = _encode(text)
        spans = _occurrences((one for one in self._known.patterns if len(one) >= _LONGEST_CHANCE), data)
        return _replaced(data, _merged(spans))


def without_tokens(text: str) -> str:
    """Return *text* with signatures of SAS addresses and JSON Web Tokens replaced."""
    return _SHAPED.sub(lambda found: f"{found['kept'] or ''}{MASK}", text)


def _shaped(text: str, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where *data*, which is *text*, holds secrets by their shape."""
    for found in _SHAPED.finditer(text):
        kept = found["kept"] or ""
        start = len(_encode(text[: found.start() + len(kept)]))
        yield start, start + len(_encode(found[0][len(kept) :]))


def _replaced(data: bytes, spans: Iterable[tuple[int, int]]) -> str:
    """Return *data* as text, with a mask for each of *spans*."""
    out, position = bytearray(), 0
    for start, end in spans:
        out += data[position:start] + MASK.encode()
        position = end
    return (bytes(out) + data[position:]).decode("utf-8", "surrogatepass")


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return *spans* in order, those that overlap as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _encode(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


class Scrubber:
    """Takes secrets out of a stream of bytes, also one that arrives in pieces.

    At most the length of the longest secret is held back, and nothing after the end of a line.
    """

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._held = b""
        self._covered = 0  # how much of what is held back belongs to a mask that is already written

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        """Return the part of *data*, and of earlier data, that may be shown.

        With *final* all.
        """
        data = self._held + data
        keep = len(data) if final else self._masker.unfinished(data)
        out, position = bytearray(), self._covered
        for start, end in self._masker.spans(data):
            if start < self._covered:  # it overlaps with the mask that is already written
                position = max(position, end)
            elif start < keep:
                out += data[position:start] + MASK.encode()
                position = end
        out += data[position:keep]
        self._held = data[keep:]
        self._covered = max(0, position - keep)
        return bytes(out)


class MaskingStream(io.RawIOBase):
    """A stream that passes all bytes but secrets on to *sink*; see :class:`Scrubber`."""

    def __init__(self, sink: BinaryIO, masker: Masker) -> None:
        super().__init__()
        self._sink = sink
        self._scrubber = Scrubber(masker)

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        new = bytes(data)
        self._pass_on(new, final=False)
        return len(new)

    def flush(self) -> None:
        """Flush the sink. Bytes that may yet grow into a secret stay here."""
        if not self.closed:
            self._sink.flush()

    def close(self) -> None:
        """Write what was held back; the sink stays open."""
        if not self.closed:
            self._pass_on(b"", final=True)
            self._sink.flush()
        super().close()

    def _pass_on(self, data: bytes, *, final: bool) -> None:
        out = self._scrubber.feed(data, final=final)
        if out:
            self._sink.write(out)
            # A buffered writer around this stream hands its own bytes on, and asks for no more.
            self._sink.flush()


def secret_variables(environment: Mapping[str, str], text: str) -> list[str]:
    """Return the names of the variables whose secrets *text* holds."""
    named = ((name, value) for name, value in environment.items() if named_secret(name) and not identifier(name))
    return sorted(name for name, value in named if Masker(without_identifiers(value)).holds(text))
