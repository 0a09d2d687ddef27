"""The tags that a released image gets in addition to its address and digest.

Tags as in the OCI distribution specification 1.1: a letter, digit or underscore, and 127 more of these, dots and hyphens.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from typing import Final

DEFAULT_TAGS: Final = ("git-{commit}", "branch-{branch}")
"""The templates if the configuration has none."""

FIELDS: Final = ("commit", "short-commit", "branch", "address")
"""The fields of a template."""

RESERVED: Final = (
    "addr-", "branch-", "cache", "candidate-", "dig-", "facts-", "git-", "sha256-", "test-",
)  # fmt: skip
"""Prefixes of the tags that aml-train itself writes."""

OWN: Final = (*DEFAULT_TAGS, "git-{short-commit}")
"""The templates that may have a reserved prefix."""

_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_SAMPLE: Final = {"commit": "0" * 40, "short-commit": "0" * 7, "branch": "b", "address": "0" * 40}


def template_fault(template: str) -> str | None:
    """Return what is wrong with a template, None if nothing is."""
    try:
        fields = _fields(template)
    except ValueError:
        return "its braces do not match: write such as `v1-{short-commit}`"
    unknown = next((field for field in fields if field not in FIELDS), None)
    if unknown is not None:
        return f"it names `{{{unknown}}}`; known are {', '.join(f'`{{{field}}}`' for field in FIELDS)}"
    filled = _fill(template, _SAMPLE)
    if filled is None or not _TAG.fullmatch(filled):
        return "a tag has at most 128 letters, digits, `_`, `.` and `-`, and does not begin with `.` or `-`"
    if filled.startswith(RESERVED) and template not in OWN:
        own = f"apart from {', '.join(f'`{one}`' for one in OWN)}"
        return f"tags that begin with {', '.join(f'`{prefix}`' for prefix in RESERVED)} are aml-train's own, {own}"
    return None


def release_tags(
    templates: Sequence[str], *, commit: str | None, branch: str | None, address: str
) -> tuple[str, ...]:
    """Return the tags of *templates*, each once; an unknown field makes none.

    A branch whose name makes a reserved tag makes none either.

    Args:
        templates: such as ``git-{commit}``; without a :func:`template_fault`.
        commit: the commit that is checked out, None if files differ from it, or there is none.
        branch: its branch, None if it is unknown; what a tag cannot have becomes ``-``.
        address: the content address.
    """
    values: dict[str, str] = {"address": address[:40]}
    if commit is not None:
        values |= {"commit": commit, "short-commit": commit[:7]}
    if branch is not None and (plain := re.sub(r"[^A-Za-z0-9_.-]+", "-", branch).strip("-.")):
        values["branch"] = plain
    filled = ((template, _fill(template, values)) for template in templates)
    tags = (tag[:128] for template, tag in filled if tag and (template in OWN or not tag.startswith(RESERVED)))
    return tuple(dict.fromkeys(tags))


def commit_tags(commit: str, digest: str) -> tuple[str, str]:
    """Return the tags by which a run of the protected branch says that *commit* has the image *digest*.

    The first one never moves. A commit whose image was built again, because its base had moved, gets the second one, too.
    """
    return f"git-{commit}", f"git-{commit}-{digest.removeprefix('sha256:')[:12]}"


def _fields(template: str) -> list[str]:
    parts = list(string.Formatter().parse(template))
    if any(specification or conversion for _, _, specification, conversion in parts):
        raise ValueError("a template's fields are plain names")
    return [name for _, name, _, _ in parts if name is not None]


def _fill(template: str, values: Mapping[str, str]) -> str | None:
    """Return *template* with its fields filled in, None if one is unknown."""
    if any(field not in values for field in _fields(template)):
        return None
    return "".join(
        text + (values[name] if name is not None else "") for text, name, _, _ in string.Formatter().parse(template)
    )
