"""Texts that are printed: none acts on a terminal or on GitHub's runner."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from aml_train.core.answers import clean
from aml_train.core.release_tags import release_tags, template_fault
from aml_train.core.text import harmless, is_plain, lines_of, states
from aml_train_action.github.commands import escape_data, escape_property
from fuzz.target import Target, require

_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def seeds() -> Sequence[str]:
    """Return texts with what terminals and runners obey."""
    return [
        "plain text",
        "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b1m",
        "::error file=a,line=1::x\r\n::stop-commands::y",
        "10%\r20%\rdone",
        "git-{commit}",
        "v1-{short-commit}-{branch}",
        "a\u202eb\u2066c\u2028d\x85e",
    ]


def check(text: str) -> None:
    """Make a text harmless in each way."""
    for line in lines_of(text):
        odd = [sign for sign in line if unicodedata.category(sign) == "Cc" and sign != "\t"]
        require(not odd, f"control characters are left: {odd[:3]!r}")
        require(harmless(line) == line, "what is harmless is changed again")
    require(not is_plain(text) or text.isascii(), "a plain text is not ASCII")
    require(len("".join(states(text))) <= len(text), "states are longer than the text")
    require("\ud800" not in clean(text), "half a pair is left")
    clean(text).encode()
    data, value = escape_data(text), escape_property(text)
    require(not set("\r\n") & {*data, *value}, "a command has a line end")
    require(not set(",:") & set(value), "a property of a command ends early")
    if template_fault(text) is None:
        for branch in ("main", "a/b", "-.", "\u00e4"):
            for tag in release_tags([text], commit="0" * 40, branch=branch, address="1" * 64):
                require(_TAG.fullmatch(tag), f"{tag!r} is no tag")


TARGET = Target(
    kind="text",
    reads=("aml_train.core.text", "aml_train.core.release_tags", "aml_train_action.github.commands"),
    seeds=seeds,
    check=check,
    words=(
        "\x1b[",
        "\x1b]",
        "\x07",
        "\x9b",
        "\r",
        "::",
        "%0A",
        "{commit}",
        "{branch}",
        "{{",
        "}}",
        "{",
        "{short-commit!r}",
        "{address:9}",
    ),
)
