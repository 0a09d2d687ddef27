"""A Dockerfile of the user's own: the images that it names, and their pins. Pure.

BuildKit's own parser finds the instructions (https://pypi.org/project/dockerfile/). Which images they name, and the arguments in these
names, follow BuildKit's ``frontend/dockerfile``: ``dockerfile2llb/convert.go`` and ``shell/lex.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aml_train.config.yaml.nodes import shown
from aml_train.config.yaml.shapes import nearest
from aml_train.core.errors import Fault, ImageError, InvalidError
from aml_train.core.references import ImageRef

#: https://docs.docker.com/reference/dockerfile/#overview
_INSTRUCTIONS: Final = (
    "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER", "ONBUILD", "RUN",
    "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
)  # fmt: skip
#: Another frontend may know other instructions.
_FOREIGN: Final = re.compile(r"(?im)\A(?:[ \t]*#.*\n)*?[ \t]*#[ \t]*syntax[ \t]*=(?!.*docker/dockerfile)")


@dataclass(frozen=True, kw_only=True)
class NamedImage:
    """An image in a Dockerfile: the lines of its instruction (from one), the word in it, and its meaning."""

    line: int
    end_line: int
    word: str
    reference: ImageRef
    option: str = ""


@dataclass(frozen=True, kw_only=True)
class ParsedDockerfile:
    """The images of a Dockerfile.

    Attributes:
        name: the file's, for errors.
        text: the text.
        images: every image of a registry or of the engine that it names, in order.
        base: the one that the stage to build goes back to.
    """

    name: str
    text: str
    images: tuple[NamedImage, ...]
    base: NamedImage

    def pinned(self, names: Mapping[ImageRef, str]) -> str:
        """Return the text with each image replaced by what *names* calls it.

        Raises:
            InvalidError: a name is not found as a word of its own in the instruction's lines.
        """
        lines = self.text.split("\n")
        for image in self.images:
            for number in range(image.line - 1, image.end_line):
                at = _place(lines[number], image.option, image.word)
                if at is not None and not lines[number].lstrip().startswith("#"):
                    rest = lines[number][at + len(image.word) :]
                    lines[number] = lines[number][:at] + names[image.reference] + rest
                    break
            else:
                what, why = f"`{image.word}` cannot be pinned", "the instruction has it in another form"
                raise _fault(self.name, image.line, what, "write it on one line", why)
        return "\n".join(lines)


def _place(line: str, option: str, word: str) -> int | None:
    """Return where *word* stands alone in *line*, behind *option*."""
    at = line.find(option + word)
    while at >= 0:
        before, after = line[at - 1 : at], line[at + len(option + word) :][:1]
        if (not before or before in " \t,-=\"'") and (not after or after in " \t\r,\"'"):
            return at + len(option)
        at = line.find(option + word, at + 1)
    return None


def parse_dockerfile(
    text: str, *, args: Mapping[str, str], target: str | None, platform: str, name: str
) -> ParsedDockerfile:
    """Read a Dockerfile.

    Args:
        target: the stage to build; None for the last.
        platform: what is built for, such as ``linux/amd64``.

    Raises:
        ImageError: there is no parser on this machine.
        InvalidError: if the text alone does not name an image, there is no such stage, or it starts from nothing.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    known = _of_platform(platform) | dict(args)
    # The image that each stage goes back to, None for `scratch`; FROM knows stages by their names alone.
    named: dict[str, NamedImage | None] = {}
    numbered: dict[str, NamedImage | None] = {}
    images: list[NamedImage] = []

    def image(command: Any, word: str, option: str, variables: Mapping[str, str] | None) -> NamedImage:
        reference = _reference(name, command.start_line, word, variables)
        found = NamedImage(
            line=command.start_line, end_line=command.end_line, word=word, reference=reference, option=option
        )
        images.append(found)
        return found

    for command in _commands(text, name):
        word = command.cmd.upper()
        if word not in _INSTRUCTIONS and not _FOREIGN.match(text):
            near = nearest(word, _INSTRUCTIONS)
            remedy = f"did you mean `{near}`?" if near else "correct the line"
            raise _fault(name, command.start_line, f"`{shown(command.cmd)}` is no instruction", remedy)
        if word == "ARG" and not numbered:
            known |= _arguments(name, command, args, known)
        elif word == "FROM":
            if len(command.value) not in (1, 3) or (len(command.value) == 3 and command.value[1].upper() != "AS"):
                raise _fault(
                    name, command.start_line, "FROM has another form than `FROM IMAGE AS NAME`", "correct the line"
                )
            written = command.value[0]
            meant = _expand(name, command.start_line, written, known)
            if meant.lower() in named:
                origin = named[meant.lower()]
            else:
                origin = None if meant == "scratch" else image(command, written, "", known)
            numbered[str(len(numbered))] = origin
            if len(command.value) == 3:
                named[command.value[2].lower()] = origin
        elif word in ("COPY", "ADD", "RUN"):
            for source in _sources(command.flags):
                if source.lower() not in {**numbered, **named}:
                    image(command, source, "from=", None)
    if not numbered:
        raise InvalidError([Fault(where=name, what="the Dockerfile has no FROM", remedy="name a base")])
    stages, wanted = {**numbered, **named}, str(len(numbered) - 1) if target is None else target.lower()
    if wanted not in stages:
        known_stages = ", ".join(f"`{stage}`" for stage in named) or "none has a name"
        what = f"the Dockerfile has no stage `{target}`"
        raise InvalidError([Fault(where=name, what=what, remedy=f"stages: {known_stages}")])
    base = stages[wanted]
    if base is None:
        what = "the image starts from `scratch`"
        why = "a job needs a shell and a Python"
        raise InvalidError([Fault(where=name, what=what, why=why, remedy="start from an image that has them")])
    return ParsedDockerfile(name=name, text=text, images=tuple(images), base=base)


