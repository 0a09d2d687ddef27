"""Commands of a shell whose failure is lost: another command's status decides. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

# Text that is no command of its own: quoted, escaped, substituted, or a comment.
_OPAQUE: Final = re.compile(
    r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|\$\{\{[^{}]*\}\}|\$\((?:[^()]|\([^()]*\))*\)|\$\{[^{}]*\}|`[^`]*`|(?<![^\s;&|])\#[^\n]*""",
    re.DOTALL,
)
_OPERATOR: Final = re.compile(r"(?<![<>])&(?!>)&?|\|\||\|&?|;;?|\n")
_ASSIGNMENT: Final = re.compile(r"\w+=.*")
_OPENERS: Final = frozenset({"then", "do", "else", "{", "("})
_CONDITIONS: Final = frozenset({"if", "elif", "while", "until", "!"})
_CLOSERS: Final = frozenset({"fi", "}", ")"})
_BRANCHES: Final = frozenset({"then", "do", "else", "elif"})
_JOINING: Final = frozenset({"&&", "||", "|", "|&"})
#: Commands that do not fail, or whose failure nobody needs; and what only holds commands together.
_HARMLESS: Final = _CLOSERS | {
    *(
        ":",
        "true",
        "false",
        "echo",
        "printf",
        "set",
        "export",
        "unset",
        "umask",
        "ulimit",
        "trap",
        "date",
        "pwd",
        "env",
    ),
    *("ls", "cat", "yes", "nvidia-smi", "exit", "wait", "for", "done", "[", "[[", "test", "sleep"),
}
#: Documents in the command, functions and cases would need a parser.
_OTHER: Final = re.compile(r"<<|\bcase\s|\w\s*\(\)|\bfunction\s")


def lost_failures(command: str, shell: str = "") -> Iterator[tuple[Literal["line", "pipe"], str]]:
    """Yield the commands whose failure does not end *command*, and is not its status.

    ``line`` is one before another command, ``pipe`` one before a pipe. ``set -e`` and ``set -o pipefail`` are known, in
    *command* and as options of *shell*; and `a || b`, which handles the failure.
    """
    text = _OPAQUE.sub(lambda found: (" " if found[0][0] == "#" else "_") * len(found[0]), command)
    if _OTHER.search(text):
        return
    stops, pipefail = _options(shell.split())
    lists = list(_lists(text))
    for number, (parts, separator) in enumerate(lists):
        words = [_words(text[start:end]) for start, end, _ in parts]
        if words[0][:1] == ["set"]:
            own = _options(words[0])
            stops, pipefail = stops or own[0], pipefail or own[1]
        if words[0][:1] and words[0][0] in _CONDITIONS:
            continue
        needed = [bool(one) and one[0] not in _HARMLESS for one in words]
        if not pipefail:
            pipes = (part for part, wanted in zip(parts, needed, strict=True) if wanted and part[2] in ("|", "|&"))
            yield from (("pipe", _shown(command[start:end])) for start, end, _ in pipes)
        following = (text[one[0][0][0] : one[0][0][1]].split()[0] for one in lists[number + 1 :])
        after = next((word for word in following if word not in _CLOSERS), None)
        handled = stops or separator not in (";", "\n") or any(part[2] == "||" for part in parts)
        if any(needed) and not handled and after is not None and after not in _BRANCHES:
            yield "line", _shown(command[parts[0][0] : parts[-1][1]])


def _lists(text: str) -> Iterator[tuple[list[tuple[int, int, str]], str]]:
    """Yield each list of commands, as places with the operators after them, and its separator."""
    start = 0
    parts: list[tuple[int, int, str]] = []
    for match in [*_OPERATOR.finditer(text), None]:
        end, operator = (match.start(), match[0]) if match else (len(text), "")
        if text[start:end].strip():
            parts.append((start, start + len(text[start:end].rstrip()), operator))
            if operator not in _JOINING:
                yield parts, operator
                parts = []
        start = match.end() if match else end


def _shown(text: str) -> str:
    return re.sub(r"^(?:then|do|else|[{(])\s+", "", text.strip())


def _words(text: str) -> list[str]:
    """Return the words of a simple command, from its program on."""
    words = text.replace("(", " ").split()
    while words and (words[0] in _OPENERS or _ASSIGNMENT.fullmatch(words[0])):
        words = words[1:]
    return words


def _options(words: list[str]) -> tuple[bool, bool]:
    """Return whether a shell with these options stops at a failure, and fails pipes.

    ``set +e`` is a decision as well.
    """
    stops = "errexit" in words or any(re.fullmatch(r"[-+][a-zA-Z]*e[a-zA-Z]*", word) for word in words)
    return stops, "pipefail" in words
