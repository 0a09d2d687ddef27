"""Answers of services: decoded, checked and bounded, wrong ones made our errors.

Pure.

A service, or a proxy in front of it, can answer with anything: HTML with status 200, another JSON type than documented, a list whose pages
never end. Nothing here trusts an answer: each value is read through an accessor that names its place and its type when it is wrong.
"""

from __future__ import annotations

import datetime
import email.utils
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, overload
from urllib.parse import SplitResult, urlsplit

#: Bytes of one answer of JSON. The longest known are pages of 25,000 values of a metric, about 2 MB.
MOST_BYTES: Final = 64 << 20
#: Levels of nesting. Azure's deepest answers have about ten; json's own limit depends on the stack that is left.
MOST_DEPTH: Final = 100
#: Pages of one list.
MOST_PAGES: Final = 10_000
#: The whole numbers that Azure writes are of 64 bits.
_MOST_WHOLE: Final = 1 << 63
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_ODD: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


Number = float | Literal["NaN", "Infinity", "-Infinity"]
"""JSON knows no numbers that are not finite."""


@overload
def json_number(value: float) -> Number: ...
@overload
def json_number(value: float | None) -> Number | None: ...
def json_number(value: float | None) -> Number | None:
    """Return a number as JSON can have it; None for None.

    NaN and infinities become the names that :meth:`Answer.number` reads.
    """
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


Fail = Callable[[str], Exception]
"""Makes the error of an answer from what is wrong in it, which it puts after the name of the service."""


#: What Azure's SDKs raise when an answer is not as they expect: they check little, and decode outside their own errors. urllib3
#: raises RuntimeError when requests reads the body of a redirect that cannot be decoded (``Session.resolve_redirects``, 2.32).
MISREAD: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError)


class UndecodableError(ValueError):
    """A body that is not the JSON that can be used."""


def decode(content: bytes, *, unique: bool = False) -> Any:
    """Return the JSON value of a body.

    Args:
        unique: refuse an object that has a member twice. Readers differ in which one counts, so that a signed document could
            mean one thing here and another thing elsewhere.

    Raises:
        UndecodableError: it is no JSON, or is too large or nested too deeply to be the expected answer.
    """
    if len(content) > MOST_BYTES:
        raise UndecodableError(f"has more than {MOST_BYTES >> 20} MiB")
    try:
        value = json.loads(content, object_pairs_hook=_unique if unique else None)
    except RecursionError:
        raise UndecodableError("is nested too deeply") from None
    except UndecodableError:
        raise
    except ValueError as error:
        raise UndecodableError(_why(content, error)) from None
    if not _is_shallow(value):
        raise UndecodableError("is nested too deeply")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UndecodableError(f"has the member {twice[:40]!r} twice")
    return members


def _why(content: bytes, error: ValueError) -> str:
    start = content[:200].lstrip().lower()
    if not start:
        return "is empty"
    if start.startswith((b"<!doctype", b"<html")):
        return "is a page of HTML, as a proxy or a firewall sends it"
    return f"is not JSON ({error})"


def _is_shallow(value: object) -> bool:
    level = [value]
    for _ in range(MOST_DEPTH):
        parts = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [child for part in parts for child in part]
        if not level:
            return True
    return False


def check_format(found: object, known: int) -> None:
    """Refuse a document with another number of its format than this version reads.

    Raises:
        ValueError: the number is not *known*.
    """
    if isinstance(found, bool) or found != known:
        raise ValueError(
            f"its format is {str(found)[:40]}, and this version of aml-train reads {known}: use the version that wrote it"
        )


