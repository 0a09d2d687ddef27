"""The second pass: prove that a scrubbed recording holds nothing that was learned.

It shares no pattern with :mod:`aml_train.azure.parity.scrub`: a fault of the one is no fault of the other. It knows everything that
was seen in clear, and looks for it and for texts of the forms that ids and secrets have.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from aml_train.azure.parity.words import FREE_WORDS, HOST_SUFFIXES, PUBLIC_HOSTS, WORD_KEYS

_OWN: Final = frozenset({"kind", "step", "method", "time", "call", "why"})
"""Fields of a line with words of this program alone."""

_MARK: Final = re.compile(
    r"<(?:name|text|lines|guid|hex|base64|jwt|email|ip|host|digits|duration|timespan|json|key|value|sas|int|float|bytes|etag|size"
    r"|time(?:-f)?(?:-z|-offset|-http)?)"
    r"(?::(?:\d+|e-?\d+|recording|subscription|group|workspace|compute|tenant|location|account|container|registry|identity))?>"
)
_FORMS: Final[Mapping[str, re.Pattern[str]]] = {
    "a GUID": re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE),
    "a token": re.compile(r"eyJ[A-Za-z0-9_-]{6,}"),
    "an e-mail address": re.compile(r"[^\s@<>\"]+@[^\s@<>\"]+\.[a-z]{2,}", re.IGNORECASE),
    "an IP address": re.compile(
        r"(?<![\d.])(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}(?!\d)(?!\.\d)"
    ),
    "an IPv6 address": re.compile(r"(?<![\w:])(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}(?![\w:])", re.IGNORECASE),
    "a time": re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d GMT"),
    "a long number in hexadecimal": re.compile(
        r"(?<![0-9a-z])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{16,}(?![0-9a-z])", re.IGNORECASE
    ),
    "a signature": re.compile(r"(?:sig|se|skoid|sktid|sharedaccesskey|accountkey)=(?!<)[^&\s\"<]{4,}", re.IGNORECASE),
}
_RUN: Final = re.compile(r"[A-Za-z0-9+=_-]{20,}")
_HOST: Final = re.compile(
    r"(?<![\w.@>-])[\w-]+(?:\.[\w-]+)*\.(?:com|net|org|io|ms|us|cn)(?!\w)(?![.-]\w)", re.IGNORECASE
)
_LEAST: Final = 3
"""Characters: a shorter value is found only as a whole text."""


@dataclass(frozen=True, kw_only=True)
class Remain:
    """Something that is left. The value itself is never part of it.

    Attributes:
        line: of the file, one-based.
        place: keys that lead to it.
        what: its kind.
    """

    line: int
    place: str
    what: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.place}: {self.what}"


def prove(lines: Iterable[str], learned: Mapping[str, str], public: Collection[str]) -> list[Remain]:
    """Return what is left in a recording of what was learned.

    Args:
        lines: of the recording.
        learned: everything that was seen in clear and may be someone's → what it is.
        public: texts that the script itself holds.
    """
    known = _Known(learned, public)
    found: list[Remain] = []
    for number, line in enumerate(lines, 1):
        for place, text, is_own in _texts(json.loads(line), ""):
            found += [Remain(line=number, place=place, what=what) for what in known.left(text, is_own=is_own)]
    return found


class _Known:
    """Looks for learned values and for forms in a text."""

    def __init__(self, learned: Mapping[str, str], public: Collection[str]) -> None:
        self._public = frozenset(public)
        self._short: dict[str, str] = {}
        self._words: dict[str, str] = {}
        for value, what in learned.items():
            for one in _spellings(value):
                if one in self._public:
                    continue
                (self._words if len(one) >= _LEAST else self._short)[one.lower()] = what
        # One search for the words of a text is quicker than one for each known value.
        self._parts = re.compile(r"[a-z0-9]+", re.IGNORECASE)
        self._first: dict[str, list[str]] = {}
        self._bare: list[str] = []
        for one in self._words:
            match = self._parts.search(one)
            if match is None:
                self._bare.append(one)
            else:
                self._first.setdefault(match[0], []).append(one)

    def left(self, text: str, *, is_own: bool) -> Iterator[str]:
        """Yield the kinds of what is left in a text."""
        bare = _MARK.sub(" ", text)
        if is_own or not bare.strip() or text in self._public:
            return
        small = bare.lower()
        if small.strip() in self._short:
            yield self._short[small.strip()]
        tokens = {match[0] for match in self._parts.finditer(small)}
        for token in tokens:
            for one in self._first.get(token, ()):
                if re.search(rf"(?<![a-z0-9]){re.escape(one)}(?![a-z0-9])", small):
                    yield self._words[one]
        for one in self._bare:
            if one in small:
                yield self._words[one]
        yield from _formed(bare)


def _formed(text: str) -> Iterator[str]:
    for what, pattern in _FORMS.items():
        if pattern.search(text):
            yield what
    for match in _RUN.finditer(text):
        run = match[0]
        if (
            any(one.isdigit() for one in run)
            and any(one.isupper() for one in run)
            and any(one.islower() for one in run)
        ):
            yield "a text like a key"
    for match in _HOST.finditer(text):
        name = match[0].lower()
        if name not in PUBLIC_HOSTS and name not in HOST_SUFFIXES:
            yield "a host"


def _texts(value: Any, place: str) -> Iterator[tuple[str, str, bool]]:
    """Yield each text and key: place, text, and whether it is this program's word."""
    if isinstance(value, Mapping):
        for number, (key, item) in enumerate(value.items()):
            top = place == ""
            if not top:
                yield f"{place}, key {number + 1}", str(key), False
            if isinstance(item, str):
                yield (
                    f"{place}.{key}" if _plain(str(key)) else f"{place}.(key {number + 1})",
                    item,
                    top and key in _OWN,
                )
            else:
                yield from _texts(item, f"{place}.{key}" if _plain(str(key)) else f"{place}.(key {number + 1})")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, f"{place}[{number}]")
    elif isinstance(value, str):
        yield place, value, False
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place, str(value), False


