"""Digests of a job's parts in its tags, by which a later run names differences.

A job's fingerprint says that something differs, its parts say what. They explain and decide nothing. Tags are what jobs of both SDKs
have and what lists of jobs show; their bounds are those of :mod:`aml_train.core.tags`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

from aml_train.core.tags import TAG_FILES, TAG_PARTS, VALUE_LENGTH

_FORMAT: Final = "1;"
_DIGITS: Final = 8
_FILE_DIGITS: Final = 6
_MOST_FILE_TAGS: Final = 3
#: A run has 50 tags at most; those of verdicts and retries come later.
_MOST_TAGS: Final = 40
#: Depths at which files are summed up by folder, until they have room; 0 is for each file by itself.
_DEPTHS: Final = (0, 6, 5, 4, 3, 2, 1)
_MOST_BYTES: Final = 1 << 20
_MOST_NAMED: Final = 4
_LONGEST: Final = 100
_MAPPINGS: Final = {
    "inputs": "input",
    "outputs": "output",
    "environment_variables": "environment variable",
    "jobs": "node",
}
_CODE_PATH: Final = "code-path"
_WORDS: Final = {
    _CODE_PATH: "`code`",
    "image": "the image",
    "scope": "the workspace",
    "code": "the code",
    **{group: f"the {word}s" for group, word in _MAPPINGS.items()},
}


def parts_of(
    document: Mapping[str, Any],
    *,
    code: str | None,
    local: Mapping[str, str],
    image: str,
    scope: str,
    runconfig: Mapping[str, Any] | None,
) -> dict[str, str]:
    """Return a short hexadecimal digest of each part of the fingerprint, by name.

    Args:
        document: the job, without what does not count.
        code: the digest of the code.
        local: digests of local files, by their place in the document.
        image: the image's digest.
        scope: where the job is submitted.
        runconfig: what the SDK v1 submits.
    """
    parts = {"image": _short(image), "scope": _short(scope), "code": _short(code)}
    for key, value in document.items():
        if key in _MAPPINGS and isinstance(value, Mapping):
            for name, item in value.items():
                place = f"{key}.{name}"
                below = {path: digest for path, digest in local.items() if path.startswith(f"{place}.")}
                parts[place] = _short([item, local.get(place), *([below] if below else [])])
        elif key == "code":  # the folder's path, next to what is in it
            parts[_CODE_PATH] = _short(value)
        else:
            files = {place: digest for place, digest in local.items() if place.split(".")[0] == key}
            parts[key] = _short([value, files])
    for key, value in (runconfig or {}).items():
        parts[f"runconfig.{key}"] = _short(value)
    return parts


def _short(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]


def part_tags(parts: Mapping[str, str], files: Mapping[str, str] | None, taken: int) -> dict[str, str]:
    """Return the tags that keep *parts*, and *files* if there is room for them.

    Args:
        parts: see :func:`parts_of`.
        files: path → SHA-256 of each file; None where the code is no folder.
        taken: how many tags the job has already.
    """
    room = _MOST_TAGS - taken
    if room < 1:
        return {}
    tags = {TAG_PARTS: _written(parts)}
    pieces = _packed(files, min(room - 1, _MOST_FILE_TAGS)) if files else []
    return tags | {f"{TAG_FILES}{number}": piece for number, piece in enumerate(pieces, 1)}


def _written(parts: Mapping[str, str]) -> str:
    """Return *parts* as a tag's value; the longest groups are summed up until it fits."""
    while (
        len(text := _FORMAT + ";".join(f"{quote(name, safe='')}={mark}" for name, mark in parts.items()))
        > VALUE_LENGTH
    ):
        lengths: dict[str, int] = {}
        for name in parts:
            group, dot, _ = name.partition(".")
            lengths[group] = lengths.get(group, 0) + (len(quote(name)) if dot else 0)
        parts = _folded(parts, {max(lengths, key=lambda group: lengths[group])})
    return text


def _folded(parts: Mapping[str, str], groups: Iterable[str]) -> dict[str, str]:
    """Return *parts* with one entry for each of *groups*."""
    folded = {name: mark for name, mark in parts.items() if name.partition(".")[0] not in groups}
    for group in groups:
        members = {name: mark for name, mark in parts.items() if name.startswith(f"{group}.")}
        # A group that was summed up has its own entry; so has a setting that is no mapping.
        if group in parts:
            folded[group] = parts[group]
        elif members:
            folded[group] = _short(members)
    return folded