def clean(text: str) -> str:
    """Return *text* without halves of surrogate pairs, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@dataclass(frozen=True, slots=True)
class Answer:
    """A value in an answer, with its place.

    A path is the keys down to a member, with dots between them.

    A member that is missing and one that is ``null`` are the same.

    Attributes:
        value: as decoded from JSON.
        fail: makes the error for a value of another type.
        place: its path in the whole answer; empty for the answer itself.
        date: when the service answered, by its own clock; None for parts, and if it did not say.
    """

    value: Any = field(repr=False)
    fail: Fail = field(repr=False)
    place: str = ""
    date: datetime.datetime | None = None

    def at(self, path: str) -> Answer:
        """Return the member at *path*. A missing object on the way counts as empty."""
        value, place = self.value, self.place
        for key in path.split("."):
            if value is not None and not isinstance(value, dict):
                raise self._wrong(value, place, "an object")
            value, place = (value or {}).get(key), f"{place}.{key}" if place else key
        return Answer(value, self.fail, place)

    def has(self, path: str) -> bool:
        """Return whether there is a member at *path*, of any type."""
        return self.at(path).value is not None

    def text(self, path: str) -> str:
        """Return the text at *path*, which must not be empty."""
        found = self.optional_text(path)
        if not found:
            raise self._wrong(found, self.at(path).place, "a text")
        return found

    def optional_text(self, path: str) -> str | None:
        """Return the text at *path*; None if there is none."""
        found = self.at(path)
        if found.value is None:
            return None
        if not isinstance(found.value, str):
            raise self._wrong(found.value, found.place, "a text")
        return clean(found.value)

    def literal(self, path: str) -> str | None:
        """Return the text, number or truth value at *path* as text; None if there is none."""
        found = self.at(path)
        if found.value is None:
            return None
        if not isinstance(found.value, str | int | float):
            raise self._wrong(found.value, found.place, "a text or a number")
        return clean(str(found.value))

    def whole(self, path: str) -> int | None:
        """Return the whole number at *path*; None if there is none.

        JSON of protocol buffers writes 64 bits as text.
        """
        found = self.at(path)
        value = found.value
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not -_MOST_WHOLE <= value < _MOST_WHOLE:
            raise self._wrong(found.value, found.place, "a whole number of 64 bits")
        return value

    def number(self, path: str) -> float:
        """Return the number at *path*, also as JSON of protocol buffers writes it.

        It may be NaN or infinite.
        """
        found = self.at(path)
        value = found.value
        if isinstance(value, str) and value in _ODD:
            return _ODD[value]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(value, found.place, "a number")
        try:
            return float(value)
        except OverflowError:
            raise self._wrong(value, found.place, "a number of 64 bits") from None

    def flag(self, path: str) -> bool:
        """Return the truth value at *path*, False if there is none."""
        found = self.at(path)
        if found.value is not None and not isinstance(found.value, bool):
            raise self._wrong(found.value, found.place, "true or false")
        return bool(found.value)

    def time(self, path: str) -> datetime.datetime | None:
        """Return the time at *path*, in ISO 8601; None if there is none.

        The default zone is UTC.
        """
        text = self.optional_text(path)
        if not text:
            return None
        try:
            found = datetime.datetime.fromisoformat(text)
            # Times at both ends of the calendar have no equivalent in other zones.
            return found.replace(tzinfo=datetime.UTC) if found.tzinfo is None else found.astimezone(datetime.UTC)
        except (ValueError, OverflowError):
            raise self._wrong(text, self.at(path).place, "a time of ISO 8601") from None

    def mapping(self, path: str = "") -> dict[str, Any]:
        """Return the object at *path* as it is; an empty one if there is none."""
        found = self.at(path) if path else self
        if found.value is not None and not isinstance(found.value, dict):
            raise self._wrong(found.value, found.place, "an object")
        return found.value or {}

    def texts(self, path: str) -> dict[str, str]:
        """Return the object of texts at *path*, without ``null`` members.

        Empty if there is none.
        """
        found = self.at(path)
        members = {clean(key): value for key, value in found.mapping().items() if value is not None}
        for key, value in members.items():
            if not isinstance(value, str):
                raise self._wrong(value, f"{found.place}.{key}", "a text")
        return {key: clean(value) for key, value in members.items()}

    def list_of_texts(self, path: str) -> list[str]:
        """Return the list of texts at *path*; an empty one if there is none."""
        found = self.at(path)
        if found.value is not None and not isinstance(found.value, list):
            raise self._wrong(found.value, found.place, "a list")
        for value in found.value or ():
            if not isinstance(value, str):
                raise self._wrong(value, f"{found.place}[]", "a text")
        return [clean(value) for value in found.value or ()]

    def members(self, path: str) -> Iterator[tuple[str, Answer]]:
        """Yield name and value of each member of the object at *path*."""
        found = self.at(path)
        for key, value in found.mapping().items():
            yield clean(key), Answer(value, self.fail, f"{found.place}.{clean(key)}")

    def each(self, path: str) -> Iterator[Answer]:
        """Yield the objects of the list at *path*; nothing if there is none."""
        found = self.at(path) if path else self
        if found.value is not None and not isinstance(found.value, list):
            raise self._wrong(found.value, found.place, "a list")
        for number, value in enumerate(found.value or ()):
            place = f"{found.place}[{number}]"
            if not isinstance(value, dict):
                raise self._wrong(value, place, "an object")
            yield Answer(value, self.fail, place)

    def _wrong(self, value: object, place: str, wanted: str) -> Exception:
        return self.fail(f"{_named(place)} {_kind(value)} where {wanted} was expected")


def _named(place: str) -> str:
    shown = place if len(place) <= 120 else f"{place[:120]}…"
    return f"has in `{shown}`" if place else "is"


def _kind(value: object) -> str:
    """Return what a value is, without showing it: it may be a secret."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text" if value else "an empty text"
        case list():
            return "a list"
        case _:
            return "an object"


