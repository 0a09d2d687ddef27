"""Messages for the syntax errors of libyaml and PyYAML."""

from __future__ import annotations

import re
from typing import Final

import yaml

# A part of the parser's message → our message, and the remedy. The first match is used.
_WORDS: Final = (
    (
        (
            "expected comment or a line break",
            "expected chomping or indentation indicators",
            "expected comment or line",
        ),
        "`>` or `|` starts a block of text here",
        'put the value in quotes, such as ">= 0.95"',
    ),
    (
        ("mapping values are not allowed",),
        "a `:` is not allowed here",
        "put a text that contains `: ` in quotes, or correct the indentation",
    ),
    (
        ("could not find expected ':'",),
        "this is neither `key: value` nor an item of a list",
        "put a space after the `:`, or correct the indentation",
    ),
    (
        ("unknown escape character", "did not find expected hexdecimal number", "expected escape sequence"),
        "the text in double quotes has an escape that YAML does not know",
        "write `\\\\` for a backslash, or use single quotes",
    ),
    (
        ("unexpected end of stream", "unexpected document"),
        "a quote is opened and never closed",
        "add the closing quote",
    ),
    (
        ("expected ',' or ']'", "expected ',' or '}'"),
        "a bracket is opened and not closed, or a comma is missing",
        "close the bracket, and put commas between the values",
    ),
    (
        ("did not find expected '-' indicator", "expected <block end>", "did not find expected key"),
        "the indentation does not fit the lines above, or a quote or bracket ended too early",
        "give the keys of one mapping the same indentation",
    ),
    (
        ("did not find expected node content", "expected the node content"),
        "a value is missing, or starts with a character that must be quoted",
        "put the value in quotes",
    ),
    (("block sequence entries are not allowed",), "a list item `-` is not allowed here", "put it on a separate line"),
    (("second anchor", "duplicate anchor"), "a value has two anchors", "keep one of them"),
    (("undefined tag handle", "parsing a tag", "while scanning a tag"), "a YAML tag is malformed", "delete the tag"),
    (("alias",), "an alias is malformed", "put a text that starts with `*` in quotes"),
    (("anchor",), "an anchor is malformed", "put a text that starts with `&` in quotes"),
    (
        ("directive", "incompatible YAML document", "version number"),
        "a `%` directive is malformed",
        "delete the line",
    ),
)


def explain(error: yaml.YAMLError, lines: list[str]) -> tuple[int, str, str]:
    """Translate a syntax error.

    Args:
        error: what the parser raised.
        lines: the source, split into lines.

    Returns:
        The one-based line, what is wrong, and the remedy.
    """
    if not isinstance(error, yaml.MarkedYAMLError):
        return 1, "the text is not YAML", "delete the characters that YAML does not allow"
    problem, context = error.problem or "", error.context or ""
    at = error.problem_mark or error.context_mark
    line = min(at.line, len(lines) - 1) if at else 0
    source = lines[line]
    for number in (line, line - 1):
        if number >= 0 and "\t" in lines[number][: len(lines[number]) - len(lines[number].lstrip())]:
            return number + 1, "the line is indented with a tab", "indent with spaces"
    if "cannot start any token" in problem:
        char = source[at.column : at.column + 1] if at else ""
        return line + 1, f"a value cannot start with `{char or 'this character'}`", "put the value in quotes"
    words = f"{context} {problem}"
    before = lines[line - 1].strip() if line else ""
    if "mapping values are not allowed" in problem and before and not re.search(r"[:#\[{\"']|^-", before):
        return line, "this is neither `key: value` nor an item of a list", "put a `:` and a space after the key"
    for needles, what, remedy in _WORDS:
        if any(needle in words for needle in needles):
            start = error.context_mark
            if start is not None and ("quote is opened" in what or "bracket is opened" in what):
                return min(start.line, len(lines) - 1) + 1, what, remedy
            return line + 1, what, remedy
    return line + 1, f"YAML syntax error: {problem or context}", "correct the line or the one above"
