"""A Dockerfile of the user's own: the images that it names, and their pins. Pure.

The syntax is that of the Dockerfile reference (https://docs.docker.com/reference/dockerfile/): escape directive, continued lines,
comments between them, here-documents, and variables of global ARG in FROM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aml_train.core.errors import Fault, InvalidError
from aml_train.core.references import ImageRef

_DIRECTIVE: Final = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*")
_HEREDOC: Final = re.compile(r"<<-?\s*([\"']?)(\w+)\1")
_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)(?::([-+])([^}]*))?\})")
_FROM: Final = re.compile(r"(?i)FROM((?:\s+--\S+)*)\s+(\S+)(?:\s+AS\s+(\S+))?\s*")
_COPY_FROM: Final = re.compile(r"(?i)(?:COPY|ADD)(?:\s+--\S+)*?\s+--from=(\S+)")
_MOUNT_FROM: Final = re.compile(r"--mount=(?:\S*,)?from=([^\s,]+)")
_ARG: Final = re.compile(r"(?i)ARG\s+(.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction: its first line (from zero), its line count, its joined text."""

    line: int
    lines: int
    text: str


@dataclass(frozen=True, kw_only=True)
class NamedImage:
    """An image in a Dockerfile: the instruction, the word in it, and its meaning."""

    instruction: Instruction
    word: str
    reference: ImageRef


@dataclass(frozen=True, kw_only=True)
class ParsedDockerfile:
    """The images of a Dockerfile.

    Attributes:
        text: the text.
        images: every image of a registry or of the engine that it names, in order.
        base: the one that the stage to build goes back to.
    """

    text: str
    images: tuple[NamedImage, ...]
    base: NamedImage

    def pinned(self, names: Mapping[ImageRef, str]) -> str:
        """Return the text with each image replaced by what *names* calls it."""
        lines = self.text.split("\n")
        for image in self.images:
            name = names[image.reference]
            first = image.instruction.line
            for number in range(first, first + image.instruction.lines):
                pattern = rf"(?<![\w./:@$-]){re.escape(image.word)}(?![\w./:@-])"
                match = re.search(pattern, lines[number])
                if match is not None:
                    lines[number] = lines[number][: match.start()] + name + lines[number][match.end() :]
                    break
        return "\n".join(lines)


def parse_dockerfile(text: str, *, args: Mapping[str, str], target: str | None, name: str) -> ParsedDockerfile:
    """Read a Dockerfile.

    Args:
        target: the stage to build; None for the last.

    Raises:
        InvalidError: if the text alone does not name an image, there is no such stage, or it starts from nothing.
    """
    text = text.replace("\r\n", "\n")
    known: dict[str, str] = {}
    stages: dict[str, NamedImage | None] = {}
    order: list[NamedImage | None] = []
    images: list[NamedImage] = []
    for instruction in instructions(text):
        word = instruction.text.split(None, 1)[0].upper()
        if word == "ARG" and not order:
            known |= _arguments(instruction.text, args, known)
        elif word == "FROM":
            match = _FROM.fullmatch(instruction.text)
            if match is None:
                raise _fault(name, instruction, "FROM has another form than `FROM IMAGE AS NAME`", "correct the line")
            written = _expand(match[2], known)
            if written.lower() in stages:
                origin = stages[written.lower()]
            elif written == "scratch":
                origin = None
            else:
                origin = NamedImage(
                    instruction=instruction, word=match[2], reference=_reference(name, instruction, match[2], written)
                )
                images.append(origin)
            order.append(origin)
            stages[(match[3] or str(len(order) - 1)).lower()] = origin
            stages[str(len(order) - 1)] = origin
        elif word in ("COPY", "ADD", "RUN"):
            pattern = _MOUNT_FROM if word == "RUN" else _COPY_FROM
            for written in pattern.findall(instruction.text):
                if written.lower() not in stages:
                    reference = _reference(name, instruction, written, written)
                    images.append(NamedImage(instruction=instruction, word=written, reference=reference))
    if not order:
        raise InvalidError([Fault(where=name, what="the Dockerfile has no FROM", remedy="name a base")])
    if target is not None and target.lower() not in stages:
        known_stages = ", ".join(f"`{stage}`" for stage in stages if not stage.isdigit()) or "none has a name"
        what = f"the Dockerfile has no stage `{target}`"
        raise InvalidError([Fault(where=name, what=what, remedy=f"stages: {known_stages}")])
    base = order[-1] if target is None else stages[target.lower()]
    if base is None:
        what = "the image starts from `scratch`"
        why = "a job needs a shell and a Python"
        raise InvalidError([Fault(where=name, what=what, why=why, remedy="start from an image that has them")])
    return ParsedDockerfile(text=text, images=tuple(images), base=base)


def instructions(text: str) -> Iterator[Instruction]:
    """Yield a Dockerfile's instructions, without the bodies of here-documents."""
    lines = text.split("\n")
    escape = _escape(lines)
    number = 0
    while number < len(lines):
        first = number
        parts: list[str] = []
        while number < len(lines):
            line = lines[number]
            number += 1
            if line.lstrip().startswith("#") or (parts and not line.strip()):
                if not parts:
                    first = number
                continue
            stripped = line.rstrip()
            if stripped.endswith(escape):
                parts.append(stripped[: -len(escape)])
                continue
            parts.append(line)
            break
        whole = "".join(parts).strip()
        if not whole:
            continue
        yield Instruction(line=first, lines=number - first, text=whole)
        if whole.split(None, 1)[0].upper() in ("RUN", "COPY", "ADD"):
            for _, word in _HEREDOC.findall(whole):
                while number < len(lines) and lines[number].strip() != word:
                    number += 1
                number += 1


def _escape(lines: list[str]) -> str:
    """Return what continues a line: a backslash, unless a directive changes it."""
    for line in lines:
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None:
            break
        if match[1].lower() == "escape":
            return match[2]
    return "\\"


def _arguments(text: str, args: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    match = _ARG.fullmatch(text)
    found: dict[str, str] = {}
    for word in match[1].split() if match else ():
        key, equals, default = word.partition("=")
        if key in args:
            found[key] = args[key]
        elif equals:
            found[key] = _expand(default.strip("\"'"), {**known, **found})
    return found


def _expand(text: str, known: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        found = known.get(match[1] or match[2], "")
        if match[3] == "-":
            return found or str(match[4])
        if match[3] == "+":
            return str(match[4]) if found else ""
        return found

    return _VARIABLE.sub(value, text.strip("\"'"))


def _reference(name: str, instruction: Instruction, word: str, written: str) -> ImageRef:
    try:
        return ImageRef.parse(written)
    except ValueError as error:
        what = f"`{word}` is no image" + (f": it means `{written}`" if written != word else "")
        remedy = (
            "give the arguments that it needs under `dockerfile.args`" if "$" in word else "name a stage or an image"
        )
        raise _fault(name, instruction, what, remedy, why=str(error)) from error


def _fault(name: str, instruction: Instruction, what: str, remedy: str, why: str = "") -> InvalidError:
    return InvalidError([Fault(where=f"{name}:{instruction.line + 1}", what=what, why=why, remedy=remedy)])