class Pages:
    """Bounds the pages of one list.

    An answer that names the same next page twice, or always another one, never ends.

    Args:
        fail: makes the error.
        most: how many pages there may be.
    """

    def __init__(self, fail: Fail, most: int = MOST_PAGES) -> None:
        self._fail = fail
        self._most = most
        self._seen: set[str] = set()

    def follow(self, mark: str) -> str:
        """Return *mark*, which names the next page.

        Raise an error if the bound is exceeded.
        """
        if mark in self._seen:
            raise self._fail("names a next page that it has named before")
        if len(self._seen) + 2 > self._most:
            raise self._fail(f"has more than {self._most} pages")
        self._seen.add(mark)
        return mark


def pages_of(ask: Callable[[str | None], Answer | None], key: str, most: int = MOST_PAGES) -> Iterator[Answer]:
    """Yield the pages of a list; none if it does not exist.

    Args:
        ask: returns the first page for None, else the page of a mark; None if there is none.
        key: names the mark of the next page.
        most: how many pages there may be.
    """
    page = ask(None)
    pages = Pages(page.fail, most) if page is not None else None
    while page is not None and pages is not None:
        yield page
        mark = page.optional_text(key)
        page = ask(pages.follow(mark)) if mark else None


def split(url: str) -> SplitResult | None:
    """Return the parts of an address that a service named.

    None if it is not http or https.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return None
    return parts if usable else None


def is_within(url: str, base: str) -> bool:
    """Return whether *url* may get the token for *base*.

    Same host and port, or a subdomain.
    """
    parts, own = split(url), split(base)
    if parts is None or own is None or parts.scheme != own.scheme or "@" in parts.netloc:
        return False
    default = 443 if own.scheme == "https" else 80
    host, wanted = str(parts.hostname), str(own.hostname)
    return (parts.port or default) == (own.port or default) and (host == wanted or host.endswith(f".{wanted}"))


def date_of(headers: Mapping[str, str]) -> datetime.datetime | None:
    """Return when a service answered, by its own clock (RFC 9110, 6.6.1).

    None if unknown.
    """
    try:
        found = email.utils.parsedate_to_datetime(headers.get("Date") or "")
        return found.replace(tzinfo=datetime.UTC) if found.tzinfo is None else found.astimezone(datetime.UTC)
    except (ValueError, OverflowError, TypeError):
        return None


#: What to check if a service of Azure's does not answer at all.
REACH: Final = (
    "Check the network, HTTPS_PROXY and NO_PROXY; a service behind a private endpoint or a firewall answers only inside of these:"
    " docs/azure.md."
)
#: How Azure names a request, for its support; the first is the service's, the others are what several services share.
_IDS: Final = ("x-ms-request-id", "x-ms-correlation-request-id", "x-ms-client-request-id", "x-ms-error-code")
_ID: Final = re.compile(r"[!-~]{1,128}")
_DATE: Final = re.compile(r"[A-Za-z0-9,: +-]{1,40}")


def trace_of(headers: Mapping[str, str], *, now: datetime.datetime | None = None) -> str:
    """Return a request's ids in Azure's logs and the time of its answer, for support.

    Source: https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling and
    https://learn.microsoft.com/rest/api/storageservices/common-rest-response-headers.

    Args:
        headers: of the answer.
        now: the time of an answer that does not say it; the present by default.
    """
    ids = [(name, headers.get(name) or "") for name in _IDS]
    said = [f"{name} {text}" for name, text in ids if _ID.fullmatch(text)]
    date = headers.get("Date") or ""
    when = now or datetime.datetime.now(datetime.UTC)
    return ", ".join([*said, date if _DATE.fullmatch(date) else f"{when:%Y-%m-%d %H:%M:%S} UTC"])


def traced(error: Any) -> str:
    """Return :func:`trace_of` for an error of azure-core.

    Without an answer, its time alone.
    """
    return trace_of(getattr(getattr(error, "response", None), "headers", None) or {})
