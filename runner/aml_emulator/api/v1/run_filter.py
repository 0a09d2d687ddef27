"""The filter by which azureml-core asks for runs, a small part of OData. Pure.

Terms are those of azureml-core 1.61 (``azureml._restclient._odata``): ``(Status eq Completed)``, ``Tags/name ne null``,
``CreatedUtc ge …``, joined by ``and`` and ``or``, in parentheses. Values are with or without quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from aml_emulator.domain.errors import InvalidError

Lookup = Callable[[str], str | None]
"""Gives a field of a run, such as ``Status`` or ``Tags/name``; None where it has none."""

Predicate = Callable[[Lookup], bool]

_TOKEN = re.compile(r"""\s*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)'|([^\s()"'][^\s()]*))""")
_OPERATORS: Mapping[str, Callable[[int], bool]] = {
    "eq": lambda order: order == 0,
    "ne": lambda order: order != 0,
    "gt": lambda order: order > 0,
    "ge": lambda order: order >= 0,
    "lt": lambda order: order < 0,
    "le": lambda order: order <= 0,
}


def predicate(text: str) -> Predicate:
    """Return a function that says whether a run passes the filter.

    An empty one passes all.

    Raises:
        InvalidError: it is none; the message says where it stops making sense.
    """
    parser = _Parser(text)
    if not parser.tokens:
        return lambda lookup: True
    found = parser.either()
    if parser.tokens:
        raise InvalidError(f"The filter ends before '{parser.tokens[0][1]}': {text}")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self.tokens: list[tuple[str, str]] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if match is None:
                raise InvalidError(f"The filter cannot be read from '{stripped[at : at + 20]}' on: {text}")
            opened, closed, double, single, bare = match.groups()
            if opened or closed:
                self.tokens.append(("mark", opened or closed))
            elif bare is not None:
                self.tokens.append(("word", bare))
            else:
                self.tokens.append(("text", double if double is not None else single.replace("''", "'")))
            at = match.end()

    def either(self) -> Predicate:
        terms = [self._all()]
        while self._take("word", "or"):
            terms.append(self._all())
        return terms[0] if len(terms) == 1 else lambda lookup: any(term(lookup) for term in terms)

    def _all(self) -> Predicate:
        terms = [self._term()]
        while self._take("word", "and"):
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else lambda lookup: all(term(lookup) for term in terms)

    def _term(self) -> Predicate:
        if self._take("mark", "("):
            inner = self.either()
            if not self._take("mark", ")"):
                raise InvalidError(f"A parenthesis is not closed: {self._text}")
            return inner
        field, operator = self._next(), self._next()
        if operator[1] not in _OPERATORS:
            raise InvalidError(f"'{operator[1]}' compares nothing: {self._text}")
        words = [self._next()]
        # A time without quotes may hold a space.
        while words[0][0] == "word" and self.tokens and self._is_value(self.tokens[0]):
            words.append(self._next())
        value = None if words == [("word", "null")] else " ".join(word for _, word in words)
        return _comparison(field[1], operator[1], value)

    def _is_value(self, token: tuple[str, str]) -> bool:
        return token[0] == "word" and token[1] not in ("and", "or")

    def _next(self) -> tuple[str, str]:
        if not self.tokens or self.tokens[0][0] == "mark":
            raise InvalidError(f"A comparison is not whole: {self._text}")
        return self.tokens.pop(0)

    def _take(self, kind: str, word: str) -> bool:
        if self.tokens and self.tokens[0] == (kind, word):
            self.tokens.pop(0)
            return True
        return False


def _comparison(field: str, operator: str, value: str | None) -> Predicate:
    holds = _OPERATORS[operator]

    def compare(lookup: Lookup) -> bool:
        known = lookup(field)
        if known is None or value is None:
            return operator in ("eq", "le", "ge") if known is value else operator == "ne"
        left, right = _comparable(known), _comparable(value)
        if isinstance(left, datetime) and isinstance(right, datetime):
            return holds((left > right) - (left < right))
        return holds((known > value) - (known < value))

    return compare


def _comparable(text: str) -> datetime | str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
