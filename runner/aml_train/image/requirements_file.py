"""The normal form of requirements and ignore files; large pinned packages. Pure.

The build gets the normalised bytes, and the content address covers them: two files with one address are one file to pip and to
Docker.

Large packages get a separate layer, or else a change of one small requirement would install, compress and push hundreds of
megabytes again. The layer is made by ``pip install --no-deps`` of the lines that pin an exact version: nothing is resolved there.
The step after it resolves the whole file and finds those packages installed; the image is the same as in one step.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

_BEFORE_HASH: Final = re.compile(r"\s+(?=--hash[=\s])")
"""The indentation of a continued line; pip splits options at any space."""


def _pip() -> Any:
    """Return pip's own reader of requirements files; only images with such a file need it."""
    import pip_requirements_parser

    return pip_requirements_parser


@dataclass(frozen=True, kw_only=True)
class NamedFile:
    """A file of this machine that a line of a requirements file names, or a line that pip cannot read.

    Attributes:
        line: its number.
        text: the line.
        kind: ``package`` is a package, a folder of packages or an index.
        path: of another file of requirements or constraints.
        why: why it cannot be read.
    """

    line: int
    text: str
    kind: Literal["requirements", "constraints", "package", "unreadable"]
    path: str = ""
    why: str = ""


def read_requirements(file: Path) -> tuple[list[NamedFile], dict[str, int]]:
    """Return the files that a requirements file names, by lines, and its packages: normalised name → line.

    Raises:
        ValueError: it cannot be read at all.
    """
    try:
        parsed = _pip().RequirementsFile.from_file(str(file))
    except (AssertionError, LookupError) as error:
        raise ValueError(f"pip cannot read it: {error}") from error
    packages: dict[str, int] = {
        canonicalize_name(one.name): one.line_number for one in parsed.requirements if one.name
    }
    return sorted(_named_files(parsed), key=lambda one: one.line), packages


def _named_files(parsed: Any) -> Iterator[NamedFile]:
    for one in parsed.options:
        for kind, given in one.options.items():
            for value in filter(_is_local, given if isinstance(given, list) else ()):
                if kind in ("requirements", "constraints"):
                    yield NamedFile(line=one.line_number, text=one.line, kind=kind, path=value)
                elif kind in ("find_links", "extra_index_urls"):
                    yield NamedFile(line=one.line_number, text=one.line, kind="package")
        if _is_local(one.options.get("index_url") or "https://"):
            yield NamedFile(line=one.line_number, text=one.line, kind="package")
    for one in parsed.requirements:
        if one.link is not None and _is_local(one.link.url):
            yield NamedFile(line=one.line_number, text=one.line, kind="package")
    for one in parsed.invalid_lines:
        if "no such option" not in one.error_message:  # a later pip may have it
            why = one.error_message.partition("\n")[0]
            yield NamedFile(line=one.line_number, text=one.line, kind="unreadable", why=why)


def _is_local(address: str) -> bool:
    return address.startswith("file:") or "://" not in address


def logical_lines(text: str) -> Iterator[str]:
    """Yield the lines that pip reads: joined, trimmed, without comments."""
    pip = _pip()
    for one in pip.preprocess(text):
        if isinstance(one, pip.TextLine):
            yield _BEFORE_HASH.sub(" ", one.line)


def normalised_requirements(content: bytes) -> bytes:
    """Return the same requirements: options in order, then the rest sorted.

    pip reads all of a file before it looks for any package, so an option's place among requirements means nothing. Among
    options it does: a later ``--index-url`` replaces an earlier one, and ``-r`` and ``-c`` bring further options. Requirements
    are a set; their order is at most a preference while pip looks for versions that go together.

    Lines that cannot be normalised safely are returned as they are: an encoding other than UTF-8, other characters than ASCII outside comments
    (which pips read by their locale), and lines that would be read otherwise once they have been rewritten.
    """
    try:
        lines = list(logical_lines(content.removeprefix(codecs.BOM_UTF8).decode()))
    except UnicodeDecodeError:
        return content
    options = [line for line in lines if line.startswith("-")]
    ordered = [*options, *sorted(line for line in lines if not line.startswith("-"))]
    text = "".join(f"{line}\n" for line in ordered)
    return text.encode() if text.isascii() and list(logical_lines(text)) == ordered else content


def ignore_patterns(content: bytes) -> dict[int, str]:
    """Return the patterns of Docker's ignore file in order: line number → pattern.

    Source: https://docs.docker.com/build/concepts/context/#dockerignore-files; a ``#`` makes a comment in the first column only, and
    space around a pattern is cut off.
    """
    lines = content.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").splitlines()
    return {number: line.strip() for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")}


def normalised_ignore_file(content: bytes) -> bytes:
    """Return the patterns alone of an ignore file; one that is not UTF-8 as it is."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return content
    # A pattern may begin with `#` if space is before it.
    patterns = ignore_patterns(content).values()
    return "".join(f" {one}\n" if one.startswith("#") else f"{one}\n" for one in patterns).encode()


_NAMES: Final = """
    bitsandbytes botocore catboost faiss-cpu faiss-gpu gensim h5py jax jaxlib keras lightgbm llvmlite matplotlib mlflow mxnet numba
    numpy onnx onnxruntime onnxruntime-gpu opencv-python opencv-python-headless paddlepaddle paddlepaddle-gpu pandas pillow
    plotly polars pyarrow ray rdkit scikit-image scikit-learn scipy spacy statsmodels sympy tensorboard tensorflow
    tensorflow-cpu tokenizers torch torchaudio torchvision transformers triton vllm xformers xgboost
    """
LARGE: Final = frozenset(_NAMES.split())
"""Names, normalised, of packages of tens of megabytes and more that come as wheels.

Packages that are built from source are not among them: these often need others to be there first.
"""

_LARGE_FAMILIES: Final = ("cupy-", "jax-cuda", "nvidia-", "polars-runtime-", "tensorrt")
_OPTIONS: Final = re.compile(
    r"--?(?:i|f|index-url|extra-index-url|no-index|find-links|trusted-host|no-binary|only-binary|prefer-binary|pre|require-hashes)\b"
)


def large_pins(files: Iterable[bytes]) -> bytes | None:
    """Return a requirements file of the large packages that *files* pin, or None.

    Args:
        files: contents of requirements files (pip's "Requirements File Format"), without those that are only constraints.
    """
    options: dict[str, None] = {}
    pins: dict[str, str] = {}
    for content in files:
        for line in logical_lines(content.decode("utf-8", "replace")):
            if _OPTIONS.match(line):
                options[line] = None
            elif (name := _pinned(line)) is not None and (name in LARGE or name.startswith(_LARGE_FAMILIES)):
                pins.setdefault(name, line)
    if not pins:
        return None
    return "".join(f"{line}\n" for line in (*options, *(pins[name] for name in sorted(pins)))).encode()


def _pinned(line: str) -> str | None:
    """Return the normalised name of a requirement with one exact version, else None."""
    try:
        requirement = Requirement(line.partition(" --hash")[0])
    except InvalidRequirement:
        return None
    versions = list(requirement.specifier)
    exact = len(versions) == 1 and versions[0].operator == "==" and not versions[0].version.endswith("*")
    return canonicalize_name(requirement.name) if exact and requirement.url is None else None
