"""Masks: the filter that keeps secrets out of everything that is written.

GitHub masks what ``::add-mask::`` named; this filter does the same again, because the command comes too late for output that
is already on its way, and nothing outside GitHub obeys it.
"""

from __future__ import annotations

import bisect
import io
import re
import string
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, Protocol

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
#: A form of fewer characters is not looked for across the ends of lines: it would be found by chance.
_SHORTEST_CUT: Final = 8
#: So much of a form at the end of a line has the line wait for the next one.
_CUT_PREFIX: Final = 4
#: A secret of so many bytes is in no name by chance.
_LONGEST_CHANCE: Final = 16
#: A text that holds a form with one of these holds the mark itself, which is found sooner.
_MARKERS: Final = (b"&#", b"&amp;", b"&lt;", b"&gt;", b"&quot;", b"&apos;", b"%", b"\\")
#: The same for forms that are upper-case letters and digits alone: a run of so many of them.
_RUN: Final = 12
_RUNS: Final = bytes(65 if chr(code) in string.ascii_uppercase + string.digits else 32 for code in range(256))
#: What is a secret by its shape: the signature of a SAS address, and a JSON Web Token, such as a job's own ``AZUREML_RUN_TOKEN``.
_SHAPED: Final = re.compile(r"(?P<kept>(?i:[?&]sig=))[^&\s\"'<>]+|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+")


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Patterns that contain *marker*, or a run of upper-case letters and digits.

    Shortest first.
    """

    marker: bytes
    run: bool
    patterns: tuple[bytes, ...]

    def possible(self, data: bytes) -> bool:
        """Return whether any of the patterns can be in *data*, by one search."""
        if self.run:
            return self.marker in data.translate(_RUNS)
        # One byte is found many times as fast as two.
        return self.marker[:1] in data and self.marker in data


@dataclass(frozen=True, kw_only=True)
class _Known:
    """The patterns to search for.

    Replaced as a whole: another thread may be searching.

    Attributes:
        patterns: all of them; the values are None.
        short: those that are not looked for across the ends of lines.
        groups: the others.
        heads: all of them, and *kept*, by their first byte.
        prefixes: those of *groups* by their first bytes, :data:`_CUT_PREFIX` of them.
        kept: identifiers that are shown, whatever they hold.
        longest: length in bytes of the longest of all these.
    """

    patterns: Mapping[bytes, None] = field(default_factory=dict)
    short: tuple[bytes, ...] = ()
    groups: tuple[_Group, ...] = ()
    heads: Mapping[int, tuple[bytes, ...]] = field(default_factory=dict)
    prefixes: Mapping[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    kept: tuple[bytes, ...] = ()
    longest: int = 0


def _known(patterns: Collection[bytes], kept: Iterable[bytes]) -> _Known:
    """Sort *patterns* for the search, shortest first.

    Tokens are longer than most lines.
    """
    ordered = sorted(set(patterns), key=len)
    # A name that is a secret as a whole is one.
    kept = tuple(dict.fromkeys(one for one in kept if one not in patterns))
    groups: dict[tuple[bytes, bool], list[bytes]] = {}
    heads: dict[int, list[bytes]] = {}
    prefixes: dict[bytes, list[bytes]] = {}
    for pattern in (*ordered, *kept):
        heads.setdefault(pattern[0], []).append(pattern)
    for pattern in ordered:
        if len(pattern) >= _SHORTEST_CUT:
            groups.setdefault(_marker(pattern), []).append(pattern)
            prefixes.setdefault(pattern[:_CUT_PREFIX], []).append(pattern)
    return _Known(
        patterns=dict.fromkeys(ordered),
        short=tuple(pattern for pattern in ordered if len(pattern) < _SHORTEST_CUT),
        groups=tuple(
            _Group(marker=marker, run=run, patterns=tuple(found)) for (marker, run), found in groups.items()
        ),
        heads={first: tuple(found) for first, found in heads.items()},
        prefixes={first: tuple(found) for first, found in prefixes.items()},
        kept=kept,
        longest=max(map(len, (*ordered, *kept)), default=0),
    )


def _marker(pattern: bytes) -> tuple[bytes, bool]:
    """Return the marker of *pattern*, and whether it is a run; nothing if it has none."""
    for marker in _MARKERS:
        if marker in pattern:
            return marker, False
    # Base32 and hexadecimal digits. Few texts have such long words in upper case.
    if len(pattern) >= _RUN and pattern.translate(_RUNS) == b"A" * len(pattern):
        return b"A" * _RUN, True
    return b"", False


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


def _has_line_end(data: bytes) -> bool:
    return b"\n" in data or b"\r" in data


def _without_line_ends(data: bytes) -> bytes:
    return data.replace(b"\n", b"").replace(b"\r", b"")


class _LineEnds:
    """The line ends of *data*.

    Maps places in the text without them to places in *data*.
    """

    def __init__(self, data: bytes) -> None:
        self._places = [match.start() for match in re.finditer(rb"[\r\n]", data)]
        #: How many other bytes come before each line end.
        self._before = [place - number for number, place in enumerate(self._places)]

    def place(self, joined: int) -> int:
        """Return the place in the data of byte *joined* of the text without line ends."""
        return joined + bisect.bisect_right(self._before, joined)

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a span of the text without line ends.

        One for each line of it.
        """
        here = self.place(start)
        for number in range(bisect.bisect_right(self._before, start), bisect.bisect_left(self._before, end)):
            if here < self._places[number]:
                yield here, self._places[number]
            here = self._places[number] + 1
        yield here, self.place(end - 1) + 1


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
            if maskable(identifier) and not _has_line_end(_encode(identifier)):
                self._known = _known(self._known.patterns, (*self._known.kept, _encode(identifier)))

    @property
    def longest(self) -> int:
        """Length in bytes of the longest pattern."""
        return self._known.longest

    def holds(self, text: str) -> bool:
        """Return whether there is a secret in *text*, in an identifier or not."""
        data = _encode(text)
        return next(_occurrences(self._known.patterns, data), None) is not None

    def spans(self, data: bytes, *, across: bool = True) -> list[tuple[int, int]]:
        """Return where *data* holds secrets, in order; those that overlap are one.

        Args:
            across: also find a secret that line ends divide, as base64 has them; its parts are separate spans.
        """
        known = self._known
        across = across and _has_line_end(data)
        joined = _without_line_ends(data) if across else data
        found = list(_occurrences(known.short, data))
        long = [
            span
            for group in known.groups
            if not group.marker or group.possible(joined)
            for span in _occurrences(group.patterns, joined)
        ]
        if long and across:
            ends = _LineEnds(data)
            found += [piece for span in long for piece in ends.pieces(*span)]
        else:
            found += long
        return _merged(self._without_kept(found, data) if found and known.kept else found)

    def _without_kept(self, found: list[tuple[int, int]], data: bytes) -> list[tuple[int, int]]:
        """Leave out what is inside of an identifier by chance."""
        kept = list(_occurrences(sorted(self._known.kept, key=len), data))
        return [
            (start, end)
            for start, end in found
            if end - start >= _LONGEST_CHANCE or not any(first <= start and end <= last for first, last in kept)
        ]

    def unfinished(self, data: bytes, *, across: bool = False) -> int:
        """Return the start of the longest ending of *data* that may grow into a secret.

        It is the length of *data* if there is none.

        Args:
            across: also look for one that line ends divide. Else nothing grows behind the end of a line.
        """
        found = self._divided(data) if across and _has_line_end(data) else len(data)
        if not data or data[-1:] == b"\n":
            return found
        known = self._known
        first = max(0, len(data) - known.longest + 1, data.rfind(b"\n") + 1)
        for start in range(first, min(found, len(data))):
            tail = data[start:]
            if any(
                pattern.startswith(tail) for pattern in known.heads.get(data[start], ()) if len(pattern) > len(tail)
            ):
                return start
        return found

    def _divided(self, data: bytes) -> int:
        """Return the start of an ending with a line end that may grow into a secret."""
        # However many empty lines follow, no more than this is held back.
        window = data[-2 * self._known.longest :]
        joined = _without_line_ends(window)
        first = len(joined)
        for prefix, patterns in self._known.prefixes.items():
            at = joined.find(prefix, max(0, len(joined) - len(patterns[-1]) + 1), first + _CUT_PREFIX)
            while 0 <= at < first:
                tail = joined[at:]
                if any(len(pattern) > len(tail) and pattern.startswith(tail) for pattern in patterns):
                    first = at
                    break
                at = joined.find(prefix, at + 1)
        if first == len(joined) and not _has_line_end(window[-1:]):
            # Behind a line end, fewer letters wait, too: the line is open anyway, and what it continues may be shown already.
            tails = (joined[-count:] for count in range(min(_CUT_PREFIX - 1, len(joined)), 0, -1))
            tail = next((one for one in tails if any(prefix.startswith(one) for prefix in self._known.prefixes)), b"")
            first -= len(tail)
        if first == len(joined):
            return len(data)
        place = _LineEnds(window).place(first)
        return len(data) - len(window) + place if _has_line_end(window[place:]) else len(data)

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
    return _SHAPED.sub(lambda found: f"{found['kept'] or ''}{MASK}", text) if _may_be_shaped(text) else text


