"""Changes of inputs: of texts, of trees, and of the trees that YAML writes."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any, Final

import yaml

from tests.support.wrong_answers import NUMBERS, TEXTS, Choices, mutated, value_of

LONGEST: Final = 20_000
"""Characters that a mutated text has at most."""
MOST_NODES: Final = 3000
"""Values that a mutated tree has at most."""

PIECES: Final = (
    *("\0", "\t", "\n", "\r", "\r\n", " ", "\x1b[31m", "\x85", "\u2028", "\ufeff", "\U0001f600", "\ud800", "\udcff"),
    *("\u0130", "\u212a", "\u0663", "\u00b2", "\u200b", "\u202e", "e\u0301", "\uff0e", "\uff0f"),
    *("'", '"', "`", "\\", "/", "//", "../", "..", ".", ",", ";", ":", ": ", "=", "==", "|", "||", "&", "&&", "#"),
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        "<!--",
        "-->",
        "${{",
        "}}",
        "$[[",
        "]]",
        "$(",
        "$",
        "%",
        "%s",
        "%00",
        "*",
    ),
    *(
        "**",
        "?",
        "!",
        "@",
        "~",
        "^",
        "+",
        "-",
        "--",
        "- ",
        "_",
        "0",
        "1",
        "-1",
        "9" * 30,
        "9" * 4400,  # Python reads no integer of more than 4300 digits
        "1e999",
        "nan",
        "inf",
        "0x",
    ),
    *("null", "true", "no", "2020-99-99", "1:30", "010", "<<", "&a ", "*a", "!!int ", "!x ", "|\n", ">\n", "---\n"),
    *(
        "...\n",
        "? ",
        "\n  ",
        "\n- ",
        "&lt;",
        "&#0;",
        "<![CDATA[",
        "]]>",
        "<!DOCTYPE x>",
        "sha256:",
        "azureml:",
        "https://",
    ),
)


class Mutator:
    """Changes inputs as a source of random numbers decides.

    Args:
        rng: decides everything.
        words: pieces of the target's grammar.
        others: further inputs, of which parts are taken.
    """

    def __init__(self, rng: Random, words: Sequence[str], others: Sequence[Any]) -> None:
        self.rng = rng
        self._words = words
        self.others = others

    def value(self, value: Any) -> Any:
        """Return a text or a tree with one to four changes."""
        changes = 1
        while changes < 4 and self.rng.random() < 0.4:
            changes += 1
        for _ in range(changes):
            value = self.text(value) if isinstance(value, str) else self.tree(value)
        return value

    def piece(self) -> str:
        """Return a piece of the grammar, or one that grammars often trip over."""
        if self._words and self.rng.random() < 0.6:
            return self.rng.choice(self._words)
        return self.rng.choice(PIECES) if self.rng.random() < 0.85 else self.rng.choice(TEXTS)

    def text(self, text: str) -> str:
        """Return *text* with one change."""
        rng, size = self.rng, len(text)
        first, second = sorted((rng.randint(0, size), rng.randint(0, size)))
        match rng.randrange(10):
            case 0 | 1 | 2:
                return (text[:first] + self.piece() + text[first:])[:LONGEST]
            case 3:
                return text[:first] + self.piece() + text[min(size, first + rng.randint(1, 6)) :]
            case 4:
                return text[:first] + text[min(size, first + rng.randint(1, 8)) :]
            case 5:
                second = min(second, first + 400)
                times = rng.choice((2, 2, 2, 3, 50, 1000))
                return (text[:first] + text[first:second] * times + text[second:])[:LONGEST]
            case 6:
                lines = text.split("\n")
                at = rng.randrange(len(lines))
                match rng.randrange(4):
                    case 0:
                        del lines[at]
                    case 1:
                        lines.insert(at, rng.choice(lines))
                    case 2:
                        lines[at] = " " * rng.randint(1, 4) + lines[at].lstrip()
                    case _:
                        lines[at] = lines[at].rstrip() + self.piece()
                return "\n".join(lines)[:LONGEST]
            case 7:
                other = self._other_text()
                start = rng.randint(0, len(other))
                return (text[:first] + other[start : start + rng.randint(1, 200)] + text[second:])[:LONGEST]
            case 8:
                swapped = text[first:second].swapcase() if rng.random() < 0.5 else text[first:second][::-1]
                return text[:first] + swapped + text[second:]
            case _:
                return text[:first] if rng.random() < 0.5 else text[first:]

    def _other_text(self) -> str:
        if not self.others:
            return self.piece()
        other = self.rng.choice(self.others)
        texts = (
            [other]
            if isinstance(other, str)
            else [member for _, _, member in islice(places(other), MOST_NODES) if isinstance(member, str)]
        )
        return self.rng.choice(texts) if texts else self.piece()

    def tree(self, tree: Any) -> Any:
        """Return a copy of *tree* with one change."""
        rng = self.rng
        if not isinstance(tree, dict | list):
            return value_of(self._choices())
        # YAML's aliases can make a tree that contains itself.
        known = list(islice(places(tree), MOST_NODES + 1))
        if not known or len(known) > MOST_NODES:
            return value_of(self._choices())
        way = rng.randrange(10)
        if way < 2:
            return mutated(self._choices(), tree)
        tree = copy.deepcopy(tree)
        known = list(places(tree))
        texts = [place for place in known if isinstance(place[2], str)]
        if way < 6 and texts:
            holder, key, member = rng.choice(texts)
            holder[key] = self.text(member)
            return tree
        holder, key, member = rng.choice(known)
        match way:
            case 6:
                holder[key] = self._other_tree()
            case 7 if isinstance(holder, dict):
                holder[self.piece()] = holder.pop(key) if rng.random() < 0.5 else copy.deepcopy(member)
            case 7:
                holder[key:key] = [copy.deepcopy(member)] * rng.choice((1, 1, 5))
            case 8 if isinstance(member, int | float) and not isinstance(member, bool):
                holder[key] = rng.choice((*NUMBERS, member + 1, -member, str(member)))
            case 8:
                holder[key] = rng.choice((None, True, 0, "", [], {}, self.piece()))
            case _:
                del holder[key]
        return tree

    def _other_tree(self) -> Any:
        trees = [other for other in self.others if isinstance(other, dict | list)]
        if not trees:
            return value_of(self._choices())
        inner = list(islice(places(self.rng.choice(trees)), MOST_NODES))
        return copy.deepcopy(self.rng.choice(inner)[2]) if inner else value_of(self._choices())

    def _choices(self) -> Choices:
        return Choices(self.rng.randbytes(48))

    def yaml(self, text: str) -> str:
        """Return YAML with changes of its text, or of what it means."""
        if self.rng.random() < 0.5:
            return str(self.value(text))
        try:
            tree = yaml.safe_load(text)
            dumped = str(yaml.safe_dump(self.value(tree), allow_unicode=True, sort_keys=False))
        except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError):
            return str(self.value(text))
        return dumped if len(dumped) <= LONGEST else str(self.value(text))

    def json(self, text: str) -> str:
        """Return JSON with changes of its text, or of what it means."""
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError):
            return str(self.value(text))
        if self.rng.random() < 0.4:
            return str(self.value(text))
        return json.dumps(self.value(tree), ensure_ascii=self.rng.random() < 0.8)


def places(value: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield every place of a tree: what holds it, its key, its value."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        pairs = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        for key, member in list(pairs):
            yield holder, key, member
            waiting.append(member)


def change(target_mutate: Any, mutator: Mutator, value: Any) -> Any:
    """Return *value* as the target's own way changes it, or the usual one."""
    return mutator.value(value) if target_mutate is None else target_mutate(mutator, value)