def read_parts(tags: Mapping[str, str]) -> dict[str, str] | None:
    """Return the parts that a job's tags keep; None if unreadable, as by hand."""
    text = tags.get(TAG_PARTS, "")
    if not text.startswith(_FORMAT):
        return None
    pairs = (item.partition("=") for item in text.removeprefix(_FORMAT).split(";"))
    return {unquote(name): mark for name, _, mark in pairs}


def _packed(files: Mapping[str, str], most: int) -> list[str]:
    """Return *files* as the values of at most *most* tags; none without room."""
    for depth in _DEPTHS:
        text = "\0".join(f"{path}\0{mark}" for path, mark in sorted(_by_folder(files, depth).items()))
        packed = base64.urlsafe_b64encode(zlib.compress(text.encode(errors="surrogatepass"), 9)).decode()
        whole = f"{_FORMAT}{depth};{packed}"
        if len(whole) <= most * VALUE_LENGTH:
            return [whole[at : at + VALUE_LENGTH] for at in range(0, len(whole), VALUE_LENGTH)]
    return []


def _by_folder(files: Mapping[str, str], depth: int) -> dict[str, str]:
    """Return a mark of each file, or of its folder at *depth* if it is deeper."""
    if not depth:
        return {path: mark[:_FILE_DIGITS] for path, mark in files.items()}
    groups: dict[str, list[tuple[str, str]]] = {}
    for path, mark in sorted(files.items()):
        parts = path.split("/")
        groups.setdefault(path if len(parts) <= depth else "/".join(parts[:depth]) + "/", []).append((path, mark))
    return {
        name: members[0][1][:_FILE_DIGITS] if not name.endswith("/") else _short(members)[:_FILE_DIGITS]
        for name, members in groups.items()
    }


def _unpacked(tags: Mapping[str, str]) -> tuple[int, dict[str, str]] | None:
    """Return the depth and the marks that tags keep; None if none can be read."""
    whole = "".join(tags.get(f"{TAG_FILES}{number}", "") for number in range(1, _MOST_FILE_TAGS + 1))
    head, _, packed = whole.removeprefix(_FORMAT).partition(";")
    if not whole.startswith(_FORMAT) or head not in {str(depth) for depth in _DEPTHS}:
        return None
    try:
        text = zlib.decompressobj().decompress(base64.urlsafe_b64decode(packed), _MOST_BYTES).decode()
    except (ValueError, zlib.error):
        return None
    words = text.split("\0")
    return int(head), dict(zip(words[::2], words[1::2], strict=False))


def difference(
    tags: Mapping[str, str], parts: Mapping[str, str], files: Mapping[str, str] | None
) -> list[str] | None:
    """Return what differs between an earlier job and this one, each in a few words.

    Args:
        tags: of the earlier job.
        parts: of this one.
        files: of this one.

    Returns:
        None if the earlier job's tags do not say.
    """
    before = read_parts(tags)
    if before is None:
        return None
    groups = {name.partition(".")[0] for name in before} | {name.partition(".")[0] for name in parts}
    whole = {group for group in groups if group in before or group in parts}
    then, now = _folded(before, whole), _folded(parts, whole)
    names = [name for name in dict.fromkeys(("code", *now, *then)) if then.get(name) != now.get(name)]
    return [words for name in names for words in _in_words(name, tags, files)]


def _in_words(name: str, tags: Mapping[str, str], files: Mapping[str, str] | None) -> list[str]:
    if name == "code" and files is not None and (found := _files(tags, files)):
        return found
    group, _, member = name.partition(".")
    if member and group in _MAPPINGS:
        return [f"the {_MAPPINGS[group]} {member}"]
    if member:
        return [f"`{member}` of the run configuration"]
    return [_WORDS.get(name, f"`{name}`")]


def _files(tags: Mapping[str, str], files: Mapping[str, str]) -> list[str]:
    """Return which files differ; none if the tags do not say."""
    unpacked = _unpacked(tags)
    if unpacked is None:
        return []
    depth, then = unpacked
    now = _by_folder(files, depth)
    ends = {
        path: "" if path in then and path in now else (" (new)" if path in now else " (gone)") for path in then | now
    }
    return [f"{path}{ends[path]}" for path in sorted(ends) if then.get(path) != now.get(path)]


def in_one_line(found: Sequence[str]) -> str:
    """Return what differs as a part of a sentence, of bounded length."""
    shown = [" ".join(text.split())[:_LONGEST] for text in found[:_MOST_NAMED]]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