def _commands(text: str, name: str) -> tuple[Any, ...]:
    """Return the instructions as BuildKit's parser reads them."""
    try:
        import dockerfile
    except ImportError as error:
        raise ImageError(
            "there is no parser of Dockerfiles here: the package `dockerfile` has no wheel for this machine",
            hint="Install Go, and then the package from its source: pip install dockerfile. Or describe the image by `base`.",
        ) from error
    try:
        return tuple(command for command in dockerfile.parse_string(text) if command.cmd)
    except ValueError as error:
        if str(error) == "file with no instructions":
            return ()
        raise InvalidError(
            [Fault(where=name, what=f"it is no Dockerfile: {error}", remedy="see `docker build`")]
        ) from error


def _sources(flags: tuple[str, ...]) -> Iterator[str]:
    """Yield the images or stages of ``--from=…`` and ``--mount=…,from=…``."""
    for flag in flags:
        option, _, value = flag.partition("=")
        if option == "--from":
            yield value
        elif option == "--mount":
            pairs = (part.partition("=") for part in value.split(","))
            yield from (source for key, _, source in pairs if key.lower() == "from" and source)


def _of_platform(platform: str) -> dict[str, str]:
    """Return the arguments that every build has for its platform."""
    system, _, rest = platform.partition("/")
    machine, _, variant = rest.partition("/")
    return {"TARGETPLATFORM": platform, "TARGETOS": system, "TARGETARCH": machine, "TARGETVARIANT": variant}


