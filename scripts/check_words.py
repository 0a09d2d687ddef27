"""Check the words and line lengths of docs, docstrings, comments and messages.

``python -m scripts.check_words PATH…`` checks any file or folder; without a path it checks the ``clean`` list of
``[tool.aml-train.words]`` in pyproject.toml, as `make lint` does. ``scripts/words.toml`` is the word list.

The comment ``words: quoted`` exempts its line, for text that quotes another program.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import token
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
MAX_DOCS_LINE: Final = 100
MAX_SUMMARY: Final = 80
_QUOTED: Final = "words: quoted"
_SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__", "projects"})

#: Replaces text that is not prose, so that no phrase is found across it.
_MASK: Final = "\0"
_GAP: Final = r"(?:[ \t]+|[ \t]*\n[ \t]*)"
_SENTENCE_START: Final = r"(?:\A|(?<=\0)|(?<=\n\n)|(?<=[.!?]\s)|(?:\A|\n)[ >]*(?:[-*]|\d+\.)(?=\s))\s*"
_NO_QUESTION: Final = r"(?![^.!?\0]*\?)"

_FENCE: Final = re.compile(r"^[ >]*(```|~~~).*?^[ >]*\1[^\n]*$", re.MULTILINE | re.DOTALL)
_INLINE_CODE: Final = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK_TARGET: Final = re.compile(r"(?<=\])\([^)\s]*\)|<[^<>\s]+>|https?://\S+")
_HEADING: Final = re.compile(r"^#+ ", re.MULTILINE)
_REPLACEMENT_FIELD: Final = re.compile(r"\{[^{}]*\}")
_STRING_START: Final = re.compile(r"(?i)^[a-z]*(\"\"\"|'''|\"|')")


@dataclass(frozen=True, kw_only=True)
class Word:
    """One entry of the word list.

    Attributes:
        pattern: finds the word or phrase.
        use: the suggestion.
    """

    pattern: re.Pattern[str]
    use: str


@dataclass(frozen=True, kw_only=True, order=True)
class Finding:
    """One place to change."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def load_words(path: Path = ROOT / "scripts/words.toml") -> tuple[Word, ...]:
    """Return the entries of the word list."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["word"]
    return tuple(Word(pattern=_pattern(entry["match"], entry.get("at")), use=entry["use"]) for entry in entries)


def _pattern(match: str, at: str | None) -> re.Pattern[str]:
    body = match.replace(" ", _GAP)
    if at == "start":
        return re.compile(rf"{_SENTENCE_START}(?P<word>{body})\b{_NO_QUESTION}")
    return re.compile(rf"(?<![\w-])(?P<word>{body})(?![\w-])", re.IGNORECASE)


def check_text(path: Path, text: str, words: Sequence[Word]) -> Iterator[Finding]:
    """Yield the findings in one file; its suffix decides which text is prose."""
    is_python, is_markdown = path.suffix == ".py", path.suffix == ".md"
    prose = python_prose(text) if is_python else markdown_prose(text)
    quoted = {number for number, line in enumerate(text.splitlines(), 1) if _QUOTED in line}
    for word in words:
        for found in word.pattern.finditer(prose):
            line = prose.count("\n", 0, found.start("word")) + 1
            if line not in quoted:
                shown = " ".join(found["word"].split())
                yield Finding(path=path, line=line, text=f"`{shown}`: write {word.use}")
    if is_markdown:
        yield from _long_lines(path, text)
    if is_python and "tests" not in path.parts:
        yield from _long_summaries(path, text)


def markdown_prose(text: str) -> str:
    """Return the text with code, link targets and the marks of headings masked."""
    for pattern in (_FENCE, _INLINE_CODE, _LINK_TARGET):
        text = pattern.sub(_masked, text)
    return _HEADING.sub(lambda found: "#" * len(found[0]), text)


def python_prose(source: str) -> str:
    """Return the source with all but comments and the text of strings masked."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    pieces: list[str] = []
    end = 0
    for kind, start, stop in _strings_and_comments(source, starts):
        prose = _prose_of(kind, source[start:stop])
        if prose is None:
            continue
        pieces += (_mask(source[end:start]), prose)
        end = stop
    return "".join((*pieces, _mask(source[end:])))