def _plain(key: str) -> bool:
    """Return whether a key can be shown in a message: letters alone."""
    return re.fullmatch(r"[a-zA-Z@-]{1,40}", key) is not None


def _spellings(value: str) -> Iterator[str]:
    """Yield a value as it may be written."""
    yield value
    for other in (
        quote(value, safe=""),
        unquote(value),
        json.dumps(value)[1:-1],
        value.replace("-", ""),
        value.replace("-", "_"),
    ):
        if other != value and len(other) >= _LEAST:
            yield other
    if len(value) >= 6:
        encoded = base64.b64encode(value.encode()).decode().rstrip("=")
        yield encoded
        yield encoded.replace("+", "-").replace("/", "_")


def learned_of(value: Any, what: str, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in a JSON value that may be someone's, with what they are.

    Left out are words of the service: values of keys that hold such, and values that every workspace may have.
    """
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from learned_of(item, what, str(name))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from learned_of(item, what, key)
    elif isinstance(value, str) and len(value) > _LEAST and key not in WORD_KEYS and value not in FREE_WORDS:
        yield value, what


_CLEAR: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|eyJ[\w-]+(?:\.[\w-]+)*|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<!\d)\d{1,3}(?:\.\d{1,3}){3}(?!\d)"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.]*|(?:[\w-]+\.)+(?:com|net|org|io|ms|us|cn)\b|[A-Za-z0-9+/]{60,}={0,2}|[\w+=-]{16,}"
)
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]+", re.IGNORECASE)


def seen_in(text: str) -> Iterator[str]:
    """Yield the texts in an answer that look like an id, a secret or a host."""
    for match in _CLEAR.finditer(text):
        found = match[0]
        if found.lower() in PUBLIC_HOSTS or found.lower() in HOST_SUFFIXES:
            continue
        mixed = any(one.isupper() for one in found) and any(one.islower() for one in found)
        is_key = len(found) >= 16 and any(one.isdigit() for one in found) and (mixed or _HEXADECIMAL.fullmatch(found))
        if is_key or "." in found or "@" in found or ":" in found or _FORMS["a GUID"].fullmatch(found):
            yield found


def claims(token: str) -> Mapping[str, Any]:
    """Return the claims of a token; none of a text that is no token."""
    try:
        part = token.split(".")[1]
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError, binascii.Error, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
