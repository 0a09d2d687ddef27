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
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

_COMMENT: Final = re.compile(r"(^|\s+)#.*$")
_BEFORE_HASH: Final = re.compile(r"\s+(?=--hash[=\s])")
"""The indentation of a continued line; pip splits options at any space."""


def logical_lines(text: str) -> Iterator[str]:
    """Yield the lines that pip reads: joined, trimmed, without comments.

    Source: pip's ``req_file.py``, ``join_lines`` and ``ignore_comments`` (24.2), whose order of steps decides what a comment after
    a continued line is.
    """
    waiting: list[str] = []
    for line in text.splitlines():
        comment = _COMMENT.match(line) is not None
        if line.endswith("\\") and not comment:
            waiting.append(line.strip("\\"))
            continue
        yield from _cleaned("".join([*waiting, f" {line}" if comment else line]))
        waiting = []
    if waiting:
        yield from _cleaned("".join(waiting))


def _cleaned(line: str) -> Iterator[str]:
    if found := _COMMENT.sub("", line).strip():
        yield _BEFORE_HASH.sub(" ", found)


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
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXACT: Final = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?==\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?"
)
_HASHES: Final = re.compile(r"\s--hash[=\s].*$")


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
            elif _is_large(_name(line)) and (name := _pinned(line)) is not None:
                pins.setdefault(name, line)
    if not pins:
        return None
    return "".join(f"{line}\n" for line in (*options, *(pins[name] for name in sorted(pins)))).encode()


def _name(line: str) -> str:
    """Return the normalised name that a requirement begins with, "" without one."""
    found = _NAME.match(line)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def _pinned(line: str) -> str | None:
    """Return the normalised name of a requirement with one exact version, else None."""
    line = _HASHES.sub("", line).strip()
    if _EXACT.fullmatch(line):
        return _name(line)

    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return None
    versions = list(requirement.specifier)
    exact = len(versions) == 1 and versions[0].operator == "==" and not versions[0].version.endswith("*")
    return canonicalize_name(requirement.name) if exact and requirement.url is None else None


def _is_large(name: str) -> bool:
    return name in LARGE or name.startswith(_LARGE_FAMILIES)