def _may_be_shaped(text: str) -> bool:
    # Most text has none, and a search for the fixed part is many times as quick.
    return "eyJ" in text or "sig=" in text or ("=" in text and "sig=" in text.lower())


def _shaped(text: str, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where *data*, which is *text*, holds secrets by their shape."""
    if _may_be_shaped(text):
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


class Sink(Protocol):
    """The destination of bytes."""

    def write(self, data: bytes, /) -> object:
        """Write all of *data*."""

    def flush(self) -> None:
        """Hand on what was written."""


class Scrubber:
    """Takes secrets out of a stream of bytes, also one that arrives in pieces.

    At most the length of the longest secret is held back, and nothing after the end of a line. With *across*, secrets that line
    ends divide are found too: the end of a line waits for the next one where it is the beginning of a secret, at most twice as
    much.
    """

    def __init__(self, masker: Masker, *, across: bool = False) -> None:
        self._masker = masker
        self._across = across
        self._held = b""
        self._covered = 0  # how much of what is held back belongs to a mask that is already written
        self._before = b""  # the end of the last line that was shown, in which a secret may have begun

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        """Return the part of *data*, and of earlier data, that may be shown.

        With *final* all.
        """
        first = len(self._before)
        data = self._before + self._held + data
        keep = len(data) if final else max(first, self._masker.unfinished(data, across=self._across))
        # Nothing is of two lines: what begins in the last one ends there.
        spans = [span for span in self._masker.spans(data, across=self._across) if span[0] >= first]
        covered = first + self._covered
        if self._covered:
            while spans and spans[0][0] < covered:
                covered = max(covered, spans.pop(0)[1])
        out, position = bytearray(), covered
        for start, end in spans:
            if start >= keep:
                break
            out += data[position:start] + MASK.encode()
            position = end
        out += data[position:keep]
        self._held = data[keep:]
        self._covered = max(0, position - keep)
        self._before = self._context(data[:keep])
        return bytes(out)

    def _context(self, shown: bytes) -> bytes:
        """Return the last bytes of *shown* if a line ends there.

        A secret may continue after it.
        """
        return shown[-2 * _CUT_PREFIX :] if self._across and shown[-1:] in (b"\n", b"\r") else b""


class MaskingStream(io.RawIOBase):
    """A stream that passes all bytes but secrets on to *sink*; see :class:`Scrubber`."""

    def __init__(self, sink: Sink | BinaryIO, masker: Masker) -> None:
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
