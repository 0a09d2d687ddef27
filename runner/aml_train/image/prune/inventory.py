"""The contents of a registry and their users: the values for a clean-up's plan.

An inventory is taken once and never changes. Times are seconds since 1970.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aml_train.core.release_tags import DEFAULT_TAGS
from aml_train.image.build.cache import CACHE_TAG, LAYERS_TAG
from aml_train.image.leftovers import CANDIDATE_SUFFIX

Role = Literal["release", "paper", "candidate", "cache", "kept"]
"""The meaning of a tag for its manifest; ``kept`` is a tag that keeps it as long as the tag exists."""

_PAPER: Final = re.compile(r"(?:test|facts)-(?P<short>[0-9a-f]{40})-.+|sha256-(?P<whole>[0-9a-f]{64})(?:\..+)?")
#: The fields that only one release has: a tag with one of them is never moved to a later image.
_FIELDS: Final = {
    "commit": "(?:[0-9a-f]{40}|[0-9a-f]{64})",
    "short-commit": "[0-9a-f]{7}",
    "address": "[0-9a-f]{40}",
}
#: The tag of a commit's image that was built again (:func:`aml_train.image.tags.put_release_tags`).
_BUILT_AGAIN: Final = re.compile("git-[0-9a-f]{7,64}-[0-9a-f]{12}")
_BRANCH: Final = "[A-Za-z0-9_.-]+"
_PULL: Final = r"pull-\d+"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One manifest of a repository.

    Attributes:
        size: bytes of configuration and layers, which other manifests may share; None if unknown.
        updated: when it was pushed, or one of its tags was written; None if unknown.
        tags: names of the tags that point to it.
        children: digests of the manifests that it lists.
        subject: digest of the manifest that it is about (OCI 1.1).
        own_locks: locked tags whose lock aml-train sets itself.
        other_lock: what of it someone else has locked; empty for nothing.
    """

    repository: str
    digest: str
    size: int | None = None
    updated: float | None = None
    tags: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    subject: str | None = None
    own_locks: tuple[str, ...] = ()
    other_lock: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """That something outside the registry uses an image.

    Attributes:
        digest: of the image; None if only a tag is named.
        repository: in which; None for any that is no candidates' repository.
        tag: the tag that is named instead of a digest.
        by: who uses it, such as ``the model digits:7``.
    """

    digest: str | None
    by: str
    repository: str | None = None
    tag: str | None = None


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Everything that a plan is made from.

    Attributes:
        host: the registry, for people.
        entries: the manifests of the project's repository and of its candidates' one.
        untagged_listed: whether the registry lists manifests without tags; if not, there may be more of them.
        uses: who uses which image.
        now: when it was taken.
    """

    host: str
    entries: tuple[Entry, ...]
    untagged_listed: bool
    uses: tuple[Use, ...]
    now: float


@dataclass(frozen=True, kw_only=True)
class PrunePolicy:
    """The images that are kept although nothing uses them.

    Attributes:
        older_than: seconds since the last push or tag, after which an image goes.
        keep_tags: patterns with ``*`` and ``?`` of tags that keep their image.
        templates: ``image.tags`` of the configuration.
    """

    older_than: float
    keep_tags: tuple[str, ...] = ()
    templates: tuple[str, ...] = DEFAULT_TAGS


class TagReader:
    """Reads the roles of tags by a policy."""

    def __init__(self, policy: PrunePolicy) -> None:
        self._keep = tuple(re.compile(fnmatch.translate(pattern)) for pattern in policy.keep_tags)
        templates = dict.fromkeys((*DEFAULT_TAGS, *policy.templates))
        self._releases = (_BUILT_AGAIN, *(pattern for one in templates for pattern in _patterns(one)))

    def role(self, repository: str, tag: str) -> Role:
        """Return what *tag* says; ``kept`` for every tag that aml-train does not know."""
        if any(pattern.match(tag) for pattern in self._keep):
            return "kept"
        if repository.endswith(CANDIDATE_SUFFIX) and tag.startswith("candidate-"):
            return "candidate"
        if tag in (CACHE_TAG, LAYERS_TAG):
            return "cache"
        if _PAPER.fullmatch(tag):
            return "paper"
        own = tag.startswith(("addr-", "dig-")) or any(pattern.fullmatch(tag) for pattern in self._releases)
        return "release" if own else "kept"


def subject_of_tag(tag: str) -> str | None:
    """Return the first 40 digits of the digest that a paper's tag names, or None."""
    match = _PAPER.fullmatch(tag)
    return None if match is None else match["short"] or match["whole"][:40]


def _patterns(template: str) -> Sequence[re.Pattern[str]]:
    """Return the patterns of a template's tags that belong to one release alone.

    A branch's tag moves with the branch, so it keeps its image; a pull request's belongs to a release.
    """
    unique = any(f"{{{name}}}" in template for name in _FIELDS)
    if not unique and "{branch}" not in template:
        return ()
    branch = _BRANCH if unique else _PULL
    parts = re.split(r"(\{[a-z-]+\})", template)
    fields = {f"{{{name}}}": pattern for name, pattern in _FIELDS.items()} | {"{branch}": branch}
    return (re.compile("".join(fields.get(part, re.escape(part)) for part in parts)),)