def _arguments(name: str, command: Any, args: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in command.value:
        key, equals, default = word.partition("=")
        if equals and key not in args:
            found[key] = _expand(name, command.start_line, default, {**known, **found})
    return found


class _Word:
    """Expands a word: quotes, escapes and variables."""

    def __init__(self, text: str, known: Mapping[str, str]) -> None:
        self._text, self._known, self._at = text, known, 0

    def read(self, end: str = "", *, raw: bool = False) -> str:
        """Return what stands before *end*, expanded; without *end*, all. Escapes stay in what is *raw*."""
        found = ""
        while (char := self._next()) != end:
            if not char:
                raise ValueError(f"`{end}` is missing")
            if char == "'" and end != '"':
                closed = self._text.find("'", self._at)
                if closed < 0:
                    raise ValueError("`'` is missing")
                found, self._at = found + self._text[self._at : closed], closed + 1
            elif char == '"':
                found += self.read('"')
            elif char == "\\":
                found += (char if raw else "") + self._next()
            else:
                found += self._variable() if char == "$" else char
        return found

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1 : self._at]

    def _variable(self) -> str:
        if self._text[self._at : self._at + 1] != "{":
            return self._value(self._name()) or ""
        self._at += 1
        name, form = self._name(), self._next()
        if form == "}":
            return self._value(name) or ""
        if form in ("#", "%", "/"):
            return self._cut(self._value(name) or "", form)
        form += self._next() if form == ":" else ""
        if form not in ("-", ":-", "+", ":+", "?", ":?"):
            raise ValueError(f"`${{{name}{form}…}}` is a form that is not known here")
        other, value = self.read("}"), self._value(name)
        given = bool(value) if form[0] == ":" else value is not None
        if form[-1] == "?" and not given:
            raise ValueError(other or f"`{name}` is not set")
        return (other if given else "") if form[-1] == "+" else (value or "") if given else other

    def _cut(self, value: str, form: str) -> str:
        """Return *value* without its shortest beginning (``#``) or end (``%``) of a pattern, or with a part replaced (``/``).

        The form twice means the longest, or every part.
        """
        twice = self._text[self._at : self._at + 1] == form
        self._at += twice
        pattern = _regular(self.read("/" if form == "/" else "}", raw=True))
        if form == "/":
            other = self.read("}", raw=True)
            return re.sub(pattern, lambda _match: other, value, count=0 if twice else 1)
        sizes = range(len(value) + 1)
        for size in reversed(sizes) if twice else sizes:
            at = size if form == "#" else len(value) - size
            cut, rest = (value[:at], value[at:]) if form == "#" else (value[at:], value[:at])
            if re.fullmatch(pattern, cut):
                return rest
        return value

    def _name(self) -> str:
        start = self._at
        while (char := self._text[self._at : self._at + 1]).isalnum() or char == "_":
            self._at += 1
        return self._text[start : self._at]

    def _value(self, name: str) -> str | None:
        if name in ("BUILDPLATFORM", "BUILDOS", "BUILDARCH", "BUILDVARIANT") and name not in self._known:
            raise ValueError(f"`{name}` is known to the builder alone")
        return self._known.get(name)


def _regular(pattern: str) -> str:
    """Return a shell's pattern as a regular expression; BuildKit knows ``*`` and ``?`` alone."""
    return re.sub(
        r"\\.|.",
        lambda match: {"*": ".*", "?": "."}.get(match[0]) or re.escape(match[0][-1]),
        pattern,
        flags=re.DOTALL,
    )


def _expand(name: str, line: int, word: str, known: Mapping[str, str]) -> str:
    try:
        return _Word(word, known).read()
    except ValueError as error:
        raise _no_image(name, line, word, word, error) from error


def _reference(name: str, line: int, word: str, known: Mapping[str, str] | None) -> ImageRef:
    """Return what *word* means; without *known* it has no variables."""
    written = word if known is None else _expand(name, line, word, known)
    try:
        return ImageRef.parse(written)
    except ValueError as error:
        raise _no_image(name, line, word, written, error) from error


def _no_image(name: str, line: int, word: str, written: str, error: ValueError) -> InvalidError:
    what = f"`{word}` is no image" + (f": it means `{written}`" if written != word else "")
    remedy = "give the arguments that it needs under `dockerfile.args`" if "$" in word else "name a stage or an image"
    return _fault(name, line, what, remedy, str(error))


def _fault(name: str, line: int, what: str, remedy: str, why: str = "") -> InvalidError:
    return InvalidError([Fault(where=f"{name}:{line}", what=what, why=why, remedy=remedy)])
