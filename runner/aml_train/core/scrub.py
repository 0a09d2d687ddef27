"""Scrub texts and JSON: no secrets, ids and names, the same form. Pure.

The rule is an allow-list. A token, which is a run of letters and digits, stays if it is a word of the product's own source, a short
number or a part of a time. Every other token becomes a placeholder: the same one for the same token, so that equality is kept. Ids,
hashes, addresses and e-mails get placeholders of their form.

:func:`unexplained` is the second pass. It shares neither code nor patterns with the first one, and reads the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from aml_train.core.masking import MASK, Masker
from aml_train.core.secrets import named_secret
from aml_train.core.values import dataclass

#: Fields whose values are a user's as a whole, not a word of which is needed.
PRIVATE: Final = frozenset(
    {
        "environment_variables",
        "environmentvariables",
        "env",
        "build_args",
        "description",
        "createdby",
        "lastmodifiedby",
        "username",
        "userobjectid",
        "userpuid",
        "useridp",
        "usertenantid",
        "display_name",
    }
)
#: Fields whose names sound like secrets, and which a reading needs.
_NO_SECRETS: Final = frozenset({"key", "continuationToken", "skipToken", "next_page_token"})
_SIGNATURE: Final = re.compile(r"(\b(?:sig|AccountKey|SharedAccessKey)=)(?!\*\*\*)[^&;\s\"]+", re.I)
_PIECES: Final = r"""(?P<pem>-----BEGIN[^-]*-----(?s:.*?)(?:-----END[^-]*-----|\Z))
    | (?P<mail>[\w.+%-]+@[\w-]+(?:\.[\w-]+)+)
    | (?P<guid>(?<![^\W_])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![^\W_]))
    | (?P<time>(?<![^\W_])(?a:\d{4}-\d\d-\d\d(?:[T\ ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?)(?![^\W_])
      | (?a:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),\ \d\d\ [A-Z][a-z][a-z]\ \d{4}\ \d\d:\d\d:\d\d\ GMT)(?![^\W_]))
    | (?P<ip>(?<![^\W_])(?<!\.)(?a:(?:\d{1,3}\.){3}\d{1,3})(?![^\W_]|\.[0-9]))
    | (?P<term>(?<![^\W_])(?:TERMS)(?![^\W_]))
    | (?P<token>[^\W_]+)
    | (?P<sign>[^\x00-\x7f])"""
_HEX: Final = re.compile(r"[0-9a-fA-F]{12,}")
_HEX_HEAD: Final = 12
#: Digits of numbers that are kept: line numbers, exit codes, sizes, statuses, years.
_DIGITS: Final = 6
#: How often a text may be URL-quoted.
_MOST_QUOTED: Final = 4
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_LOCAL: Final = ("127.0.0.1", "0.0.0.0")  # noqa: S104 - nothing is bound


class Scrubber:
    """Replaces what is not ours; the same text has the same placeholder.

    Args:
        words: tokens that are kept, in lower case: those of the product's source.
        terms: names that are replaced as a whole even if they consist of such words: of a workspace, a host, a person.
        masker: secrets, which become ``***``.
    """

    def __init__(self, *, words: Collection[str], terms: Iterable[str] = (), masker: Masker | None = None) -> None:
        self._words = words
        self._mask: Callable[[str], str] = (lambda text: text) if masker is None else masker.mask
        self._numbers: dict[str, dict[str, int]] = {}
        self._done: dict[str, str] = {}
        #: Each text that was replaced.
        self.originals: set[str] = set()
        # A name that is one of our words says nothing; as a word of an address it must stay.
        self.terms = frozenset(
            term for term in terms if len(term) > 1 and not self._keeps(term) and not _DATE.match(term)
        )
        longest = sorted(self.terms, key=lambda term: (-len(term), term))
        bounded = "|".join(re.escape(term) for term in longest) or "(?!)"
        self._pieces = re.compile(_PIECES.replace("TERMS", f"(?i:{bounded})"), re.X)

    def text(self, text: str) -> str:
        """Return *text* with every token that is not ours replaced."""
        if text not in self._done:
            self._done[text] = self._text(text)
        return self._done[text]

    def _text(self, text: str) -> str:
        text = self._mask(text)
        for _ in range(_MOST_QUOTED):  # `%2Fname` is a name, too
            plain = self._mask(unquote(text)) if "%" in text else text
            if plain == text:
                break
            text = plain
        return self._pieces.sub(self._piece, _SIGNATURE.sub(rf"\1{MASK}", text))

    def whole(self, text: str) -> str:
        """Return a placeholder of *text* as a whole; of an empty text, the same."""
        return self._name(text) if text.strip() else text

    def json(self, value: Any, *, metrics: Collection[str] | None = None) -> Any:
        """Return the shape of a JSON value: fields, types, numbers and our words.

        Args:
            value: as :func:`json.loads` returns it.
            metrics: the names whose values are kept, where the answer is about metrics; None for all numbers.
        """
        return self._value(value, "", metrics=metrics)

    def _value(self, value: Any, field: str, *, metrics: Collection[str] | None) -> Any:
        lower = field.lower()
        if isinstance(value, dict):
            return self._members(value, lower, metrics)
        if isinstance(value, list):
            return [self._value(one, field, metrics=metrics) for one in value]
        if not isinstance(value, str):
            return value
        if named_secret(field) and field not in _NO_SECRETS:
            return MASK
        return self.whole(value) if lower in PRIVATE else self.text(value)

    def _members(self, value: dict[str, Any], field: str, metrics: Collection[str] | None) -> dict[str, Any]:
        named = next(
            (value[name] for name in ("key", "name", "metricName") if isinstance(value.get(name), str)), None
        )
        hidden = metrics is not None and named is not None and named not in metrics
        found: dict[str, Any] = {}
        for key, one in value.items():
            shown = self.text(key)
            if field in PRIVATE and isinstance(one, str):
                found[shown] = self.whole(one)
            elif metrics is not None and isinstance(one, int | float) and not isinstance(one, bool):
                member = named is None and field in ("data", "metrics") and key not in metrics
                other = member or (hidden and key == "value")
                found[shown] = 0 if other else one
            else:
                found[shown] = self._value(one, key, metrics=metrics)
        return found

    def _keeps(self, token: str) -> bool:
        return token.lower() in self._words or (token.isascii() and token.isdigit() and len(token) <= _DIGITS)

    def _piece(self, match: re.Match[str]) -> str:
        text = match[0]
        match match.lastgroup:
            case "time":
                return text
            case "guid":
                if text.lower() in self._words:
                    return text
                return f"00000000-0000-4000-8000-{self._number('guid', text.lower(), text):012x}"
            case "mail":
                return f"person{self._number('mail', text.lower(), text)}@example.com"
            case "pem":
                return f" {self._name(text)} "
            case "term":
                return self._name(text)
            case "sign":
                return text if text in self._words else "?"
            case "ip":
                return text if text in _LOCAL else f"192.0.2.{self._number('ip', text, text) % 256}"
        if self._keeps(text):
            return text
        if _HEX.fullmatch(text):
            head = self._number("hex", text[:_HEX_HEAD].lower(), text)
            return f"{head:012x}".ljust(len(text), "0")
        if text.isascii() and text.isdigit():
            return f"{self._number('digits', text, text):0{min(len(text), _DIGITS)}d}"[:_DIGITS]
        return self._name(text)

    def _name(self, text: str) -> str:
        return f"x{self._number('name', text.lower(), text)}"

    def _number(self, kind: str, key: str, original: str) -> int:
        self.originals.add(original)
        known = self._numbers.setdefault(kind, {})
        return known.setdefault(key, len(known) + 1)


@dataclass(frozen=True, kw_only=True)
class Leak:
    """Something in a document that the second pass cannot explain.

    Attributes:
        place: the file and the place in it, without a name of a user's.
        kind: what it looks like.
    """

    place: str
    kind: str

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}"


_LOOKS: Final[Mapping[str, re.Pattern[str]]] = {
    "a signed token": re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}"),
    "the signature of an address": re.compile(r"(?i)\b(?:sig|accountkey|sharedaccesskey)=(?!\*\*\*)[^&;\s\"]"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"),
    "an e-mail address": re.compile(r"[A-Za-z0-9._%+-]+@(?!example\.com\b)[A-Za-z0-9-]+\.[A-Za-z]{2,}"),
}
_ANY_ID: Final = re.compile(r"(?i)(?<![a-z0-9])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![a-z0-9])")
_ANY_IP: Final = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_ANY_TIME: Final = re.compile(
    r"(?<![A-Za-z0-9])\d{4}-\d\d-\d\d(?:[T ][\d:.]{5,18}(?:Z|[+-][\d:]{4,6})?)?"
    r"|\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} GMT"
)
_OUR_TOKEN: Final = re.compile(r"x\d{1,7}|person\d{1,7}|0{4}[0-9a-f]{8}0*|\d{1,6}")
_TOKEN: Final = re.compile(r"[^\W_]+")
#: An original of several tokens is searched for if it has so many characters.
_LONG: Final = 8


def unexplained(
    documents: Mapping[str, Any],
    *,
    words: Collection[str],
    originals: Collection[str] = (),
    terms: Collection[str] = (),
    masker: Masker | None = None,
    kept: Collection[str] = (),
) -> list[Leak]:
    """Return every place whose text is neither ours nor a placeholder.

    Args:
        documents: file → its JSON value; of a file that is a text, the text.
        words: tokens that may be there, in lower case.
        originals: texts that were replaced.
        terms: names that must not be there even if they consist of such words.
        masker: secrets.
        kept: further texts that may be there, such as names of metrics.
    """
    allowed = {token.lower() for text in kept for token in _TOKEN.findall(text)}
    # A single token is found by the list of those that may be there.
    long = [one.lower() for one in originals if len(one) >= _LONG and not _TOKEN.fullmatch(one)]
    long = [one for one in long if not _plain(one, words, allowed)]
    names = {one.lower() for one in terms}
    found: list[Leak] = []
    for file, value in documents.items():
        for place, text in _strings(value, file):
            kind = _suspicious(text, words, allowed, long, masker)
            if not kind and any(_holds(text.lower(), name) for name in names):
                kind = "a name that was to be replaced"
            if kind:
                found.append(Leak(place=place, kind=kind))
    return found


def _holds(text: str, name: str) -> bool:
    """Return whether *name* is in *text*, and no part of a longer word."""
    at = text.find(name)
    while at >= 0:
        around = text[at - 1 : at] + text[at + len(name) : at + len(name) + 1]
        if not any(one.isascii() and one.isalnum() for one in around):
            return True
        at = text.find(name, at + 1)
    return False


def _plain(text: str, words: Collection[str], allowed: Collection[str]) -> bool:
    """Return whether *text* consists of words that may be there."""
    tokens = [token.lower() for token in _TOKEN.findall(text)]
    return all(token in words or token in allowed for token in tokens)


def _strings(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield every text of a JSON value with its place: numbers of members and items."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for number, (key, one) in enumerate(value.items(), start=1):
            yield f"{place}, member {number}, its name", key
            yield from _strings(one, f"{place}, member {number}")
    elif isinstance(value, list):
        for number, one in enumerate(value, start=1):
            yield from _strings(one, f"{place}, item {number}")


def _suspicious(
    text: str, words: Collection[str], allowed: Collection[str], long: Iterable[str], masker: Masker | None
) -> str:
    """Return what *text* seems to hold; empty for nothing."""
    if masker is not None and masker.holds(text):
        return "a secret of this run"
    for kind, pattern in _LOOKS.items():
        if pattern.search(text):
            return kind
    for match in _ANY_ID.finditer(text):
        if not match[0].startswith("00000000-0000-4000-8000-") and match[0].lower() not in words:
            return "an id"
    for match in _ANY_IP.finditer(text):
        if match[0] not in _LOCAL and not match[0].startswith("192.0.2."):
            return "an IP address"
    lower = text.lower()
    if any(one in lower for one in long):
        return "a text that was to be replaced"
    for token in _TOKEN.findall(_ANY_TIME.sub(" ", _ANY_ID.sub(" ", text))):
        if token.lower() not in words and token.lower() not in allowed and not _OUR_TOKEN.fullmatch(token):
            return "a word that is not the product's"
    return ""