def _strings_and_comments(source: str, starts: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield type, start and end of each string and comment, a formatted string as one.

    From Python 3.12 on, formatted strings are many tokens, from FSTRING_START to FSTRING_END (PEP 701).
    """
    depth = begin = 0
    for item in tokenize.generate_tokens(io.StringIO(source).readline):
        start, stop = (starts[line - 1] + column for line, column in (item.start, item.end))
        name = token.tok_name[item.type]
        if name.endswith("STRING_START"):
            begin, depth = (begin if depth else start), depth + 1
        elif name.endswith("STRING_END"):
            depth -= 1
            if not depth:
                yield token.STRING, begin, stop
        elif not depth and item.type in (token.STRING, token.COMMENT):
            yield item.type, start, stop


def _prose_of(kind: int, text: str) -> str | None:
    """Return the token with all but its prose masked, or None without prose."""
    if kind == token.COMMENT:
        return _INLINE_CODE.sub(_masked, text.replace("#", " "))
    if " " not in text:
        return None
    opening = _STRING_START.match(text)
    assert opening is not None, text  # noqa: S101 - a string begins with a quote
    quote = opening[1]
    body = text[opening.end() : -len(quote)]
    if "f" in text[: opening.start(1)].lower():
        body = _REPLACEMENT_FIELD.sub(_masked, body)
    body = _INLINE_CODE.sub(_masked, body.replace("\\n", "\0\0"))
    return _MASK * opening.end() + body + _MASK * len(quote)


def _mask(text: str) -> str:
    return re.sub(r"\S", _MASK, text)


def _masked(found: re.Match[str]) -> str:
    return _mask(found[0])


def _long_lines(path: Path, text: str) -> Iterator[Finding]:
    for number, line in enumerate(_FENCE.sub(_masked, text).splitlines(), 1):
        is_table, can_wrap = line.lstrip(" >").startswith("|"), " " in line.strip()
        if len(line) > MAX_DOCS_LINE and can_wrap and not is_table and _MASK not in line:
            yield Finding(path=path, line=number, text=f"{len(line)} characters: at most {MAX_DOCS_LINE}")


def _long_summaries(path: Path, source: str) -> Iterator[Finding]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and (docstring := ast.get_docstring(node)):
            summary = docstring.splitlines()[0]
            if len(summary) > MAX_SUMMARY:
                text = f"docstring's first line has {len(summary)} characters: at most {MAX_SUMMARY}"
                yield Finding(path=path, line=node.body[0].lineno, text=text)


def files_below(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the Markdown and Python files below the paths, and each file named."""
    for path in paths:
        if path.is_file():
            yield path
            continue
        for file in sorted((*path.rglob("*.md"), *path.rglob("*.py"))):
            folders = file.relative_to(path).parts[:-1]
            if not any(name in _SKIPPED_FOLDERS or name.startswith(".") for name in folders):
                yield file


def clean_paths(pyproject: Path = ROOT / "pyproject.toml") -> list[Path]:
    """Return the files and folders that `make lint` keeps clean."""
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["aml-train"]["words"]
    return [Path(path) for path in settings["clean"]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the findings, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", help="default: the clean list of pyproject.toml"
    )
    paths: list[Path] = parser.parse_args(arguments).paths or clean_paths()
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        parser.error(f"no such file or folder: {', '.join(missing)}")
    words = load_words()
    files = list(files_below(paths))
    findings = [
        finding for file in files for finding in sorted(check_text(file, file.read_text(encoding="utf-8"), words))
    ]
    for finding in findings:
        print(finding)
    print(f"Words: {len(findings)} findings in {len(files)} files.")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
