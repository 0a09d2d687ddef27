"""Placeholders for everything that may be someone's; equality and form stay.

Texts are dropped unless something says that they are the service's own: an answer of an unknown shape loses texts, and
reveals none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from aml_train.azure.parity.words import (
    FREE_WORDS,
    HEADERS,
    HOST_SUFFIXES,
    KEY,
    MAP_KEYS,
    MESSAGE_KEYS,
    PATH_WORDS,
    PUBLIC_HOSTS,
    SERVICE_KEY,
    WORD,
    WORD_KEYS,
)

GUID: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
TIME: Final = (
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?P<fraction>\.\d+)?(?P<zone>Z|[+-]\d{2}:?\d{2})?"
    r"|[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT"
)
_SIGNED: Final = r"eyJ[\w-]+\.[\w-]*(?:\.[\w-]*)?"
_EMAIL: Final = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_ADDRESS: Final = r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w)(?!\.\d)"
_HEX: Final = r"(?<![0-9a-zA-Z])(?:(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{12,}|[0-9a-fA-F]{16,})(?![0-9a-zA-Z])"
_BASE64: Final = (
    r"(?<![\w+/])(?:(?=[\w+/-]*\d)(?=[\w+/-]*[A-Z])(?=[\w+/-]*[a-z])[\w+/-]{20,}={0,2}|[\w+/-]{20,}={1,2})"
)
_HOST: Final = (
    r"(?<![\w.@-])(?:[a-z0-9-]+\.)+(?:com|net|org|io|ms|us|cn|de|dev|cloud|local|internal)(?::\d+)?(?!\w)(?!\.\w)"
)
_DURATION: Final = re.compile(r"P(?=.)(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")
_SPAN: Final = re.compile(r"-?(\d+\.)?\d+:\d{2}:\d{2}(\.\d+)?")
# 16 or 32 of them are an id in hexadecimal digits that happens to have no letter: its form must not differ by chance.
_DIGITS: Final = re.compile(r"(?!(?:\d{16}|\d{32})\Z)-?\d+(\.\d+)?")
_VERSION: Final = re.compile(r"v?\d{1,2}\.\d{1,2}|\d{4}-\d{2}-\d{2}(-preview)?")
_PROVIDER: Final = re.compile(r"(?i:microsoft)\.[A-Za-z]+")
_SUFFIX: Final = re.compile(r"[-_]?[a-z]{0,24}(-[a-z]{1,12})?(\.txt)?")
_MESSAGE: Final = re.compile(
    "|".join(
        (
            r"(?P<url>[a-z]+://[^\s'\"<>,)]+)",
            r"(?P<arm>/subscriptions/[^\s'\"<>,)]+)",
            rf"(?P<jwt>{_SIGNED})",
            rf"(?P<email>{_EMAIL})",
            rf"(?P<guid>{GUID})",
            rf"(?P<when>{TIME.replace('?P<fraction>', '?:').replace('?P<zone>', '?:')})",
            rf"(?P<ip>{_ADDRESS})",
            rf"(?P<hex>{_HEX})",
            rf"(?P<base64>{_BASE64})",
            rf"(?P<host>{_HOST})",
            r"(?P<quoted>'[^']{1,300}'|\"[^\"]{1,300}\"|`[^`]{1,300}`|\[[^\]\s]{1,300}\])",
            # A word with a digit, an underscore, a slash or a dash in it may be a name.
            r"(?P<word>[\w./:@-]*[\d_/][\w./:@-]*|\w+-[\w-]+)",
        )
    )
)
_LONGEST: Final = 4000
_MOST_ITEMS: Final = 8
_NUMBERED: Final = re.compile(r":\d+>")

KINDS: Final = frozenset(
    [
        "name",
        "text",
        "lines",
        "guid",
        "hex",
        "base64",
        "jwt",
        "email",
        "ip",
        "host",
        "digits",
        "duration",
        "timespan",
        "json",
        "key",
        "value",
        "sas",
        "int",
        "float",
        "bytes",
        "etag",
        "size",
        "time",
        "time-z",
        "time-offset",
        "time-f",
        "time-f-z",
        "time-f-offset",
        "time-http",
    ]
)
ROLES: Final = frozenset(
    [
        "recording",
        "subscription",
        "group",
        "workspace",
        "compute",
        "tenant",
        "location",
        "account",
        "container",
        "registry",
        "identity",
    ]
)
PLACEHOLDER: Final = re.compile(
    rf"<({'|'.join(sorted(KINDS, key=len, reverse=True))})(?::({'|'.join(sorted(ROLES))}|\d+|e-?\d+))?>"
)
"""A placeholder: its kind, and its role, its number or the exponent of its size."""


class Scrubber:
    """Replaces values; one for a recording: equal values get equal placeholders.

    Args:
        learned: what is known to be someone's → its role, one of :data:`ROLES`, or empty.
        constants: the texts of the script.
        recording: the id of the recording, which the names of made resources begin with.
    """

    def __init__(self, learned: Mapping[str, str], constants: Iterable[str], recording: str) -> None:
        self._constants = frozenset(constants)
        self._recording = recording
        self._roles = {value.lower(): role for value, role in learned.items() if value}
        self._numbers: dict[tuple[str, str], int] = {}
        longest = sorted(self._roles, key=len, reverse=True)
        either = "|".join(re.escape(one) for one in longest) or "(?!)"
        self._learned = re.compile(rf"(?<![a-z0-9])(?:{either})(?![a-z0-9])", re.IGNORECASE)

    def placeholder(self, kind: str, value: str) -> str:
        """Return the placeholder of a value, the same one each time and in either case."""
        known = value.lower()
        role = self._roles.get(known)
        if role:
            return f"<name:{role}>"
        numbers = self._numbers.setdefault((kind, known), sum(one[0] == kind for one in self._numbers) + 1)
        return f"<{kind}:{numbers}>"

    # Values

    def value(self, value: Any, where: Sequence[str] = ()) -> Any:
        """Return a JSON value with placeholders.

        Args:
            where: the keys that lead to it.
        """
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self._number(value, where)
        if isinstance(value, str):
            return self.text(value, where)
        if isinstance(value, list):
            return self._items([self.value(item, where) for item in value])
        free = bool(where) and where[-1] in MAP_KEYS and not _is_resource(where, value)
        return {
            # A value below a key that someone chose is no word of the service, whatever the key is.
            self._key(str(key), free=free): self.value(item, (*where, "*" if free else str(key)))
            for key, item in value.items()
        }

    def _items(self, items: list[Any]) -> list[Any]:
        """Return the items that differ in more than the numbers of placeholders."""
        kept: dict[str, Any] = {}
        for item in items:
            kept.setdefault(_NUMBERED.sub(">", json.dumps(item, sort_keys=True)), item)
        return list(kept.values())[:_MOST_ITEMS]

    def _key(self, key: str, *, free: bool) -> str:
        if key in self._constants or SERVICE_KEY.fullmatch(key):
            return key if not self._holds(key) else self.placeholder("key", key)
        if free:
            return self.path(key) if "/" in key else self.placeholder("key", key)
        plain = KEY.fullmatch(key) and not self._holds(key) and not _is_secret_like(key)
        return key if plain else self.placeholder("key", key)

    def _number(self, value: Any, where: Sequence[str]) -> Any:
        status = bool(where) and where[-1] in ("statusCode", "status") and 100 <= value < 600
        if status or str(value) in self._constants or value in (0, 1):
            return value
        kind = "float" if isinstance(value, float) else "int"
        return f"<{kind}:{_exponent(value)}>"

    def text(self, value: str, where: Sequence[str] = ()) -> str:
        """Return a text with placeholders; *where* are the keys that lead to it."""
        key = where[-1] if where else ""
        if not value:
            return ""
        if value.lower() in self._roles:
            return self._known_form(value)
        if value in self._constants or value in FREE_WORDS:
            return value
        is_code = key in WORD_KEYS or (key in ("code", "Code") and "error" in "".join(where).lower())
        if is_code and WORD.fullmatch(value) and not self._holds(value) and not _is_secret_like(value):
            return value
        if key in MESSAGE_KEYS:
            return self.message(value)
        return self.form(value)

    def _known_form(self, value: str) -> str:
        """Return the placeholder of a known value; an address keeps its form."""
        if not self._roles[value.lower()] and "/" in value and " " not in value:
            made = self.url(value) if "://" in value else self.path(value)
            if made.lower() != value.lower():
                return made
        kind = next((kind for kind, pattern in _WHOLE if pattern.fullmatch(value)), "name")
        return self._timed(value) if kind == "time" else self.placeholder(kind, value)

    def form(self, value: str) -> str:
        """Return the placeholder of a text by its form."""
        if value.lower() in self._roles:
            return self._known_form(value)
        if (made := self._of_recording(value)) is not None:
            return made
        for kind, pattern in _WHOLE:
            if pattern.fullmatch(value):
                return self._timed(value) if kind == "time" else self.placeholder(kind, value)
        if _DURATION.fullmatch(value):
            return "<duration>"
        if _SPAN.fullmatch(value):
            return "<timespan>"
        if re.match(r"[a-z][a-z0-9+.-]*://", value):
            return self.url(value)
        if value.startswith("azureml:"):
            return f"azureml:{self.path(value.removeprefix('azureml:'))}"
        if value[:1] in "{[" and _is_json(value):
            return self.placeholder("json", value)
        if "\n" in value:
            return self.placeholder("lines", value)
        if "/" in value and " " not in value:
            return self.path(value)
        return self.placeholder("text", value)

    def _of_recording(self, value: str) -> str | None:
        """Return a name that the recording made, with its own ending."""
        for known in (self._recording, self._recording.replace("-", "_")):
            if value.startswith(known) and _SUFFIX.fullmatch(value[len(known) :]):
                return f"<name:recording>{value[len(known) :]}"
        return None

    def _timed(self, value: str) -> str:
        found = re.fullmatch(TIME, value)
        if value[:1].isalpha() or found is None:
            return self.placeholder("time-http", value)
        zone = {"Z": "-z", None: ""}.get(found["zone"], "-offset")
        return self.placeholder(f"time{'-f' * bool(found['fraction'])}{zone}", value)

    # Addresses

    def url(self, value: str) -> str:
        """Return an address with the service's words in clear."""
        try:
            parts = urlsplit(value)
        except ValueError:
            return self.placeholder("text", value)
        host = self.host(parts.netloc)
        query = "&".join(
            f"{self._key(name, free=False)}={self._query(name, text)}" for name, text in _pairs(parts.query)
        )
        return f"{parts.scheme}://{host}{self.path(parts.path)}{'?' * bool(query)}{query}"

    def _query(self, name: str, text: str) -> str:
        if not text or name == "sig":
            return "" if not text else "<sas>"
        if (
            _VERSION.fullmatch(text)
            or text in self._constants
            or text in FREE_WORDS
            or text in ("ActiveOnly", "1", "5")
        ):
            return text if not self._holds(text) else self.placeholder("value", text)
        return self._of_recording(text) or self.placeholder("value", text)

    def host(self, value: str) -> str:
        """Return a host: the service's own part in clear."""
        name = value.lower().rpartition("@")[2].partition(":")[0]
        if name in PUBLIC_HOSTS:
            return name
        for suffix in HOST_SUFFIXES:
            if name == suffix:
                return name
            if name.endswith(f".{suffix}"):
                labels = name.removesuffix(f".{suffix}").split(".")
                return ".".join((*(self.placeholder("host", one) for one in labels), suffix))
        return self.placeholder("host", value)

    def path(self, value: str) -> str:
        """Return a path: words of the service in clear."""
        return "/".join(self._segment(unquote(part)) for part in value.split("/"))

    def _segment(self, part: str) -> str:
        if not part:
            return ""
        if part.lower() in self._roles:
            return self.placeholder("name", part)
        if part.startswith("dcid."):
            return f"dcid.{self._segment(part.removeprefix('dcid.'))}"
        public = (
            part in PATH_WORDS or part in self._constants or _PROVIDER.fullmatch(part) or _VERSION.fullmatch(part)
        )
        if public and not self._holds(part):
            return part
        head, colon, tail = part.partition(":")
        if colon and head and tail:
            return f"{self._segment(head)}:{self._segment(tail)}"
        if "/" in part:  # it was quoted
            return "%2F".join(self._segment(one) for one in part.split("/"))
        made = self._of_recording(part)
        if made is not None:
            return made
        for kind, pattern in _WHOLE:
            if kind in ("guid", "hex", "digits") and pattern.fullmatch(part):
                return self.placeholder(kind, part)
        return self.placeholder("name", part)

    # Texts that the service wrote

    def message(self, value: str) -> str:
        """Return a text of the service, with placeholders for what may be someone's."""
        return _MESSAGE.sub(self._replace, self._without_names(value[:_LONGEST]))

    def _without_names(self, value: str) -> str:
        """Return the text with known names replaced; addresses are read as a whole later."""
        whole = [match.span() for match in _MESSAGE.finditer(value) if match.lastgroup in ("url", "arm", "email")]
        made, at = [], 0
        for start, end in whole:
            made += [self._learned.sub(lambda match: self._known(match[0]), value[at:start]), value[start:end]]
            at = end
        return "".join((*made, self._learned.sub(lambda match: self._known(match[0]), value[at:])))

    def _known(self, value: str) -> str:
        return self.placeholder("name", value)

    def _replace(self, match: re.Match[str]) -> str:
        kind, text = match.lastgroup or "", match[0]
        if kind == "quoted":
            return f"{text[0]}{self._quoted(text[1:-1])}{text[-1]}"
        trailing = text[len(text.rstrip(".:,;")) :]
        bare = text.removesuffix(trailing) if trailing else text
        return f"{self._piece(kind, bare)}{trailing}"

    def _piece(self, kind: str, text: str) -> str:
        if kind == "url":
            return self.url(text)
        if kind == "arm":
            return self.path(text)
        if kind == "when":
            return self._timed(text)
        if kind == "host":
            return self.host(text)
        if kind == "word":
            public = text in PATH_WORDS or text in self._constants or _VERSION.fullmatch(text) or text.isalpha()
            return text if public or not text or PLACEHOLDER.fullmatch(f"<{text}>") else self._worded(text)
        return self.placeholder(kind, text)

    def _worded(self, text: str) -> str:
        if re.fullmatch(r"[a-z]+(-[a-z]+)+", text) or re.fullmatch(r"[1-5]\d\d", text):
            # "api-version", "non-empty"; a status of HTTP.
            return text if not self._holds(text) else self.placeholder("name", text)
        return self.form(text)

    def _quoted(self, text: str) -> str:
        if PLACEHOLDER.fullmatch(text) or text in self._constants or text in PATH_WORDS or text in FREE_WORDS:
            return text
        if PLACEHOLDER.search(text):
            return _MESSAGE.sub(self._replace, text)
        return self.form(text)

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that clients act on."""
        return {
            name.lower(): self._header(name.lower(), value)
            for name, value in sorted(headers.items(), key=lambda item: item[0].lower())
            if name.lower() in HEADERS
        }

    def _header(self, name: str, value: str) -> str:
        if name == "content-type":
            return value.partition(";")[0].strip().lower()
        if name == "www-authenticate":
            scheme, _, rest = value.partition(" ")
            names = sorted(re.findall(r'(\w+)="', rest))
            return f"{scheme} {' '.join(names)}".strip() if re.fullmatch(r"\w{1,20}", scheme) else "<text>"
        if name == "content-range":
            return re.sub(r"\d+", "N", value) if re.fullmatch(r"bytes [\d*]+(-\d+)?/[\d*]+", value) else "<text>"
        if name in ("etag", "retry-after"):
            return "<etag>" if name == "etag" else "<digits>"
        plain = ("accept-ranges", "allow", "x-ms-error-code", "x-ms-blob-type", "x-ms-version", "x-ms-response-type")
        docker = "docker-distribution-api-version"
        if name in (*plain, docker, "x-ms-async-operation-timeout") and re.fullmatch(r"[\w/., -]{1,60}", value):
            return value if not self._holds(value) and not _is_secret_like(value) else "<text>"
        formed = self.form(value)
        # Ids of requests are new each time: their form is all that is kept.
        return _NUMBERED.sub(">", formed) if name.endswith(("-id", "modified", "-time")) else formed

    def _holds(self, text: str) -> bool:
        return self._learned.search(text) is not None


def body_of(content: bytes, content_type: str, scrubber: Scrubber, constants: Iterable[str]) -> Any:
    """Return a body with placeholders.

    Of one that is no JSON, size, error code and texts of the script are kept.
    """
    if not content:
        return None
    try:
        return scrubber.value(json.loads(content))
    except (ValueError, RecursionError):
        text = content[:_LONGEST].decode("utf-8", errors="replace")
    kept: dict[str, Any] = {
        "body": "xml" if "xml" in content_type else "bytes",
        "size": f"<size:{_exponent(len(content))}>",
    }
    if (code := re.search(r"<Code>([A-Za-z]{3,60})</Code>", text)) and kept["body"] == "xml":
        kept["code"] = scrubber.text(code[1], ("error", "code"))
    kept["holds"] = sorted({one.strip() for one in constants if len(one.strip()) > 12 and one.strip() in text})
    return kept


def _is_resource(where: Sequence[str], value: Mapping[str, Any]) -> bool:
    """Return whether ``properties`` are fields of a resource."""
    return (
        where[-1] == "properties"
        and "properties" not in where[:-1]
        and not all(isinstance(item, str) for item in value.values())
    )


def _is_secret_like(text: str) -> bool:
    return any(re.search(pattern, text) for pattern in (GUID, _HEX, _BASE64, _SIGNED, _EMAIL, _ADDRESS, _HOST))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _exponent(value: float) -> str:
    size = abs(value)
    if size == 0 or size != size or size == float("inf"):
        return "e0"
    return f"e{len(str(int(size))) - 1}" if size >= 1 else "e-1"


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True)


_WHOLE: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("time", re.compile(TIME)),
    ("guid", re.compile(GUID)),
    ("jwt", re.compile(_SIGNED)),
    ("email", re.compile(_EMAIL)),
    ("ip", re.compile(_ADDRESS)),
    ("digits", _DIGITS),
    ("hex", re.compile(_HEX)),
    ("base64", re.compile(_BASE64)),
    ("host", re.compile(_HOST)),
)


def time_class(seconds: float) -> str:
    """Return the class of a duration."""
    return "moment" if seconds < 5 else "seconds" if seconds < 30 else "minutes"
